"""The REST API on aiohttp: reads a request, lets faults and limits have their say, runs its route, answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_request import FileField

from ..faults import Fault
from ..journal import Request
from ..limits import Limiter, Verdict
from ..world import errors
from ..world.entities import Bot, Upload
from ..world.errors import Limited, Refused
from ..world.state import World
from . import application, channels, messages
from .call import Answer, Call, Route

PREFIX = "/api/v10"
ROUTES = (*application.ROUTES, *channels.ROUTES, *messages.ROUTES)
_FILE = re.compile(r"^files\[(\d+)\]$|^file$")
_MAJOR = ("channel_id", "guild_id", "token")
_MOST_REQUESTS = 100_000
_SERVER_ERROR: dict[str, Any] = {"message": "Internal Server Error", "code": 0}


class RestApi:
    """Handlers for an aiohttp application."""

    def __init__(self, world: World, limiter: Limiter, *, upload_bytes: int, interaction_seconds: float) -> None:
        self.journal: deque[Request] = deque(maxlen=_MOST_REQUESTS)
        self._numbers = itertools.count(1)
        self.hanging = 0
        """Requests that a fault holds up."""
        self._world = world
        self._limiter = limiter
        self._upload_bytes = upload_bytes
        self._interaction_seconds = interaction_seconds
        self._release = asyncio.Event()

    def add_to(self, app: web.Application) -> None:
        for route in ROUTES:
            app.router.add_route(route.method, PREFIX + route.path, self._handler(route))
        app.router.add_get("/attachments/{channel_id}/{attachment_id}/{name}", self._attachment)
        app.router.add_route("*", "/{path:.*}", self._unknown)

    def release(self) -> None:
        """End what hangs."""
        self._release.set()
        self._release = asyncio.Event()

    def _handler(self, route: Route) -> Any:
        async def handle(request: web.Request) -> web.Response:
            return await self._serve(route, request)

        return handle

    # ---------------------------------------------------------------- one request

    async def _serve(self, route: Route, request: web.Request) -> web.Response:
        entry = self._record(route, request)
        fault = self._world.faults.of_request(entry.method, entry.path)
        entry.fault = fault.how if fault else None
        try:
            body, uploads = await self._read(request, entry)
            if fault is not None and fault.before:
                return await self._fail(request, entry, fault)
            result = self._run(route, request, entry, fault, body, uploads)
        except Refused as refused:
            entry.code = refused.code
            return self._answer(entry, refused.status, refused.body)
        if fault is not None and fault.after:
            return await self._fail(request, entry, fault)
        if fault is not None and fault.how == "slow":
            await self._wait(fault.seconds)
        return self._answer(entry, 204 if result is None else route.status, result)

    def _run(
        self,
        route: Route,
        request: web.Request,
        entry: Request,
        fault: Fault | None,
        body: Any,
        uploads: Sequence[Upload],
    ) -> Answer:
        with self._world.lock:
            bot = self._authorize(route, request)
            verdict = self._check_limits(route, request, bot, fault)
            entry.headers = verdict.headers
            if verdict.retry_after is not None:
                raise Limited(verdict.retry_after, everywhere=verdict.everywhere)
            parameters = dict(request.match_info)
            query = dict(request.query)
            call = Call(self._world, bot, parameters, query, body, uploads, self._interaction_seconds)
            result = route.handler(call)
            entry.applied = True
            return result

    def _record(self, route: Route | None, request: web.Request) -> Request:
        path = request.path.removeprefix(PREFIX)
        entry = Request(
            next(self._numbers),
            request.method,
            path,
            route.path if route else path,
            dict(request.query),
            time.monotonic(),
        )
        self.journal.append(entry)
        self._world.changed()
        return entry

    async def _read(self, request: web.Request, entry: Request) -> tuple[Any, Sequence[Upload]]:
        uploads: Sequence[Upload] = ()
        if request.content_type.startswith("multipart/"):
            text, uploads = await self._read_form(request)
        else:
            text = (await request.read()).decode("utf-8", errors="replace")
            if text and request.content_type != "application/json":
                raise Refused(400, 50035, "Expected \"Content-Type\" header to be one of {'application/json'}.")
        try:
            entry.body = json.loads(text) if text else None
        except ValueError:
            raise errors.invalid_json() from None
        entry.uploads = len(uploads)
        if request.method in {"POST", "PATCH", "PUT"} and entry.body is None and uploads:
            return {}, uploads
        return entry.body, uploads

    async def _read_form(self, request: web.Request) -> tuple[str, Sequence[Upload]]:
        try:
            form = await request.post()
        except web.HTTPRequestEntityTooLarge:
            raise errors.too_large() from None
        except (HttpProcessingError, ValueError):
            raise Refused(400, 50035, "Invalid Form Body") from None
        files: dict[int, Upload] = {}
        for name, value in form.items():
            if isinstance(value, FileField) and (found := _FILE.match(name)):
                data = value.file.read()
                files[int(found[1] or 0)] = Upload(value.filename, data, value.content_type)
        if any(len(each.data) > self._upload_bytes for each in files.values()):
            raise errors.too_large()
        return str(form.get("payload_json", "")), [files[number] for number in sorted(files)]

    def _authorize(self, route: Route, request: web.Request) -> Bot:
        if route.no_token is not None:
            interaction = self._world.interactions.get(request.match_info["token"])
            if interaction is None:
                raise route.no_token()
            return interaction.bot
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        bot = self._world.bot_of(token) if kind == "Bot" else None
        if bot is None:
            raise errors.unauthorized()
        return bot

    def _check_limits(self, route: Route, request: web.Request, bot: Bot, fault: Fault | None) -> Verdict:
        major = next((request.match_info[name] for name in _MAJOR if name in request.match_info), "")
        line = f"{route.method} {route.path}"
        if fault and fault.how == "429":
            everywhere = fault.everywhere
            return self._limiter.ask_to_wait(bot.token, line, major, fault.seconds, everywhere=everywhere)
        if route.path.endswith("/callback"):
            return Verdict({})
        return self._limiter.check(bot.token, line, route.group, major, counted=route.no_token is None)

    # ---------------------------------------------------------------- answers

    def _answer(self, entry: Request, status: int, body: Answer) -> web.Response:
        entry.status = status
        with self._world.lock:
            self._limiter.answered(status)
        self._world.changed()
        if body is None:
            return web.Response(status=status, headers=entry.headers)
        headers = entry.headers | {"Content-Type": "application/json"}
        return web.Response(body=json.dumps(body).encode(), status=status, headers=headers)

    async def _fail(self, request: web.Request, entry: Request, fault: Fault) -> web.Response:
        if fault.how in {"5xx", "5xx-after"}:
            return self._answer(entry, fault.status, _SERVER_ERROR)
        if fault.how in {"hang", "hang-after"}:
            await self._wait(fault.seconds)
        return self._abort(request)

    def _abort(self, request: web.Request) -> web.Response:
        self._world.changed()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _wait(self, seconds: float) -> None:
        self.hanging += 1
        self._world.changed()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._release.wait()
        self.hanging -= 1

    async def failure(self, request: web.Request, line: str, *, at_random: bool) -> web.Response | None:
        """What a fault makes of a request that is not one of the API, if there is one."""
        method, _, path = line.partition(" ")
        fault = self._world.faults.of_request(method, path, at_random=at_random)
        if fault is None:
            return None
        if fault.how in {"slow", "hang", "hang-after"}:
            await self._wait(fault.seconds)
        if fault.how == "slow":
            return None
        if fault.how in {"429", "5xx", "5xx-after"}:
            return web.Response(status=429 if fault.how == "429" else fault.status)
        return self._abort(request)

    async def _attachment(self, request: web.Request) -> web.Response:
        failed = await self.failure(request, f"{request.method} {request.path}", at_random=True)
        if failed is not None:
            return failed
        text = request.match_info["attachment_id"]
        kept = self._world.attachments.get(int(text)) if text.isdecimal() else None
        if kept is None or kept.name != request.match_info["name"]:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=kept.data, content_type=kept.content_type)

    async def _unknown(self, request: web.Request) -> web.Response:
        entry = self._record(None, request)
        refused = errors.no_such_route()
        entry.code = refused.code
        return self._answer(entry, refused.status, refused.body)
