"""Limit the size, the time and the total memory of request bodies. Bodies without a valid token are not read."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_common.api import BodyLimits, LimitedBody
from agent_common.net import ShareCounter

from ..access import AccessGuard
from ..errors import RequestError
from .problems import database_failed, render, render_body_refused

MAX_BODY = 32 * 1024 * 1024
"""Most bytes of one body."""
MOST_HELD = 8 * MAX_BODY
"""Most bytes of all unanswered requests and unsent answers of models. One caller may use at most half, and the total
bounds the host's memory for any number of callers."""
BODY_SECONDS = 120.0
"""Seconds within which a body must be complete."""


class BodyLimit:
    """Middleware for all routes. Refuses a body by its declared length, or once it exceeds the limit."""

    def __init__(
        self,
        app: ASGIApp,
        held: ShareCounter,
        limit: int = MAX_BODY,
        timeout: float = BODY_SECONDS,
        is_streamed: Callable[[Scope], bool] = lambda _: False,
    ) -> None:
        """`held`: counts bytes in memory by caller. `is_streamed`: which requests pass their body on as it comes, so
        that it takes no memory here."""
        self._app = app
        self._is_streamed = is_streamed
        self._limits = BodyLimits(
            limit,
            held,
            "your unanswered requests have too many bytes; wait for answers",
            {"retry-after": "5"},
            seconds=timeout,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        declared = headers.get("content-length", "0")
        if (declared == "0" and "transfer-encoding" not in headers) or self._is_streamed(scope):
            await self._app(scope, receive, send)
        elif declared.isdigit() and int(declared) > self._limits.most_bytes:
            await render_body_refused(self._limits.refuse_too_large(), scope["path"])(scope, receive, send)
        else:
            await self._limit_body(scope, receive, send)

    async def _limit_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate the caller before the body is read; FastAPI would read the body first."""
        guard: AccessGuard = scope["app"].state.guard
        try:
            caller = await guard.authenticate(scope, scoped=True)  # the route refuses scoped tokens
        except RequestError as error:
            await render(error, scope["path"])(scope, receive, send)
            return
        except SQLAlchemyError as error:
            await database_failed(error, scope["path"])(scope, receive, send)
            return
        body = LimitedBody(self._limits, receive, caller.agent_id)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.release()
