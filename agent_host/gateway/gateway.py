"""`/workspaces/{id}/api/{path}`: people and programs reach an agent's own API with a token of the host.

The host's token is replaced by the agent's, which never leaves the host. A scoped token speaks for its users only.
"""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import unquote_to_bytes

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..access import AccessGuard, require_person, speaking_user
from ..errors import NotFound, RequestError
from ..fleet import Fleet, RunningAgent
from .connections import AgentConnection, AgentConnections
from .exchange import Exchange, RequestBody
from .headers import has_body, request_head

RECHECK_SECONDS = 5.0
"""How often a scoped token is checked again while a request of it is open."""
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class AgentUnreachable(RequestError):
    """The agent runs, but its server does not answer."""

    status = 502
    code = "agent_unreachable"


class AgentGateway:
    """The ASGI app of these paths."""

    def __init__(self, guard: AccessGuard, fleet: Fleet) -> None:
        self._guard = guard
        self._fleet = fleet
        self.connections = AgentConnections()

    def route(self) -> Route:
        return Route("/workspaces/{workspace_id}/api/{path:path}", self, methods=_METHODS)

    def disconnect(self, workspace_id: str) -> None:
        """Cut all requests to an agent at once: its workspace is fenced or was stopped."""
        self.connections.cut(workspace_id)

    def close(self) -> None:
        self.connections.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = require_person(await self._guard.authenticate(scope, scoped=True))
        workspace_id, prefix, target = _split_path(scope)
        if caller.scope is not None:
            caller.scope.check_workspace(workspace_id)
        user = speaking_user(caller, scope["headers"])
        agent = await self._fleet.running_agent(workspace_id)
        body = RequestBody(scope, receive)
        begun = b""
        if not body.ended:
            begun = await body.next_piece()
            agent = await self._fleet.running_agent(workspace_id)  # it may have been fenced meanwhile
        watch = partial(self._wait_for_revocation, scope) if caller.scope else None
        fresh = False
        while True:
            head = request_head(scope["method"], target, scope["headers"], token=agent.token, user=user)
            connection = await self._connect(workspace_id, agent, fresh=fresh)
            exchange = Exchange(scope, body, send, connection, target, prefix)
            try:
                await exchange.run(head + begun, watch)
            finally:
                self.connections.release(workspace_id, connection, complete=exchange.complete)
            if exchange.fault is None:
                return
            await self._guard.authenticate(scope, scoped=True)  # a token that was revoked, and
            agent = await self._fleet.running_agent(workspace_id)  # a fence, end requests in the same way
            if fresh or not connection.reused or scope["method"] not in _REPEATABLE or has_body(scope["headers"]):
                raise _unreachable(workspace_id, exchange.fault) from exchange.fault
            fresh = True  # the agent's server had closed the kept connection

    async def _connect(self, workspace_id: str, agent: RunningAgent, *, fresh: bool) -> AgentConnection:
        try:
            return await self.connections.open(workspace_id, agent, fresh=fresh)
        except OSError as error:
            await self._fleet.running_agent(workspace_id)  # says whether it was stopped or fenced meanwhile
            raise _unreachable(workspace_id, error) from error

    async def _wait_for_revocation(self, scope: Scope) -> None:
        """Return once the request's token has expired or is revoked."""
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self._guard.authenticate(scope, scoped=True)
            except RequestError:
                return


def is_agent_request(scope: Scope) -> bool:
    """Whether a request is for an agent's API, so that its body is passed on and not held in memory."""
    parts = scope.get("path", "").split("/", 4)
    return len(parts) > 4 and parts[1] == "workspaces" and parts[3] == "api"


def _split_path(scope: Scope) -> tuple[str, bytes, bytes]:
    """Return the workspace, the path of its API at the host, and the agent's part of the address as it was sent."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    _, _, name, _, rest = (*raw.split(b"/", 4), b"", b"", b"")[:5]
    workspace_id: str = scope["path_params"]["workspace_id"]
    if unquote_to_bytes(name).decode("utf-8", "replace") != workspace_id:
        raise NotFound(f"there is no workspace {workspace_id!r}")
    query: bytes = scope["query_string"]
    target = b"/" + rest + (b"?" + query if query else b"")
    return workspace_id, b"/workspaces/%b/api" % name, target


def _unreachable(workspace_id: str, why: Exception) -> AgentUnreachable:
    return AgentUnreachable(f"the agent of {workspace_id!r} does not answer: {why}")
