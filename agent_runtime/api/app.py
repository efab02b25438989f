"""The FastAPI server: routes, middleware, errors. It creates no services; the composition root passes an AppState."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent_common.api import NO_TELEMETRY, add_routers

from .. import __version__
from ..ports import Clock
from . import problems
from .dependencies import AppState
from .middleware import AuthMiddleware
from .routes import chat, permissions, sessions, status, tasks, turns, workspace


class _FastRoute:
    """A route as an ASGI application: the handlers of errors around all routes are not put around it once more."""

    def __init__(self, route: Callable[[Request], Awaitable[Response]]) -> None:
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._route(Request(scope, receive, send))
        await response(scope, receive, send)


def create_app(state: AppState, clock: Clock) -> FastAPI:
    """Create the application. `state.services` may be set later: until then only the probes and `/status` answer, and
    all other routes return 503."""
    app = FastAPI(
        title="Agent runtime",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    app.state.app_state = state
    app.state.clock = clock
    for path, route in chat.FAST_ROUTES.items():
        app.router.routes.append(Route(path, _FastRoute(route), methods=["POST"], include_in_schema=False))
    add_routers(app, *(routes.router for routes in (status, tasks, chat, turns, sessions, permissions, workspace)))
    problems.install_handlers(app)
    app.openapi = cache(partial(_describe, app))
    settings = state.settings
    app.add_middleware(
        AuthMiddleware,
        token=settings.token.get_secret_value() if settings.token else None,
        refuse_remote_work=settings.mediation_required,
    )
    return app


def _describe(app: FastAPI) -> dict[str, Any]:
    from .openapi import describe

    return describe(app)
