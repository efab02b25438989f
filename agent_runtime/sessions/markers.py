"""Compaction markers: a message that holds the summary and says where the verbatim rest begins
(docs/reference/compaction.md#on-the-wire). Nothing before it is hidden or deleted: the latest visible marker decides
what the model sees.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

from agent_common.protocol import Usage, is_object

from .store import rows
from .store.rows import MessageRow, PartRow

COMPACTION = "data-compaction"
MAX_SKILLS = 20
_SKILL = re.compile(r"[a-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A tool result of the tail that is shown only in part, because the whole would not fit."""

    message_id: str
    """The user message of its turn."""
    call_id: str
    kept: int
    """Characters that are shown."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The summary that replaces all messages before the tail."""

    summary: str
    """Empty if no message was left out and only results are shortened."""
    summary_tokens: int
    auto: bool
    """False if a person asked for the compaction."""
    tail_start_id: str | None = None
    """The user message that the tail begins with; None: nothing is kept verbatim."""
    tail_start_step: int = 0
    """The step of that message's turn, counted from 1, with which the tail continues; 0 or 1: no step is left out."""
    spoken_to: str = ""
    """The agent that the last message before the tail was addressed to."""
    shortened: tuple[Shortened, ...] = ()
    skills: tuple[str, ...] = ()
    """The skill packages whose instructions are not shown any more, the one loaded last at the end."""

    def to_part(self) -> dict[str, Any]:
        """Return the marker as the only part of its message."""
        data: dict[str, Any] = {
            "summary": self.summary,
            "tail_start_id": self.tail_start_id,
            "auto": self.auto,
            "summary_tokens": self.summary_tokens,
        }
        if self.tail_start_step > 1:
            data["tail_start_step"] = self.tail_start_step
        if self.spoken_to:
            data["spoken_to"] = self.spoken_to
        if self.shortened:
            data["shortened"] = [[one.message_id, one.call_id, one.kept] for one in self.shortened]
        if self.skills:
            data["skills"] = list(self.skills)
        return {"type": COMPACTION, "data": data}

    @classmethod
    def from_part(cls, part: Mapping[str, Any]) -> Marker | None:
        """Return the marker in a part; None if the part is not a usable marker."""
        data: Any = part.get("data")
        if part.get("type") != COMPACTION or not is_object(data) or not isinstance(data.get("summary"), str):
            return None
        start: Any = data.get("tail_start_id")
        whom: Any = data.get("spoken_to")
        return cls(
            summary=data["summary"],
            summary_tokens=_number(data.get("summary_tokens")),
            auto=data.get("auto") is True,
            tail_start_id=start if isinstance(start, str) else None,
            tail_start_step=_number(data.get("tail_start_step")),
            spoken_to=whom if isinstance(whom, str) else "",
            shortened=tuple(_shortened(data.get("shortened"))),
            skills=skill_names(data.get("skills")),
        )

    def omits_step(self, message_id: str, step: int) -> bool:
        """Return whether that step of the user message's turn is left out, although the message itself is kept."""
        return message_id == self.tail_start_id and step < self.tail_start_step

    def with_ids(self, ids: Mapping[str, str]) -> Marker:
        """Return the marker with message ids replaced by `ids`."""
        start = self.tail_start_id
        return replace(
            self,
            tail_start_id=ids.get(start, start) if start is not None else None,
            shortened=tuple(replace(one, message_id=ids.get(one.message_id, "")) for one in self.shortened),
        )


@dataclass(frozen=True, slots=True)
class Marked:
    """A marker and its position."""

    message_id: str
    created_at: int
    marker: Marker


def skill_names(value: Any) -> tuple[str, ...]:
    """Return the names of skill packages in a list, at most MAX_SKILLS of its end, and nothing else that is in it."""
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(one for one in found if isinstance(one, str) and _SKILL.fullmatch(one))[-MAX_SKILLS:]


def insert(connection: sqlite3.Connection, row: MessageRow, part_id: str, marker: Marker) -> None:
    """Store the marker as a message. The row's metadata may hold `usage`, the usage of the summary."""
    rows.upsert_message(connection, row)
    rows.upsert_part(connection, PartRow(part_id, row.id, row.session_id, 0, marker.to_part(), row.created_at))
    usage = Usage.model_validate(row.metadata.get("usage", {}))
    rows.add_usage(connection, row.session_id, usage, row.created_at)


def latest(connection: sqlite3.Connection, session_id: str) -> Marked | None:
    """Return the marker that applies: the last one that no rewind has hidden."""
    found = connection.execute(_SHOWN, (session_id,))
    for row in found:
        marker = Marker.from_part(rows.load(row["data_json"]))
        if marker is not None:
            return Marked(row["id"], row["created_at"], marker)
    return None


_SHOWN = f"""
SELECT m.id, m.created_at, p.data_json FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
WHERE p.session_id = ? AND p.type = '{COMPACTION}' AND m.role = 'assistant'
  AND json_extract(m.metadata_json, '$.hidden_at') IS NULL
ORDER BY m.created_at DESC, m.id DESC
"""  # noqa: S608  it is a constant


def summary_usage(connection: sqlite3.Connection, session_id: str) -> Usage:
    """Return the usage of all summaries of a session, including hidden ones."""
    found = connection.execute(_ALL, (session_id,))
    usages = (Usage.model_validate(rows.load(row["metadata_json"]).get("usage", {})) for row in found)
    return reduce(Usage.plus, usages, Usage())


_ALL = f"""
SELECT m.metadata_json FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
WHERE p.session_id = ? AND p.type = '{COMPACTION}' AND m.role = 'assistant'
"""  # noqa: S608  it is a constant


def _number(value: Any) -> int:
    """Return a stored count; 0 for a value from an import that is not one."""
    return value if type(value) is int and value >= 0 else 0


def _shortened(value: Any) -> Sequence[Shortened]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [Shortened(*one) for one in map(_triple, found) if one is not None]


def _triple(value: Any) -> tuple[str, str, int] | None:
    match value:
        case [str(message_id), str(call_id), int(kept)] if kept >= 0:
            return message_id, call_id, kept
        case _:
            return None
