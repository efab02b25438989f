"""The Bot API over HTTP: which call it is, what goes wrong with it, and its answer."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from .api_error import ApiError, conflict, too_many_requests
from .faults import Fault, FaultPlan
from .journal import Call
from .methods import METHODS, set_allowed_updates
from .parameters import Parameters, read_parameters
from .world import World

_Apply = Callable[[], Awaitable[Response]]
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"
_OTHER_POLL = "terminated by other getUpdates request; make sure that only one bot instance is running"
_TOKEN = re.compile(r"[1-9]\d*:[\w-]+")
_MOST_CALLS = 100_000
_MOST_POLL_SECONDS = 50
_LATE_CHECK_SECONDS = 0.25


class BotServer:
    """Answers the calls of one bot. Runs in one event loop; the state is shared with other threads."""

    def __init__(self, world: World, token: str, faults: FaultPlan) -> None:
        self.journal: deque[Call] = deque(maxlen=_MOST_CALLS)
        self._world = world
        self._token = token
        self._faults = faults
        self._token_revoked = False
        self._poll: asyncio.Future[Exception] | None = None
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        world.poll_wanted = self._wake_poll

    def application(self) -> Starlette:
        """Return the application, which belongs to the running event loop."""
        self._loop = asyncio.get_running_loop()
        methods = ["GET", "POST"]
        routes = [
            Route("/file/bot{token}/{path:path}", self._download, methods=["GET"]),
            Route("/bot{token}/{method}", self._answer, methods=methods),
            Route("/{path:path}", _not_found, methods=methods),
        ]
        return Starlette(routes=routes)

    def stop(self) -> None:
        """Cut the connections of all calls that wait. May be called from any thread."""
        self._call_soon(self._stopping.set)
        self.cut_poll()

    def cut_poll(self) -> None:
        """Cut the connection of the getUpdates that waits now. May be called from any thread."""
        self._call_soon(lambda: self._end_poll(_Cut()))

    def revoke_token(self) -> None:
        """Refuse the token from now on. May be called from any thread."""
        self._token_revoked = True
        self._call_soon(lambda: self._end_poll(ApiError(401, "Unauthorized")))

    # ---------------------------------------------------------------- calls

    async def _answer(self, request: Request) -> Response:
        try:
            self._check_token(request)
            parameters = await read_parameters(request)
        except ApiError as error:
            return _refusal(error)
        except ClientDisconnect:  # the bot has died in the middle of its call
            return Response(status_code=400)
        call = self._record(request.path_params["method"], parameters)
        return await self._respond(request, call, lambda: self._apply(request, call))

    async def _respond(self, request: Request, call: Call, apply: _Apply) -> Response:
        with self._world.changed:
            fault = self._faults.next(call.method.lower())
        call.fault = fault.kind if fault else None
        try:
            response = await self._carry_out(call, fault, apply)
        except _Cut:
            request.state.transport.abort()
            return Response()
        call.status = response.status_code
        with self._world.changed:
            self._world.changed.notify_all()
        return response

    def _check_token(self, request: Request) -> None:
        token = request.path_params["token"]
        if not _TOKEN.fullmatch(token):
            raise ApiError(404, "Not Found")
        if token != self._token or self._token_revoked:
            raise ApiError(401, "Unauthorized")

    def _record(self, method: str, parameters: Parameters) -> Call:
        call = Call(self._world.clock(), method, parameters)
        with self._world.changed:
            self.journal.append(call)
            self._world.changed.notify_all()
        return call

    async def _carry_out(self, call: Call, fault: Fault | None, apply: _Apply) -> Response:
        """Return the answer. Raises _Cut."""
        match fault:
            case None:
                return await apply()
            case Fault("cut_before"):
                raise _Cut
            case Fault("cut_after"):
                await apply()
                raise _Cut
            case Fault("hang"):
                await apply()
                await self._pause(fault.seconds)
                raise _Cut
            case Fault("slow"):
                response = await apply()
                await self._pause(fault.seconds)
                return response
            case Fault("html"):
                return HTMLResponse(_PAGE, fault.status)
            case Fault("server_error"):
                return _refusal(
                    ApiError(fault.status, "Internal Server Error" if fault.status == 500 else "Bad Gateway")
                )
            case Fault():
                return self._refuse_for(call, fault.seconds)

    def _refuse_for(self, call: Call, seconds: float) -> Response:
        retry_after = max(1, round(seconds))
        if chat := call.parameters.integer("chat_id"):
            with self._world.changed:
                self._world.limiter.block(retry_after, chat)
        return _refusal(too_many_requests(retry_after))

    async def _pause(self, seconds: float) -> None:
        await _wait(self._stopping, seconds)
        if self._stopping.is_set():
            raise _Cut

    async def _apply(self, request: Request, call: Call) -> Response:
        name = call.method.lower()
        try:
            if name == "getupdates":
                call.result = await self._get_updates(request, call.parameters)
            elif method := METHODS.get(name):
                with self._world.changed:
                    call.result = method(self._world, call.parameters)
                    call.applied = True
                    self._world.changed.notify_all()
            else:
                raise ApiError(404, "Not Found")
        except ApiError as error:
            call.error = error.description
            return _refusal(error)
        call.applied = True
        return JSONResponse({"ok": True, "result": call.result})

    # ---------------------------------------------------------------- getUpdates

    async def _get_updates(self, request: Request, parameters: Parameters) -> list[dict[str, Any]]:
        self._end_poll(conflict(_OTHER_POLL))
        poll = self._poll = asyncio.get_running_loop().create_future()
        try:
            return await self._wait_for_updates(request, parameters, poll)
        finally:
            if self._poll is poll:
                self._poll = None

    def _end_poll(self, reason: Exception) -> None:
        if self._poll is not None:
            self._poll.set_result(reason)
            self._poll = None
            self._arrived.set()

    async def _wait_for_updates(
        self, request: Request, parameters: Parameters, poll: asyncio.Future[Exception]
    ) -> list[dict[str, Any]]:
        offset = parameters.integer("offset")
        limit = min(100, max(1, parameters.integer("limit", 100)))
        timeout = min(_MOST_POLL_SECONDS, max(0, parameters.integer("timeout")))
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        cut_at = self._cut_time(timeout)
        with self._world.changed:
            set_allowed_updates(self._world, parameters)
        while not self._stopping.is_set() and not request.state.transport.is_closing():
            self._arrived.clear()
            if batch := self._take(offset, limit):
                return batch
            now = loop.time()
            if now >= cut_at:
                raise _Cut
            if now >= end:
                return []
            with self._world.changed:
                pause = _LATE_CHECK_SECONDS if self._world.updates.holds_late else _MOST_POLL_SECONDS
            await _wait(self._arrived, min(end - now, cut_at - now, pause))
            if poll.done():
                raise poll.result()
        raise _Cut

    def _take(self, offset: int, limit: int) -> list[dict[str, Any]]:
        with self._world.changed:
            if self._world.webhook.url:
                reason = "can't use getUpdates method while webhook is active"
                raise conflict(f"{reason}; use deleteWebhook to delete the webhook first")
            batch = [update.to_json() for update in self._world.updates.take(offset, limit)]
            self._world.changed.notify_all()
            return batch

    def _cut_time(self, timeout: int) -> float:
        with self._world.changed:
            part = self._faults.cuts_poll() if timeout else None
        return float("inf") if part is None else asyncio.get_running_loop().time() + part * timeout

    def _wake_poll(self) -> None:
        self._call_soon(self._arrived.set)

    def _call_soon(self, call: Callable[[], object]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    # ---------------------------------------------------------------- files

    async def _download(self, request: Request) -> Response:
        try:
            self._check_token(request)
        except ApiError as error:
            return _refusal(error)
        call = self._record("file", Parameters({"path": request.path_params["path"]}))
        return await self._respond(request, call, lambda: self._file(call))

    async def _file(self, call: Call) -> Response:
        with self._world.changed:
            files = [file for file in self._world.files.values() if file.path == call.parameters.text("path")]
            call.applied = True
        if not files:
            return _refusal(ApiError(404, "Not Found"))
        return Response(files[0].content, media_type="application/octet-stream")


class _Cut(Exception):
    """The connection is lost, without an answer."""


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _not_found(_: Request) -> Response:
    return _refusal(ApiError(404, "Not Found"))


def _refusal(error: ApiError) -> Response:
    return JSONResponse(error.to_json(), error.code)
