"""The demo model: a script instead of a mind, with genuine tool calls. `examples/demo` adds a larger script to it."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from textwrap import indent
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  reads calls that the proxy has checked

from agent_common.clock import Clock
from agent_common.json_reader import JsonLimits, read_json, run_by_size
from agent_common.protocol import without_notes

from ...errors import ProviderFailed
from ..json_access import as_list, as_object, object_list, text_of
from . import wire
from .base import ProviderAnswer, ProviderCall

NOTE = "[demo model]"
_RESULT_LIMITS = JsonLimits(8 << 20, refuse_ambiguous=False)
_QUOTED = 500  # characters of the user's message or of a command's output that are repeated
_RUN = re.compile(r"^[ \t]*run:(.*\S.*)$", re.IGNORECASE | re.MULTILINE)
_AFTER_OBJECTIVE = ("\n\nInput:\n", "\n\nContext:\n", "\n\nWhen the work is done, ")
"""What a runtime writes below the objective of a task."""
_LIST = re.compile(r"\blist (?:the |my |all )?files\b", re.IGNORECASE)
_DIMENSIONS = 256
_MOST_DIMENSIONS = 4096
_MOST_TEXTS = 2048


@dataclass(frozen=True, slots=True)
class DemoMove:
    """The next words of the demo model, and the tool that it calls; None calls no tool."""

    text: str
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


DemoScript = Callable[[dict[str, Any]], DemoMove | None]
"""Decides on a request's body; None leaves the request to the other scripts."""
_scripts: list[tuple[DemoScript, str]] = []


def add_demo_script(script: DemoScript, ability: str) -> None:
    """Have the demo model try a script first; `ability` completes "I can ...". Call it before the host starts."""
    _scripts.append((script, ability))


class DemoProvider:
    """Follows a script, needs no network and no key, and says on every answer that it is a demo model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        yield await run_by_size(len(call.content), partial(self._answer, call))

    async def close(self) -> None:
        pass

    def _answer(self, call: ProviderCall) -> ProviderAnswer:
        payload: dict[str, Any] = from_json(call.content)
        if call.operation == "embeddings":
            return ProviderAnswer(200, wire.JSON_HEADERS, wire.body_parts([to_json(embed(payload))]))
        move = decide(payload)
        tool_call = None
        if move.tool is not None:  # the same id for the same conversation, another at every step of it
            id_source = to_json([len(payload["messages"]), payload["messages"][-1], move.tool, move.arguments])
            name = f"call_{hashlib.sha256(id_source).hexdigest()[:24]}"
            tool_call = wire.ProviderToolCall(name, move.tool, move.arguments)
        completion = wire.make_completion(payload, move.text, tool_call, self._clock.now_ms() // 1000)
        return wire.to_answer(payload, call.streamed, completion)


def decide(payload: dict[str, Any]) -> DemoMove:
    """Return what the scripts have for these messages."""
    for script, _ in _scripts:
        if (move := script(payload)) is not None:
            return move
    messages = object_list(payload["messages"])
    final = (at for at, one in enumerate(messages) if one.get("role") == "assistant" and not one.get("tool_calls"))
    turn = messages[max(final, default=-1) + 1 :]
    first_reply = next((at for at, one in enumerate(turn) if one.get("role") == "assistant"), len(turn))
    asked = [text_of(one.get("content")) for one in turn[:first_reply] if one.get("role") == "user"]
    text = _objective(without_notes(asked[-1])) if asked else ""
    if found := _RUN.search(text):
        command = found[1].strip()
        arguments = {"command": command, "description": "Run what the user asked for"}
        move = DemoMove(f"{NOTE} I run `{command}`.", "bash", arguments)
        tell = partial(_tell_run, command)
    elif _LIST.search(text):
        move = DemoMove(f"{NOTE} I look for files.", "glob", {"pattern": "**/*"})
        tell = _tell_files
    else:
        return _introduce(text)
    result = _use(payload, turn, move)
    return result if isinstance(result, DemoMove) else DemoMove(f"{NOTE} {tell(result)}")


def _objective(text: str) -> str:
    """Return what a person has asked for: of a task its objective, else the whole message."""
    _, named, objective = text.partition("\n\nObjective: ")
    if not named or not text.startswith("Task of type "):
        return text
    for mark in _AFTER_OBJECTIVE:
        objective = objective.partition(mark)[0]
    return objective


def _tell_run(command: str, ran: dict[str, Any] | str) -> str:
    if isinstance(ran, str):
        return f"`{command}` could not be run: {ran}"
    ended = "was stopped at its deadline" if ran.get("timed_out") else f"ended with {ran.get('exit_code')}"
    printed = _short(f"{ran.get('stdout', '')}{ran.get('stderr', '')}".strip())
    return f"`{command}` {ended}" + (f" and printed:\n\n{_verbatim(printed)}" if printed else " without output.")


def _tell_files(found: dict[str, Any] | str) -> str:
    if isinstance(found, str):
        return f"The files could not be listed: {found}"
    entries = (as_object(entry).get("path", entry) for entry in as_list(found.get("entries")))
    names = [name for name in entries if isinstance(name, str)]
    if not names:
        return "There are no files."
    count = "There is 1 file" if len(names) == 1 else f"There are {len(names)} files"
    return f"{count}:\n\n" + _verbatim("\n".join(names))


def _verbatim(text: str) -> str:
    """Return the text as an indented block of code, which Markdown shows as it is."""
    return indent(text, "    ")


def _use(payload: dict[str, Any], turn: list[dict[str, Any]], move: DemoMove) -> DemoMove | dict[str, Any] | str:
    """Return the result of the turn's tool call, why it failed, or the call if it is still to be made."""
    if move.tool not in [as_object(one.get("function")).get("name") for one in object_list(payload.get("tools"))]:
        return f"there is no tool {move.tool!r} on offer"
    results = [text_of(one.get("content")) for one in turn if one.get("role") == "tool"]
    if not results:
        return "no further tool calls were allowed" if payload.get("tool_choice") == "none" else move
    try:
        envelope = as_object(read_json(results[0].encode(), _RESULT_LIMITS))
    except ValueError:
        return {}
    if envelope.get("type", "output") == "output":
        return as_object(envelope.get("data"))
    return str(envelope.get("error_text") or envelope.get("data") or "the tool failed")


def _introduce(text: str) -> DemoMove:
    listing = "list files (`list files`)"
    more = f", {listing}, and {', '.join(ability for _, ability in _scripts)}" if _scripts else f" and {listing}"
    echo = f"You said: {_short(text) or 'nothing'!r}. I can run a command (`run: ls`){more}."
    return DemoMove(
        f"{NOTE} I am a demo model: I follow a script and do not think. {echo} "
        "For answers that mean something give the host a model: `agent down`, then `agent up --provider "
        "openai-compatible`; `agent-host up` takes OPENAI_API_KEY or OPENAI_BASE_URL."
    )


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED else text[:_QUOTED] + " …"


def embed(payload: dict[str, Any]) -> dict[str, Any]:
    """Return OpenAI's embeddings answer: floats, or base64 of little-endian float32. Texts that share words lie close
    together: each word counts for one dimension, by its checksum. Four bytes are a token. Raises ProviderFailed."""
    inputs = as_list(payload["input"]) or [payload["input"]]
    asked = payload.get("dimensions")
    size: int = asked if isinstance(asked, int) and asked > 0 else _DIMENSIONS
    if len(inputs) > _MOST_TEXTS or size > _MOST_DIMENSIONS:
        raise ProviderFailed(f"the demo model embeds at most {_MOST_TEXTS} texts in {_MOST_DIMENSIONS} dimensions")
    data: list[dict[str, Any]] = []
    for index, text in enumerate(map(str, inputs)):
        counts = [0.0] * size
        for word in re.findall(r"\w+", text.lower()) or [""]:
            counts[zlib.crc32(word.encode("utf-8", "replace")) % size] += 1.0
        vector: Any = [count / math.hypot(*counts) for count in counts]
        if payload.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    tokens = sum(-(-len(str(text).encode("utf-8", "replace")) // 4) for text in inputs)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": payload["model"], "data": data, "usage": usage}
