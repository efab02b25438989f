"""The HTTP entry point: one router per resource, one authentication middleware, one shape of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ports import Clock
from .app_state import AppState, Services

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["AppState", "Services", "create_app"]


def create_app(state: AppState, clock: Clock) -> FastAPI:
    """Create the application. FastAPI and the routes are imported only here, because that takes time."""
    from . import app

    return app.create_app(state, clock)
