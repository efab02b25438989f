"""HTTP routes of the listener for the operator: submit work, read results, act on channels."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from ...access import require_operator
from ...callback_targets import CallbackTargets
from ...http import JsonRoute
from ..ledger.listing import WorkQuery
from ..ledger.states import ShownStatus
from ..ledger.task_results import result_url_of
from ..listener import Listener
from .schemas import (
    REQUEST_ID,
    AcceptedWork,
    CancelWork,
    ConstraintsView,
    DrainWorkspace,
    PushConstraints,
    SubmitWork,
    WorkPage,
    WorkRecord,
    new_request_id,
)
from .sse import work_events

router = APIRouter(dependencies=[Depends(require_operator)], route_class=JsonRoute)
_CANCEL = CancelWork()
_DRAIN = DrainWorkspace()
_ANY: list[ShownStatus] = []
_LAST_ROW = (1 << 63) - 1
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


def _listener(request: Request) -> Listener:
    return request.app.state.listener


@router.post("/work", status_code=202)
async def submit(
    request: Request,
    body: SubmitWork,
    idempotency_key: Annotated[str | None, Header(max_length=200, pattern=REQUEST_ID)] = None,
) -> Response:
    """Submit work. The same work again returns 200 with its record; other content under the same id returns 409."""
    listener = _listener(request)
    request_id = body.request.request_id or idempotency_key or new_request_id()
    filled = body.request.to_work_request(request_id, listener.clock.now_ms())
    if (url := result_url_of(filled)) is not None:
        targets: CallbackTargets = request.app.state.callback_targets
        targets.require("request.content.result_url", url)
    pinned = body.request.constraints_version is not None
    record, replayed = await listener.submit(body.workspace, filled, pinned=pinned, expires_in=body.expires_in)
    if replayed:
        return _json_response(WorkRecord.from_record(record), 200)
    return _json_response(AcceptedWork(request_id=record.request_id, status=record.status), 202)


@router.get("/work")
async def work_list(
    request: Request,
    status: Annotated[list[ShownStatus], Query(description="Only with this status; may be repeated")] = _ANY,
    workspace: Annotated[str | None, Query(max_length=100, description="Only of this workspace")] = None,
    after: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many records")] = 100,
) -> WorkPage:
    """List the work of all workspaces, newest first."""
    found = await _listener(request).list_work(WorkQuery(workspace, status, after, limit))
    return WorkPage(work=[WorkRecord.from_record(record) for record in found.records], next=found.next)


@router.get("/work/{request_id}")
async def work(request: Request, request_id: str) -> WorkRecord:
    """Read the status of a request, and its result."""
    return WorkRecord.from_record(await _listener(request).get(request_id))


@router.get("/work/{request_id}/stream")
async def stream(request: Request, request_id: str) -> Response:
    """Stream a request's server-sent events: `status` at each change, `progress`, and `result` at the end."""
    return await work_events(_listener(request), request_id)


@router.post("/work/{request_id}/cancel")
async def cancel(request: Request, request_id: str, body: CancelWork = _CANCEL) -> WorkRecord:
    """Cancel a request. No effect if it has ended."""
    return WorkRecord.from_record(await _listener(request).cancel(request_id, body.reason))


@router.post("/workspaces/{workspace_id}/drain")
async def drain(request: Request, workspace_id: str, body: DrainWorkspace = _DRAIN) -> dict[str, Any]:
    """Send no more work until the workspace is started again. Its agent finishes the work that it has."""
    await _listener(request).workspaces.drain(workspace_id, body.deadline_s)
    return {"workspace": workspace_id, "drained": True}


@router.post("/workspaces/{workspace_id}/constraints")
async def constraints(request: Request, workspace_id: str, body: PushConstraints) -> ConstraintsView:
    """Put new constraints in force. They are pushed at once, and no work is sent until they are acknowledged."""
    listener = _listener(request)
    digest = await listener.workspaces.push_constraints(
        workspace_id,
        body.version,
        body.payload_bytes(),
        severity=body.severity,
        effective_at=body.effective_at,
        payload_ref=body.payload_ref,
    )
    current = listener.channels.get(workspace_id).constraints
    return ConstraintsView(version=body.version, hash=digest, status=current.status if current else "pending")


@router.get("/audit")
async def audit(
    request: Request,
    workspace: Annotated[str | None, Query(max_length=100, description="Only of this workspace")] = None,
    request_id: Annotated[str | None, Query(max_length=200, description="Only of this request")] = None,
    after: Annotated[int, Query(ge=0, le=_LAST_ROW, description="Rows with a larger id")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many rows")] = 100,
) -> dict[str, Any]:
    """Read the audit trail, oldest first: every frame, and every decision of the host."""
    rows, more = await _listener(request).read_audit(workspace, request_id, after, limit)
    return {"entries": rows, "next": rows[-1]["id"] if more else None}


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics of the listener and of model calls, for Prometheus."""
    models = getattr(request.app.state, "model_metrics", str)  # a host that only listens calls no models
    return Response(_listener(request).render_metrics() + models(), media_type=_METRICS)


def _json_response(body: WorkRecord | AcceptedWork, status: int) -> Response:
    return JSONResponse(body.model_dump(mode="json"), status)
