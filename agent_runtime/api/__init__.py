"""The HTTP door: one router per resource, one guard, one error shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ports import Clock
from .app_state import AppState, Services

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["AppState", "Services", "create_app"]


def create_app(state: AppState, clock: Clock) -> FastAPI:
    """The application. FastAPI and the routes are loaded here and not before: that takes a while."""
    from . import app

    return app.create_app(state, clock)
