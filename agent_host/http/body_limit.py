"""What a caller may send, and by when: bodies of strangers are not read, and those of callers have bounds."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_common.api import BodyLimits, LimitedBody
from agent_common.net import ShareCounter

from ..access import AccessGuard
from ..errors import RequestError
from .problems import database_failed, render, render_body_refused

MAX_BODY = 32 * 1024 * 1024
"""Bytes of one body."""
MOST_HELD = 8 * MAX_BODY
"""Bytes of all requests that are not answered yet, and of models' answers that are not sent yet. Callers share them:
one alone may have half, and however many there are, the host's memory is bounded."""
BODY_SECONDS = 120.0
"""Seconds in which a body must have come."""


class BodyLimit:
    """Middleware before every route. A body over a limit is refused by its declared length, or as soon as it is."""

    def __init__(self, app: ASGIApp, held: ShareCounter, limit: int = MAX_BODY, timeout: float = BODY_SECONDS) -> None:
        """`held`: shares of bytes in memory."""
        self._app = app
        self._limits = BodyLimits(
            limit,
            held,
            "your requests that are not answered yet have too many bytes; wait for answers",
            {"retry-after": "5"},
            seconds=timeout,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        declared = headers.get("content-length", "0")
        if declared == "0" and "transfer-encoding" not in headers:
            await self._app(scope, receive, send)
        elif declared.isdigit() and int(declared) > self._limits.most_bytes:
            await render_body_refused(self._limits.refuse_too_large(), scope["path"])(scope, receive, send)
        else:
            await self._limit_body(scope, receive, send)

    async def _limit_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """FastAPI reads a body before it asks who sends it."""
        guard: AccessGuard = scope["app"].state.guard
        try:
            caller = await guard.authenticate(scope)
        except RequestError as error:
            await render(error, scope["path"])(scope, receive, send)
            return
        except SQLAlchemyError as error:
            await database_failed(error, scope["path"])(scope, receive, send)
            return
        _set_json_content_type(scope)
        body = LimitedBody(self._limits, receive, caller.agent_id)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.release()


_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")


def _set_json_content_type(scope: Scope) -> None:
    """Every body here is JSON, also one that says nothing of itself, or what curl says of any `-d`: without this,
    FastAPI takes it for a text. A token is wanted anyway, so no page of elsewhere can use that."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if not kinds or kinds[0].partition(b";")[0].strip().lower() in _FORMS:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        scope["headers"] = [*others, (b"content-type", b"application/json")]
