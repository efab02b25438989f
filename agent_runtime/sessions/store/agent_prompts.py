"""The prompt of each agent in a session: fixed when it first answers there, and kept over restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_common.protocol import is_object

from .rows import OUTSIDE_TEXT, dump
from .rows import load as read

IMPORTED = "imported"
"""Marks the metadata of a session whose prompts came with an import: they are replaced before any model sees them."""


@dataclass(frozen=True, slots=True)
class AgentPrompt:
    """A prompt, the digest under which it is stored, and the order in which the model sees the tools."""

    prompt: str
    digest: str
    tools: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """The skill packages that the prompt lists: name -> where it was found."""


def add(connection: sqlite3.Connection, session_id: str, agent: str, prompt: AgentPrompt) -> None:
    """Store the prompt of an agent that answers in another agent's session. Does nothing if it is stored already."""
    connection.execute("INSERT OR IGNORE INTO system_prompts VALUES (?, ?)", (prompt.digest, prompt.prompt))
    kept = dump({"packages": dict(prompt.packages), "digest": prompt.digest, "tools": list(prompt.tools)})
    connection.execute(
        "UPDATE chat_sessions SET metadata_json = json_insert(metadata_json, '$.briefs', json('{}'))"
        " WHERE id = ? AND json_extract(metadata_json, '$.briefs') IS NULL",
        (session_id,),
    )
    connection.execute(
        "UPDATE chat_sessions SET metadata_json = json_set(metadata_json, :path, json(:kept))"
        " WHERE id = :id AND json_extract(metadata_json, :path || '.digest') IS NOT :digest",
        {"path": f'$.briefs."{agent}"', "kept": kept, "id": session_id, "digest": prompt.digest},
    )


def replace_imported(connection: sqlite3.Connection, session_id: str, prompt: AgentPrompt) -> None:
    """Store this agent's own prompt in place of those that came with an imported session. From then on it is a session
    like others that hold text from outside."""
    connection.execute("INSERT OR IGNORE INTO system_prompts VALUES (?, ?)", (prompt.digest, prompt.prompt))
    row = connection.execute("SELECT metadata_json FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
    metadata = {key: value for key, value in read(row[0]).items() if key not in ("packages", "briefs", IMPORTED)}
    metadata |= {"system_prompt_digest": prompt.digest, "tools": list(prompt.tools), OUTSIDE_TEXT: True}
    if prompt.packages:
        metadata["packages"] = dict(prompt.packages)
    connection.execute("UPDATE chat_sessions SET metadata_json = ? WHERE id = ?", (dump(metadata), session_id))


def reorder(connection: sqlite3.Connection, *, session_id: str, agent: str, own: bool, tools: Sequence[str]) -> None:
    """Store a new order of tools; `own` says that the session is this agent's own."""
    path = "$.tools" if own else f'$.briefs."{agent}".tools'
    connection.execute(
        "UPDATE chat_sessions SET metadata_json = json_replace(metadata_json, ?, json(?)) WHERE id = ?",
        (path, dump(list(tools)), session_id),
    )


def load(connection: sqlite3.Connection, metadata: Mapping[str, Any]) -> dict[str, AgentPrompt]:
    """Return the prompts of a session's other agents. One whose text is missing after an import is left out."""
    kept: Any = metadata.get("briefs")
    found: dict[str, AgentPrompt] = {}
    for agent, one in kept.items() if is_object(kept) else ():
        digest, tools = (one.get("digest"), one.get("tools")) if is_object(one) else (None, None)
        if not isinstance(digest, str):
            continue
        row = connection.execute("SELECT body FROM system_prompts WHERE digest = ?", (digest,)).fetchone()
        if row is not None and isinstance(tools, list):
            names = tuple(map(str, tools))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            found[agent] = AgentPrompt(row["body"], digest, names, packages_of(one))
    return found


def packages_of(kept: Mapping[str, Any]) -> dict[str, str]:
    """Return the packages stored with a prompt or a session; empty for rows older than skill packages."""
    packages: Any = kept.get("packages")
    return {name: str(source) for name, source in packages.items()} if is_object(packages) else {}
