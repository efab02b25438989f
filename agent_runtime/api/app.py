"""The FastAPI server: routes, guard, errors. It knows no producer of work; the composition root hands it a Front."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from fastapi import FastAPI

from .. import __version__
from ..ports import Clock
from . import chat, problems, sessions, status, tasks, turns
from .desk import Front
from .guard import Guard


def create_app(front: Front, clock: Clock) -> FastAPI:
    """The application. `front.desk` may come later: until then the probes and `/status` answer, the rest is 503."""
    app = FastAPI(title="Agent runtime", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.front, app.state.clock = front, clock
    for room in (status, tasks, chat, turns, sessions):
        app.include_router(room.router)
    problems.install(app)
    app.openapi = cache(partial(_describe, app))
    token = front.settings.token
    app.add_middleware(Guard, token=token.get_secret_value() if token else None)
    return app


def _describe(app: FastAPI) -> dict[str, Any]:
    from .openapi import describe

    return describe(app)
