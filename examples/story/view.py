"""The story in the terminal: what each agent does with what they share, and a table of what is left."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent_client import ChatEvent, ToolCall, ToolResult
from agent_client.sync import SyncMesh
from agent_common.protocol import Cause, is_object

COLORS = {"researcher": "cyan", "writer": "magenta"}
UNSEEN = ("tool_search",)
INDENT = 19
MESSAGE = 160
"""Characters of a message that are shown."""


class StoryView:
    """Prints the tool calls of one agent after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._calls: dict[str, ToolCall] = {}
        self.handed_off: str | None = None
        """The work that the agent has given to another, if it did."""

    def show(self, agent: str, events: Iterable[ChatEvent]) -> None:
        """Print what an agent does, up to the end of its task."""
        self._console.print(Text(f"\n{agent}", style=f"bold {COLORS.get(agent, '')}"))
        self.handed_off = None
        for event in events:
            if isinstance(event, ToolCall):
                self._calls[event.id] = event
            elif isinstance(event, ToolResult) and event.id in self._calls:
                self._print(self._calls.pop(event.id), event)

    def _print(self, call: ToolCall, result: ToolResult) -> None:
        if call.name in UNSEEN:
            return
        data = _object(_object(result.output).get("data"))
        if call.name == "hand_off" and "request_id" in data:
            self.handed_off = str(data["request_id"])
        given = _object(call.input)
        failure = result.error or str(_object(result.output).get("error_text") or "")
        note, detail = ("failed", failure) if failure else _outcome(call.name, given, data)
        line = Text(f"  {call.name:17}", style="bold").append(f"{_target(given):17}", style="not bold")
        self._console.print(line.append(note, style="not bold"))
        if detail:
            self._console.print(Padding(Text(detail, style="red" if failure else "dim"), (0, 0, 0, INDENT)))


def _outcome(tool: str, given: dict[str, Any], data: dict[str, Any]) -> tuple[str, str]:
    """Return what is worth telling of a call, and what goes into lines of its own."""
    version = f"version {data.get('version')}"
    match tool:
        case "write_blackboard":
            condition = (
                f"if it was still version {given['if_version']}" if "if_version" in given else "if there was none"
            )
            note = f"{version}, {condition}" if data.get("written") else "somebody else was first"
            return note, json.dumps(given.get("value"))
        case "read_blackboard":
            return f"{version}, by {data.get('updated_by')}", json.dumps(data.get("value"))
        case "save_artifact" | "get_artifact":
            return f"{version}, {data.get('size')} bytes", ""
        case "hand_off":
            return "", f"“{_clipped(' '.join(str(given.get('message')).split()), MESSAGE)}”"
        case "ask_agent":
            answer = _object(data.get("response")).get("text", "")
            return "", f"“{given.get('message')}”\n“{_clipped(str(answer), MESSAGE)}”"
        case "publish_event":
            return f"message {data.get('seq')}", json.dumps(given.get("data"))
        case _:
            return "", ""


def show_what_is_left(console: Console, mesh: SyncMesh, team: str, topic: str) -> None:
    """Print a table of all that the team shares now, with who made it in which task."""
    shared = mesh.team(team)
    table = Table(
        "what is left", "name", "version", "by", "in the task", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for entry in shared.blackboard.list():
        table.add_row("entry", entry.key, str(entry.version), entry.updated_by, _task(entry.cause))
    for made in shared.artifacts.list():
        table.add_row("artifact", made.name, str(made.version), made.updated_by, _task(made.cause))
    for message in shared.topics.read(topic):
        table.add_row("message", f"{topic} {message.seq}", "", message.by, _task(message.cause))
    console.print()
    console.print(table)


def _task(cause: Cause) -> str:
    return _clipped(cause.task or "", 16)


def _target(given: dict[str, Any]) -> str:
    return next((str(given[name]) for name in ("key", "name", "agent", "topic", "path") if name in given), "")


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
