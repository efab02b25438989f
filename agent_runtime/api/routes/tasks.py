"""`/task` and `/result`: take assignments, return records and results."""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from agent_common.protocol import NoQuery, RecordStatus, ResultQuery, TaskAssignment, TaskRecord, TaskResult, TasksQuery

from ...errors import InvalidRequest, NotFound
from ...loop import list_tasks
from ..dependencies import (
    Services,
    get_services,
    parse_query,
    principal,
    read_body,
    require_accepting,
    user_in_header,
)
from ..responses import as_json, live_stream, model_response, recorded_stream

router = APIRouter(tags=["tasks"])
UNFINISHED: frozenset[RecordStatus] = frozenset({"queued", "running", "waiting"})


@router.post("/task", status_code=202)
async def assign(request: Request) -> Response:
    """Admit a task. The same task again returns its record; other content under its id is a conflict."""
    at = require_accepting(request)
    assignment = await _assignment(request)
    assigned = await at.tasks.assign(assignment, principal(request))
    return model_response(assigned.accepted, 202) if assigned.accepted else model_response(assigned.record)


@router.get("/tasks")
async def tasks(request: Request) -> Response:
    """List tasks, the newest first: of the user in the header or the query, else of all users."""
    asked = parse_query(request, TasksQuery, lists=("status",))
    user = principal(request, asked.user) if user_in_header(request) or asked.user else None
    return model_response(await list_tasks(get_services(request).tasks, user, asked))


@router.get("/task/{task_id}")
async def record(request: Request, task_id: str) -> Response:
    """Return the current record of the task."""
    parse_query(request, NoQuery)
    return model_response(await get_services(request).tasks.record(task_id, principal(request)))


@router.post("/task/{task_id}/cancel")
async def cancel(request: Request, task_id: str) -> Response:
    """Cancel a task that is queued or running. A second cancellation changes nothing."""
    return model_response(await get_services(request).tasks.cancel(task_id, principal(request)))


@router.get("/task/{task_id}/stream")
async def stream(request: Request, task_id: str) -> Response:
    """Stream the task's chunks from the first one, then live while it runs."""
    parse_query(request, NoQuery)
    at = get_services(request)
    turn = await at.tasks.turn(task_id, principal(request))
    if turn is not None:
        return live_stream(turn, at.loop.admission)
    found = await at.tasks.record(task_id, principal(request))
    return recorded_stream(await at.tasks.reply(task_id, principal(request)), found.error)


@router.get("/result")
async def result(request: Request) -> Response:
    """Return the result of a task, or without an id of the one that finished last; 202 while the task is unfinished."""
    asked = parse_query(request, ResultQuery)
    user = principal(request)
    at = get_services(request)
    if asked.task_id is None:
        latest = await at.tasks.latest(user)
        if latest is None:
            raise NotFound("no task has finished yet", code="no_result")
        return model_response(_result(latest))
    if asked.wait:
        await _wait(at, asked.task_id, user, asked.wait)
    found = await at.tasks.record(asked.task_id, user)
    if found.status in UNFINISHED:
        return as_json({"task_id": found.task_id, "status": found.status}, 202)
    return model_response(_result(found))


async def _assignment(request: Request) -> TaskAssignment:
    """Parse the assignment. If it has no id, the Idempotency-Key is its id; quotes around it are left out."""
    assignment = await read_body(request, TaskAssignment)
    key = request.headers.get("idempotency-key")
    if not key or "task_id" in assignment.model_fields_set:
        return assignment
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    try:
        return TaskAssignment.model_validate({**assignment.model_dump(exclude_unset=True), "task_id": key})
    except ValidationError:
        fault = "must be 1 to 200 letters, digits and . _ : -, the first of them a letter or digit"
        raise InvalidRequest("no task can have this id", faults=[("Idempotency-Key", fault)]) from None


async def _wait(services: Services, task_id: str, user: str, seconds: float) -> None:
    turn = await services.tasks.turn(task_id, user)
    if turn is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await turn.ended.wait()


def _result(record: TaskRecord) -> TaskResult:
    return TaskResult.model_validate(record.model_dump())
