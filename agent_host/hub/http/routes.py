"""`WS /hub` for agents, and `GET /hub/...` for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Query, Request, WebSocket
from sqlalchemy.exc import SQLAlchemyError

from agent_common.protocol.hub import NetworkError, NotFoundError, TaskMetadata, TaskState

from ...access import AccessGuard, HostCaller, require_operator, speaking_user
from ...errors import NotFound, RequestError, Unavailable
from ...http import JsonRoute
from ..hub import Hub
from ..links import SocketLink, describe_page
from ..registry import AgentQuery
from ..store import TaskFilter
from ..tasks import MOST_ROWS
from .admission import rights_of
from .schemas import (
    CancelBody,
    HubAgent,
    HubAgents,
    HubAuditEntry,
    HubAuditPage,
    HubDeadLetter,
    HubDeadLetters,
    HubLog,
    HubSession,
    HubSessions,
    HubTasks,
)

RECHECK_SECONDS = 5.0
"""How often a token is checked again while its link is open: another process may have revoked it."""
_LAST_ROW = (1 << 63) - 1
_CANCEL = CancelBody()
log = structlog.get_logger(__name__)
router = APIRouter(route_class=JsonRoute)
_operators = [Depends(require_operator)]
_Limit = Annotated[int, Query(ge=1, le=500, description="How many")]
_AfterText = Annotated[str, Query(max_length=200, description="`next` of the page before")]
_AfterNumber = Annotated[int, Query(ge=0, le=_LAST_ROW, description="`next` of the page before")]


@router.websocket("/hub")
async def link(socket: WebSocket) -> None:
    """Serve a link: an agent's token binds it to the agent of that name, a scoped one to its user, the operator's to
    nobody."""
    guard: AccessGuard = socket.app.state.guard
    caller = await guard.authenticate(socket.scope, scoped=True)
    rights = rights_of(caller, speaking_user(caller, socket.scope["headers"]), socket.app.state.teams)
    await socket.accept()
    served = SocketLink(_hub(socket), socket, rights, socket.app.state.held, caller.agent_id)
    await served.run(_wait_for_change(guard, socket, caller))


async def _wait_for_change(guard: AccessGuard, socket: WebSocket, caller: HostCaller) -> None:
    """Return once the token of a link has expired, is revoked, or speaks in other workspaces."""
    while True:
        await asyncio.sleep(RECHECK_SECONDS)
        try:
            if (await guard.authenticate(socket.scope, scoped=True)).scope != caller.scope:
                return
        except RequestError:
            return
        except SQLAlchemyError as error:  # what is known of the token holds until the database is back
            log.warning("hub_link_not_checked", why=str(error).splitlines()[0])


@router.get("/hub/agents", dependencies=_operators)
async def agents(
    request: Request,
    capability: Annotated[str | None, Query(max_length=200, description="Only those that claim it")] = None,
    text: Annotated[str | None, Query(max_length=200, description="Only those whose name or summary has it")] = None,
    after: _AfterText = "",
    limit: _Limit = 100,
) -> HubAgents:
    """List the agents of the hub by name."""
    hub = _hub(request)
    found = hub.registry.list(AgentQuery(capability, text, after=after, limit=limit + 1))
    page = [HubAgent.model_validate(one) for one in describe_page(hub, found[:limit])]
    return HubAgents(agents=page, next=page[-1].passport.name if len(found) > len(page) else None)


@router.get("/hub/sessions", dependencies=_operators)
async def sessions(
    request: Request,
    agent: Annotated[str | None, Query(max_length=200, description="Only of this agent, by name or id")] = None,
    after: _AfterText = "",
    limit: _Limit = 100,
) -> HubSessions:
    """List the sessions of the hub in the order of their ids, those that are over too."""
    hub = _hub(request)
    with _as_http():
        reader = hub.registry.get(agent).agent_id if agent is not None else None
        page, following = await hub.queries.infos(reader, after, limit)
    return HubSessions(sessions=[HubSession.of(info) for info in page], next=following)


@router.get("/hub/sessions/{session_id}/log", dependencies=_operators)
async def session_log(request: Request, session_id: str, after: _AfterNumber = 0, limit: _Limit = 100) -> HubLog:
    """Read the log of a session after a sequence, whoever the envelopes are for."""
    with _as_http():
        page = await _hub(request).queries.log(None, session_id, after, limit)
    return HubLog(envelopes=list(page.envelopes), next=page.next)


@router.get("/hub/dead-letters", dependencies=_operators)
async def dead_letters(request: Request, after: _AfterNumber = 0, limit: _Limit = 100) -> HubDeadLetters:
    """List the envelopes that their agents have refused too often, oldest first."""
    hub = _hub(request)
    await hub.store.flush()
    page: list[HubDeadLetter] = []
    found = await hub.store.dead_letters(after, limit + 1)
    for number, row in found[:limit]:
        known = hub.agents.find(row.agent_id)
        page.append(HubDeadLetter.of(number, row, known.name if known is not None else None))
    return HubDeadLetters(dead_letters=page, next=page[-1].id if len(found) > len(page) else None)


@router.get("/hub/audit", dependencies=_operators)
async def audit(request: Request, after: _AfterNumber = 0, limit: _Limit = 100) -> HubAuditPage:
    """List what has happened on the hub, oldest first."""
    hub = _hub(request)
    await hub.store.flush()
    found = await hub.store.audit(after, limit + 1)
    page = [HubAuditEntry.of(number, row) for number, row in found[:limit]]
    return HubAuditPage(entries=page, next=page[-1].id if len(found) > len(page) else None)


@router.get("/hub/tasks", dependencies=_operators)
async def tasks(
    request: Request,
    *,
    agent: Annotated[str | None, Query(max_length=200, description="Only of this agent, by name or id")] = None,
    session: Annotated[str | None, Query(max_length=200, description="Only of this session, by id")] = None,
    state: Annotated[TaskState | None, Query(description="Only those in this state")] = None,
    after: _AfterText = "",
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many")] = MOST_ROWS,
) -> HubTasks:
    """List the tasks of the hub in the order of their ids, those that are over too."""
    hub = _hub(request)
    with _as_http():
        owner = hub.registry.get(agent).agent_id if agent is not None else None
    page = await hub.tasks.list(TaskFilter(owner, session, state, after, limit))
    return HubTasks(tasks=list(page.tasks), next=page.next)


@router.post("/hub/tasks/{task_id}/cancel", dependencies=_operators)
async def cancel_task(request: Request, task_id: str, body: CancelBody = _CANCEL) -> TaskMetadata:
    """End a task of an agent, and the turn that it shows. One that is over stays as it is."""
    with _as_http():
        return await _hub(request).tasks.cancel(None, task_id, body.reason)


def _hub(connection: Request | WebSocket) -> Hub:
    return connection.app.state.hub


@contextmanager
def _as_http() -> Generator[None]:
    """Raise what the hub refuses as an error of HTTP."""
    try:
        yield
    except NotFoundError as error:
        raise NotFound(error.message) from error
    except NetworkError as error:
        raise Unavailable(error.message) from error
