"""Work for the agent, handed in at the mesh: its listener gives it to the agent, and gets the result back."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx
from pydantic import ValidationError
from rich.console import Console

from agent_common.protocol import TaskAssignment, TaskResult, chunks

from .mesh import AGENT, DemoError, require_success

SIGNALS = {
    "dispatched": "WorkRequest  the host has it on disk, and sends it",
    "accepted": "accepting    the agent has it on disk, and begins",
    "resulted": "WorkResult   the host has it on disk",
}
"""What is seen of the channel, by the state of the request on the host."""


def submit(operator: httpx.Client, assignment: TaskAssignment) -> str:
    """The assignment as a WorkRequest; its id is that of the task."""
    content = assignment.model_dump_json(exclude_unset=True, exclude={"task_id"})
    request = {"request_id": assignment.task_id, "content_kind": "structured", "content": content}
    return require_success(operator.post("/work", json={"workspace": AGENT, "request": request})).json()["request_id"]


@contextmanager
def show_signals(operator: httpx.Client, request_id: str, console: Console) -> Generator[None]:
    """Shows how the request fares on the host, meanwhile."""
    thread = threading.Thread(target=_show, args=(operator, request_id, console), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=5)


def follow(agent: httpx.Client, task_id: str) -> Generator[chunks.AnyChunk]:
    """The chunks of the running task. A stream that breaks ends early: the result does not depend on it."""
    try:
        with agent.stream("GET", f"/task/{task_id}/stream", timeout=None) as response:
            for line in response.iter_lines():
                field, _, data = line.partition(": ")
                if field == "data" and data != "[DONE]":
                    yield chunks.chunk_adapter().validate_json(data)
    except (httpx.TransportError, ValidationError):
        return


def wait_until_started(operator: httpx.Client, request_id: str) -> None:
    """Waits until the agent has the request."""
    for status, _ in _changes(operator, request_id):
        if status not in ("queued", "dispatched"):
            return


def wait_for_result(operator: httpx.Client, request_id: str) -> TaskResult:
    """Waits for the end of the work. Raises DemoError when there is no result."""
    record = next((record for status, record in _changes(operator, request_id) if status == "result"), None)
    if record is None:
        record = require_success(operator.get(f"/work/{request_id}")).json()
    result: dict[str, Any] = record.get("result") or {}
    try:
        return TaskResult.model_validate_json(result.get("content") or "")
    except ValidationError:
        raise DemoError(result.get("error") or record.get("error") or "the work has no result") from None


def _show(operator: httpx.Client, request_id: str, console: Console) -> None:
    shown: set[str] = set()
    for status, record in _changes(operator, request_id):
        name = record["status"]
        if status != "progress" and name in SIGNALS and name not in shown:
            shown.add(name)
            console.print(f"channel {SIGNALS[name]}", style="dim", markup=False, highlight=False)


def _changes(operator: httpx.Client, request_id: str) -> Generator[tuple[str, dict[str, Any]]]:
    """Status changes, and the record at the end."""
    name = ""
    try:
        with operator.stream("GET", f"/work/{request_id}/stream", timeout=None) as response:
            for line in response.iter_lines():
                field, _, data = line.partition(": ")
                if field == "event":
                    name = data
                elif field == "data" and name != "progress":
                    change = json.loads(data)
                    yield (name if name == "result" else str(change["status"])), change
    except httpx.TransportError:
        return
