"""Messages in the roles, and with the number of calls, that the chat template of a model takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  messages of our own, or of a call that was checked

_ASSISTANT = b'{"role":"assistant"'
_TOOL = b'{"role":"tool"'
_SYSTEM = re.compile(rb'\A\{"role":"(?:system|developer)"')


def without_system_role(messages: Sequence[bytes]) -> list[bytes]:
    """Return messages of which the system's are the user's."""
    return [_SYSTEM.sub(b'{"role":"user"', message) for message in messages]


def with_single_calls(messages: Sequence[bytes]) -> list[bytes]:
    """Return messages of which each has one call at most, with its result behind it. Text and reasoning of a message
    with several calls stay with the first."""
    single: list[bytes] = []
    at = 0
    while at < len(messages):
        behind = at + 1
        while behind < len(messages) and messages[behind].startswith(_TOOL):
            behind += 1
        if messages[at].startswith(_ASSISTANT) and b'"tool_calls":' in messages[at]:
            single += _split(messages[at], messages[at + 1 : behind])
        else:
            single += messages[at:behind]
        at = behind
    return single


def _split(message: bytes, results: Sequence[bytes]) -> Iterator[bytes]:
    """Yield each call of a message with its results, and last the results of none."""
    content: dict[str, Any] = from_json(message)
    calls: list[dict[str, Any]] = content.get("tool_calls") or []
    if len(calls) < 2:
        yield from (message, *results)
        return
    left = [(from_json(result).get("tool_call_id"), result) for result in results]
    for number, call in enumerate(calls):
        about = content if number == 0 else {"role": "assistant", "content": None}
        yield to_json(about | {"tool_calls": [call]})
        yield from (result for given, result in left if given == call.get("id"))
        left = [(given, result) for given, result in left if given != call.get("id")]
    yield from (result for _, result in left)
