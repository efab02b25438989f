"""How a script runs without memory: at each call it is played again from the start over what the messages hold.

A script is a generator. It yields the tool calls that it wants, is sent their results, and returns its final words.
Being deterministic, it comes to the same point each time, and the first call without a result is the next one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json

from agent_common.protocol import without_notes

from .json_access import as_object, object_list, text_of

NOTE = "demo model"


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call that a script wants, and what it says while making it."""

    tool: str
    arguments: dict[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What came of an action. `error` is None when the tool did its part."""

    data: Any = None
    error: str | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """A member of the data; `default` when there is none."""
        return as_object(self.data).get(key, default)


Script = Generator[Action, ReplayResult, str]


@dataclass(frozen=True, slots=True)
class ReplayTurn:
    """What the messages of a request say about the turn that is running."""

    text: str
    """The user's message."""
    results: Sequence[ReplayResult]
    """Of the tool calls so far, in their order."""
    called: frozenset[str]
    """Names of the tools that were called so far."""
    tools: frozenset[str]
    """Names of the tools on offer."""
    may_call: bool
    """False when the request forbids calls."""


def next_move(script: Script, turn: ReplayTurn) -> Action | str:
    """The next tool call, or the final words."""
    results = iter(turn.results)
    try:
        wanted = next(script)
        while True:
            result = _outcome(wanted, turn, results)
            if result is None:
                return wanted
            wanted = script.send(result)
    except StopIteration as end:
        return cast("str", end.value)


def _outcome(wanted: Action, turn: ReplayTurn, results: Any) -> ReplayResult | None:
    """What the action came to; None when it is still to be done."""
    if wanted.tool not in turn.tools:
        return ReplayResult(error=f"there is no tool {wanted.tool!r} on offer")
    known: ReplayResult | None = next(results, None)
    if known is None and not turn.may_call:
        return ReplayResult(error="no further tool calls were allowed")
    return known


# ---------------------------------------------------------------- reading a request


def read_turn(payload: Mapping[str, Any]) -> ReplayTurn:
    """The running turn: what follows the last answer that asked for no tool."""
    messages = object_list(payload["messages"])
    start = max((at + 1 for at, message in enumerate(messages) if _is_final(message)), default=0)
    turn = messages[start:]
    roles = [message.get("role") for message in turn]
    first_reply = roles.index("assistant") if "assistant" in roles else len(turn)
    asked = [text_of(message.get("content")) for message in turn[:first_reply] if message.get("role") == "user"]
    return ReplayTurn(
        text=without_notes(asked[-1]) if asked else "",
        results=[_result(message) for message in turn if message.get("role") == "tool"],
        called=frozenset(_names(call for message in turn for call in object_list(message.get("tool_calls")))),
        tools=frozenset(_names(object_list(payload.get("tools")))),
        may_call=payload.get("tool_choice") != "none",
    )


def _names(functions: Iterable[dict[str, Any]]) -> list[str]:
    """Of tools and of calls alike."""
    return [str(as_object(one.get("function")).get("name")) for one in functions]


def _is_final(message: dict[str, Any]) -> bool:
    return message.get("role") == "assistant" and not message.get("tool_calls")


def _result(message: dict[str, Any]) -> ReplayResult:
    """The result in a tool message: an envelope `{type, data}`, or plain text."""
    text = text_of(message.get("content"))
    try:
        envelope = as_object(from_json(text))
    except ValueError:
        return ReplayResult(text)
    if "type" not in envelope:
        return ReplayResult(text)
    data = envelope.get("data")
    failed = envelope["type"] != "output"
    return ReplayResult(data, str(envelope.get("error_text") or data or "the tool failed") if failed else None)
