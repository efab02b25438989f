"""Put the routes of routers into an app."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI


def add_routers(app: FastAPI, *routers: APIRouter) -> None:
    """Add the routes of each router, which need no prefix and no dependency beside the router's own.

    `include_router` keeps the routers, and asks each of them twice for the route of a request."""
    for router in routers:
        app.router.routes.extend(router.routes)
