"""`GET /results`: what has become of tasks, for the operator, and for people in the workspaces of their token."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json
from sqlalchemy import Row

from ..access import HostCaller, identify_person, visible_users
from ..errors import Conflict, Forbidden, InvalidRequest, NotFound
from ..http import JsonRoute
from .query import ResultQuery
from .records import AwaitedResult, Result, ResultPage, render_result
from .service import ResultService

MAX_WAIT_SECONDS = 600.0
RECHECK_SECONDS = 5.0
"""How often the token of a caller who waits is checked."""
_LAST_ROW = (1 << 63) - 1
router = APIRouter(route_class=JsonRoute)


@router.get("/results", response_model=ResultPage | Result | AwaitedResult)
async def results(
    request: Request,
    caller: Annotated[HostCaller, Depends(identify_person)],
    *,
    workspace: Annotated[str | None, Query(max_length=100, description="Only of this workspace")] = None,
    user: Annotated[str | None, Query(max_length=200, description="Only of this user's tasks")] = None,
    task_id: Annotated[
        str | None,
        Query(max_length=200, description="The result of this task alone; with `workspace`, if several may have it"),
    ] = None,
    wait: Annotated[
        float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for it; 202 if it has not come")
    ] = 0,
    after: Annotated[int | None, Query(ge=0, le=_LAST_ROW, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many results")] = 100,
) -> Response:
    """List the results of tasks, the newest first, or read the one of a task."""
    service: ResultService = request.app.state.results
    query = replace(_visible(request, caller, workspace, user), after=after, limit=limit)
    if task_id is None:
        if wait:
            why = "needs task_id: name the task whose result is waited for"
            raise InvalidRequest.from_faults([("wait", why)])
        page = await service.page(query)
        rendered = b",".join(map(render_result, page.rows))
        return _json_response(b'{"results":[%b],"next":%b}' % (rendered, to_json(page.next)))
    one = replace(query, task_id=task_id, after=None, limit=1)
    found = await _wait(request, caller, one, wait) if wait else await service.find(one)
    if found is not None:
        await _check_one_workspace(service, one)
        return _json_response(render_result(found))
    if wait:
        return _json_response(to_json(AwaitedResult(task_id=task_id, workspace=workspace)), 202)
    raise NotFound(f"there is no result of a task {task_id!r}")


async def _check_one_workspace(service: ResultService, query: ResultQuery) -> None:
    """Raise Conflict if agents of several workspaces have reported the task: an agent chooses its ids itself."""
    if len(workspaces := await service.workspaces(query)) > 1:
        why = f"{' and '.join(workspaces)} have reported a task {query.task_id!r}; name one with ?workspace="
        raise Conflict(why, code="several_workspaces")


async def _wait(request: Request, caller: HostCaller, query: ResultQuery, seconds: float) -> Row[Any] | None:
    """Wait for the result as long as the token is what it was. Raises Unauthorized if it expires or is revoked
    meanwhile, Forbidden if it loses a workspace."""
    service: ResultService = request.app.state.results
    deadline = monotonic() + seconds
    while True:
        left = deadline - monotonic()
        found = await service.wait(query, max(0, min(left, RECHECK_SECONDS)))
        if await identify_person(request) != caller:
            raise Forbidden("meanwhile this token has lost a workspace; ask again")
        if found is not None or left <= RECHECK_SECONDS:
            return found


def _visible(request: Request, caller: HostCaller, workspace: str | None, user: str | None) -> ResultQuery:
    """Return what the caller may see of this workspace and user. Raises Forbidden if that is not its own."""
    users = visible_users(caller, request.headers.raw, user)
    if workspace and caller.scope is not None:
        caller.scope.check_workspace(workspace)
    all_of_caller = caller.scope.workspaces if caller.scope else None
    return ResultQuery([workspace] if workspace else all_of_caller, users)


def _json_response(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")
