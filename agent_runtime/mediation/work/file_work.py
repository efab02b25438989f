"""The file door: one request from a file, its result into another, for workspaces that live for one piece of work.

It is the same clerk and the same ledger as on the channel: started again over the same data, the request goes on where
it was, and one that has ended gives its result once more.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agent_common.protocol import TaskAssignment
from agent_common.protocol.work import (
    MAX_LINE,
    FrameFault,
    ResumeOk,
    WorkRequest,
    WorkResult,
    decode,
    read_loose_request,
    to_rfc3339,
)
from agent_common.redaction import Redactor

from ...errors import StartError
from ...ports import Clock
from ..redaction import redact_frame
from .work_service import WorkService

OPERATOR_PRINCIPAL = {"name": "operator", "kind": "user", "verified": True, "verified_by": "file"}
"""Whoever can put a file there is the operator."""


def read_request(path: Path, clock: Clock, constraints_version: int) -> WorkRequest:
    """A WorkRequest of either dialect, whose missing fields are filled in, or a TaskAssignment. Raises StartError that
    names the field and the fix."""
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_LINE + 1)
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > MAX_LINE:
        raise StartError(f"{path} is larger than {MAX_LINE} bytes")
    try:
        value = decode(raw.strip())
        return read_loose_request(
            _with_defaults(value, raw), now=to_rfc3339(clock.now_ms()), constraints_version=constraints_version
        )
    except FrameFault as error:
        raise StartError(f"{path}: {error}") from error


class _ResultCollector:
    """Fills Post: nothing but the one result is kept."""

    max_line = sys.maxsize

    def __init__(self, request_id: str, redactor: Redactor) -> None:
        self._request_id, self.redactor = request_id, redactor
        self.result: asyncio.Future[WorkResult] = asyncio.get_running_loop().create_future()

    def send(self, frame: BaseModel, *, droppable: bool = False) -> None:
        del droppable
        if isinstance(frame, WorkResult) and frame.request_id == self._request_id and not self.result.done():
            self.result.set_result(redact_frame(frame, self.redactor))

    async def flush(self) -> None:
        return


async def run_file_request(work_service: WorkService, request: WorkRequest, redactor: Redactor) -> WorkResult:
    """The request's result, however many lives it has taken. Cancelled, the work goes on in the next one."""
    tray = _ResultCollector(request.request_id, redactor)
    work_service.attach(tray, ResumeOk())
    work_service.submit(request)
    result = await tray.result
    await work_service.acknowledge(request.request_id)
    return result


def write_result(path: Path, result: WorkResult) -> None:
    """Whole or not at all, also through a power cut. The folder may be the agent's own: what stands in the way there is
    taken away, and no link is followed. Raises StartError."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        with part.open("x", encoding="utf-8") as opened:
            opened.write(result.model_dump_json(indent=2, exclude_none=True) + "\n")
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(path)
    except OSError as error:
        raise StartError(f"{path} cannot be written: {error.strerror}; the result is kept, run it again") from error


def _with_defaults(value: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The id is that of the content unless it has one: the same file is the same work."""
    made = f"file-{hashlib.sha256(raw).hexdigest()[:16]}"
    if "input_data" in value and "task_type" in value:
        return _of_task(value, made)
    if "content" not in value:
        raise FrameFault("invalid_request", "content: is missing; say what is to be done, or send a TaskAssignment")
    principal: Any = value.get("principal", OPERATOR_PRINCIPAL)
    known = {**OPERATOR_PRINCIPAL, "name": principal} if isinstance(principal, str) else principal
    unknown = value.keys() - WorkRequest.model_fields.keys()
    if unknown:
        raise FrameFault("invalid_request", f"{sorted(unknown)[0][:100]}: there is no such field; remove it")
    return {"request_id": made, **value, "principal": known}


def _unset_cost_limit(given: TaskAssignment) -> dict[str, Any]:
    """A limit on cost binds harder when it was set explicitly, so one that was not is left out."""
    budget = given.token_budget
    by_default = budget is not None and "max_cost_usd" not in budget.model_fields_set
    return {"token_budget": {"max_cost_usd"}} if by_default else {}


def _of_task(value: dict[str, Any], made: str) -> dict[str, Any]:
    try:
        given = TaskAssignment.model_validate({"task_id": made, **value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise FrameFault("invalid_request", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return {
        "request_id": given.task_id,
        "principal": OPERATOR_PRINCIPAL,
        "content": given.model_dump_json(exclude_none=True, exclude=_unset_cost_limit(given)),
        "content_kind": "structured",
    }
