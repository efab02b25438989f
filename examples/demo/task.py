"""A task over the runtime's HTTP face: hand it in, watch it, fetch its result."""

from __future__ import annotations

from collections.abc import Generator

import httpx
from pydantic import ValidationError

from agent_runtime.protocol import TaskAssignment, TaskResult, chunks

from .mesh import checked


def submit(agent: httpx.Client, assignment: TaskAssignment) -> str:
    body = assignment.model_dump(mode="json", exclude_unset=True) | {"task_id": assignment.task_id}
    return checked(agent.post("/task", json=body)).json()["task_id"]


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


def result_of(agent: httpx.Client, task_id: str) -> TaskResult:
    """Waits for the end of the task."""
    while True:
        response = checked(agent.get("/result", params={"task_id": task_id, "wait": 30}))
        if response.status_code != 202:
            return TaskResult.model_validate_json(response.content)
