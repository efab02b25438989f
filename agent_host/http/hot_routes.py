"""Routes that are asked most, ahead of the app's others and of FastAPI's layers around those."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import RequestError
from .problems import answer_error


class HotRoutes:
    """Middleware that serves some routes itself."""

    def __init__(self, app: ASGIApp, routes: list[Route]) -> None:
        """`routes`: may be filled later, while the app starts."""
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._choose(scope)(scope, receive, send)
        except (RequestError, HTTPException, SQLAlchemyError) as error:
            response = await answer_error(Request(scope), error)
            await response(scope, receive, send)

    def _choose(self, scope: Scope) -> ASGIApp:
        for route in self._routes:
            match, found = route.matches(scope)
            if match is not Match.NONE:
                scope.update(found)
                return route.handle  # which refuses other methods
        return self._app
