"""Content and reasoning in all shapes: a text, an object, or a list of parts, under several names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

from ..protocol import is_object

Channel = Literal["text", "reasoning"]
REASONING_MEMBERS = (
    *("reasoning_content", "reasoning", "reasoning_text", "thinking", "thoughts", "thought"),
    *("thinking_content", "reasoning_summary", "cot_summary"),
)
"""Names under which providers send reasoning; the first that says something counts, as some send it twice."""
_REASONING_PARTS = ("thinking", "reasoning", "thought", "summary_text", "redacted_thinking", "analysis")
"""What the types of such parts begin with."""
_TEXT_MEMBERS = ("text", "content", "value", "output_text", "refusal")
_REASONING_PART_MEMBERS = ("thinking", "reasoning", "reasoning_content", "summary", "text", "content")
_CALL_PARTS = ("tool_use", "tool_call", "function_call")
_MAX_DEPTH = 6


def flatten(value: Any, channel: Channel = "text", depth: int = 0) -> Iterator[tuple[Channel, str]]:
    """Yield the texts in a content of any shape, each as text or reasoning. What is neither is passed over."""
    if isinstance(value, str):
        if value:
            yield channel, value
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from flatten(part, channel, depth + 1)
    elif is_object(value):
        kind = value.get("type")
        thought = (isinstance(kind, str) and kind.startswith(_REASONING_PARTS)) or value.get("thought") is True
        inner: Channel = "reasoning" if thought else channel
        members = _REASONING_PART_MEMBERS if inner == "reasoning" else (*_TEXT_MEMBERS, "parts")
        for name in members:
            if value.get(name):
                yield from flatten(value[name], inner, depth + 1)
                return
        if not thought and value.get("thinking"):
            yield from flatten(value["thinking"], "reasoning", depth + 1)


def called_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a content that are calls, as Anthropic's are."""
    if isinstance(content, list):
        for part in cast("list[Any]", content):
            if is_object(part) and part.get("type") in _CALL_PARTS:
                yield part


def reasoning_of(delta: dict[str, Any]) -> tuple[str, str]:
    """Return the reasoning in a delta or a message, and the member in which it stands. Both are empty without any."""
    for name in REASONING_MEMBERS:
        if delta.get(name):
            text = "".join(text for _, text in flatten(delta[name], "reasoning"))
            if text:
                return text, name
    return "", ""


def detailed_reasoning(delta: dict[str, Any]) -> str:
    """Return the reasoning of a provider that sends only a list of blocks."""
    for name in ("reasoning_details", "thinking_blocks"):
        if delta.get(name):
            return "".join(text for _, text in flatten(delta[name], "reasoning"))
    return ""
