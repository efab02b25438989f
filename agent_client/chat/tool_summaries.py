"""A tool call in a few words: what it is about, what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from agent_common.protocol import is_object

from .events import ToolResult
from .turn_reader import QUESTION_TOOL

_ARGUMENTS = {
    "bash": "command",
    "glob": "pattern",
    "grep": "pattern",
    "web_fetch": "url",
    "web_search": "query",
    "task": "prompt",
    "skill": "name",
    "memory_search": "query",
    "memory_save": "text",
    "memory_forget": "id",
    "learn": "correction",
    "tool_search": "query",
}
"""The argument that says most; of `read`, `write` and `edit` and of unknown tools it is `path`, or the first text."""


def tool_summary(name: str, given: Any) -> str:
    """Return in a few words what a call is about."""
    if not is_object(given):
        return "" if given is None else str(given)
    if name == "todo":
        return _count(len(items(given.get("todos"))), "item")
    if name == QUESTION_TOOL:
        return ""
    key = _ARGUMENTS.get(name, "path")
    chosen = given.get(key) or next((value for value in given.values() if isinstance(value, str)), None)
    text = chosen if isinstance(chosen, str) else json.dumps(given, ensure_ascii=False) if given else ""
    first, *more = text.strip().split("\n")
    if name == "task":
        return f"{given.get('subagent_type')}: {first}"
    where = f" in {given['path']}" if name in ("grep", "glob") and given.get("path") else ""
    return first + (" …" if more else "") + where


def tool_error(result: ToolResult) -> str | None:
    """Return why the call failed; None if it did not."""
    if result.error is not None:
        return result.error
    output = result.output
    if is_object(output) and output.get("type") == "error":
        return str(output.get("error_text", "failed"))
    code = output_member(result, "data").get("exit_code")
    return f"exit {code}" if result.name == "bash" and code else None


def tool_outcome(result: ToolResult) -> str:
    """Return in a few words what came of a call."""
    data = output_member(result, "data")
    describe = _OUTCOMES.get(result.name)
    try:
        return describe(data) if describe else ""
    except (KeyError, TypeError, ValueError):  # another version of the tool
        return ""


def tool_seconds(result: ToolResult) -> float | None:
    """Return how long the call took, if its tool says."""
    taken = output_member(result, "metadata").get("duration_ms")
    return taken / 1000 if isinstance(taken, int | float) else None


def duration(seconds: float) -> str:
    """Return a time as people read it: `0.3s`, `12s`, `1m 05s`, `2h 05m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h {minutes % 60:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def items(value: Any) -> list[Any]:
    """Return a list that a model or a tool has given; an empty one in place of anything else."""
    return cast(list[Any], value) if isinstance(value, list) else []


def output_member(result: ToolResult, name: str) -> Mapping[str, Any]:
    """Return an object within the output of a call; an empty one if there is none."""
    value = result.output.get(name) if is_object(result.output) else None
    return value if is_object(value) else {}


def _read_outcome(data: Mapping[str, Any]) -> str:
    lines = data["range"]
    return (
        _count(lines["last"] - lines["first"] + 1, "line")
        if lines["unit"] == "lines"
        else f"{data['total_bytes']} bytes"
    )


_OUTCOMES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "read": _read_outcome,
    "edit": lambda data: f"+{data['lines_added']} -{data['lines_removed']}",
    "write": lambda data: "new" if data["created"] else "",
    "glob": lambda data: _count(len(data["entries"]), "entry", "entries"),
    "grep": lambda data: _count(len(data["matches"]), "match", "matches"),
    "web_search": lambda data: _count(len(data["results"]), "result"),
    "memory_search": lambda data: _count(len(data["results"]), "result"),
    "web_fetch": lambda data: str(data["status"]),
}


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
