"""`/services/{name}/{path}`: agents call web services, whose credentials are added here and never leave the host."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

import anyio
import structlog
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent_common.clock import Clock
from agent_common.errors import cut
from agent_common.http import abort_connection
from agent_common.net import ShareCounter
from agent_common.telemetry import Seldom, connection_lines

from ..access import AccessGuard, HostCaller, Teams
from ..errors import RequestError, TooMany
from .caller import MAX_SENT, CallerGone, ServiceAnswer, ServiceCaller, ServiceRequest, body_too_large
from .catalog import Service, ServiceCatalog
from .credentials import Applied, parameter_of
from .errors import MethodNotAllowed, PathNotAllowed, ServiceFailed, UnknownService
from .paths import checked_path, checked_query
from .rates import ServiceRates

log = structlog.get_logger(__name__)
CALL_SECONDS = 3600.0
"""Longest time of a call with its answer."""
MAX_CALLS = 128
"""Calls at a time, of which an agent may have as many as are still free."""
_SHOWN_PATH = 200
"""Most characters of a path in the log."""
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass(frozen=True, slots=True)
class ServiceEndpoint:
    """The ASGI app of these paths."""

    guard: AccessGuard
    catalog: ServiceCatalog
    caller: ServiceCaller
    teams: Teams
    rates: ServiceRates
    clock: Clock
    calls: ShareCounter
    lines: Seldom = field(default_factory=connection_lines)

    def route(self) -> Route:
        return Route("/services/{name}/{path:path}", self, methods=_METHODS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = await self.guard.authenticate(scope)
        with self.calls.hold(caller.agent_id) as reserved:
            if not reserved:
                raise TooMany("you have too many calls of services at a time", code="too_many_service_calls")
            request = await self._read(scope, caller)
            await _Call(self, scope, caller, request).run(receive, send)

    async def _read(self, scope: Scope, caller: HostCaller) -> ServiceRequest:
        """Check a request. Raises RequestError."""
        name, path = _split_path(scope)
        service = await self._find(name, caller)
        if scope["method"] not in service.methods:
            allowed = ", ".join(service.methods)
            text = f"{service.name} may be called with {allowed} only"
            raise MethodNotAllowed(text, headers={"allow": allowed})
        if not service.paths.match(checked_path(path)):
            text = f"this path of {service.name} is not open to you; these are: {', '.join(service.paths.shown)}"
            raise PathNotAllowed(text)
        checked_query(scope["query_string"], parameter_of(service))
        request = ServiceRequest(service, scope["method"], b"/" + path, scope["query_string"], scope["headers"])
        if (request.declared or 0) > MAX_SENT:
            raise body_too_large()
        self.rates.spend(service, caller.agent_id)
        return request

    async def _find(self, name: str, caller: HostCaller) -> Service:
        if caller.is_operator and name in self.catalog.services:
            return self.catalog.services[name]
        return self.catalog.find(name, caller.agent_id, await self.teams.team_of(caller.agent_id))


class _Call:
    """One call. When the agent disconnects, the call ends."""

    def __init__(self, endpoint: ServiceEndpoint, scope: Scope, caller: HostCaller, request: ServiceRequest) -> None:
        self._endpoint = endpoint
        self._scope = scope
        self._caller = caller
        self._request = request
        self._began = endpoint.clock.monotonic()
        self._started = False
        self._answer: ServiceAnswer | None = None

    async def run(self, receive: Receive, send: Send) -> None:
        """Make the call and pass its answer on. Raises RequestError if there is none."""
        error: RequestError | None = None
        applied = await self._endpoint.caller.apply(self._request.service)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._exchange(applied, receive, send)
        except CallerGone:
            return
        except TimeoutError:
            error = ServiceFailed(f"the call took more than {CALL_SECONDS:g} s", code="service_timeout")
        except RequestError as failure:
            error = failure
        finally:
            self._log(applied, error)
        if error is None:
            return
        if not self._started:
            raise error
        abort_connection(self._scope)  # so that a part is not taken for the whole

    async def _exchange(self, applied: Applied, receive: Receive, send: Send) -> None:
        caller = self._endpoint.caller
        failure = None
        async with caller.open(self._request.service) as stream:
            self._answer = answer = await caller.send(self._request, applied, stream, receive)
            headers = answer.headers()
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_on_disconnect, receive, group.cancel_scope)
                try:
                    await self._pass(answer, headers, send)
                except RequestError as error:
                    failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _pass(self, answer: ServiceAnswer, headers: list[tuple[bytes, bytes]], send: Send) -> None:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        self._started = True
        async for piece in answer.body():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _log(self, applied: Applied, error: RequestError | None) -> None:
        request = self._request
        answer = self._answer
        status = answer.status if answer is not None else None
        code = error.code if error is not None else None
        end = code or (status and f"{status // 100}xx")
        more = self._endpoint.lines.facts_of_event(f"{self._caller.agent_id} {request.service.name} {end}")
        if more is None:
            return
        facts = {"status": status, "received": answer.received if answer is not None else None, "code": code}
        log.info(
            "service_called",
            agent=self._caller.agent_id,
            service=request.service.name,
            method=request.method,
            path=cut(applied.hidden.redact(request.path).decode("ascii"), _SHOWN_PATH),
            seconds=round(self._endpoint.clock.monotonic() - self._began, 3),
            **{name: value for name, value in facts.items() if value is not None},
            **more,
        )


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def is_service_request(scope: Scope) -> bool:
    """Whether a request is for a service, so that its body is passed on and not held in memory."""
    return scope.get("path", "").startswith("/services/")


def _split_path(scope: Scope) -> tuple[str, bytes]:
    """Return the name of the service, and the path behind it as it was sent. Raises UnknownService."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    _, _, name, path = (*raw.split(b"/", 3), b"", b"")[:4]
    shown: str = scope["path_params"]["name"]
    if unquote_to_bytes(name).decode("utf-8", "replace") != shown:
        raise UnknownService(f"there is no service {shown[:100]!r} for you; GET /services lists those there are")
    return shown, path
