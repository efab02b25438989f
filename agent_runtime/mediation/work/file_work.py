"""Work from a file: one request from a file, with its result in another, for workspaces with a single piece of work.

It uses the same work service and ledger as the channel: run again on the same data, an unfinished request continues,
and a finished one returns its result again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agent_common.protocol import TaskAssignment, is_assignment
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
"""The principal of such a request: the person who can write the file is the operator."""


def read_request(path: Path, clock: Clock, constraints_version: int) -> WorkRequest:
    """Read a WorkRequest of either dialect, with defaults for missing fields, or a TaskAssignment. Raises StartError
    with the field at fault and a remedy."""
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
    """Implements FrameSender, but keeps only the one result."""

    max_line = sys.maxsize

    def __init__(self, request_id: str, redactor: Redactor) -> None:
        self._request_id = request_id
        self.redactor = redactor
        self.result: asyncio.Future[WorkResult] = asyncio.get_running_loop().create_future()

    def send(self, frame: BaseModel, *, droppable: bool = False) -> None:
        del droppable
        if isinstance(frame, WorkResult) and frame.request_id == self._request_id and not self.result.done():
            self.result.set_result(redact_frame(frame, self.redactor))

    async def flush(self) -> None:
        return


async def run_file_request(work_service: WorkService, request: WorkRequest, redactor: Redactor) -> WorkResult:
    """Return the request's result, even if it takes several processes. After a cancellation the next one continues
    it."""
    collector = _ResultCollector(request.request_id, redactor)
    work_service.attach(collector, ResumeOk())
    work_service.submit(request)
    result = await collector.result
    await work_service.acknowledge(request.request_id)
    return result


def write_result(path: Path, result: WorkResult) -> None:
    """Write the result atomically and durably. In the folder, which may be the agent's own, obstacles are removed and
    links not followed. Raises StartError."""
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
    """Return the request with defaults. Its id is a hash of the file unless it names one, so the same file is the same
    work."""
    made = f"file-{hashlib.sha256(raw).hexdigest()[:16]}"
    if is_assignment(value):
        return _of_task(value, made)
    if "content" not in value:
        raise FrameFault("invalid_request", "content: is missing; describe the work, or send a TaskAssignment")
    principal: Any = value.get("principal", OPERATOR_PRINCIPAL)
    known = {**OPERATOR_PRINCIPAL, "name": principal} if isinstance(principal, str) else principal
    unknown = value.keys() - WorkRequest.model_fields.keys()
    if unknown:
        raise FrameFault("invalid_request", f"{sorted(unknown)[0][:100]}: unknown field; remove it")
    return {"request_id": made, **value, "principal": known}


def _unset_cost_limit(given: TaskAssignment) -> dict[str, Any]:
    """Return the cost limit's field name if the limit is only a default, to leave it out: an explicit one is
    stricter."""
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
