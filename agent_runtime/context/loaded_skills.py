"""Find the skill packages that a conversation has loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic_core import from_json  # noqa: TID251  messages of our own making

SKILL_TOOL = "skill"
_FAILED = '{"type":"error"'


def loaded_skills(messages: Iterable[bytes]) -> Iterator[str]:
    """Yield the packages that calls of `skill` have loaded, in the order of their results."""
    asked: dict[str, Any] = {}
    for message in messages:
        if not asked and b'"skill"' not in message:
            continue
        parsed: dict[str, Any] = from_json(message)
        if parsed["role"] == "assistant":
            calls: list[dict[str, Any]] = parsed.get("tool_calls") or []
            asked = {
                call["id"]: from_json(call["function"]["arguments"]).get("name")
                for call in calls
                if call["function"]["name"] == SKILL_TOOL
            }
        elif parsed["role"] == "tool" and not parsed["content"].startswith(_FAILED):
            name = asked.get(parsed["tool_call_id"])
            if isinstance(name, str):
                yield name
