"""The HTTP door: one router per resource, one guard, one error shape."""

from .app import create_app
from .desk import Desk, Front

__all__ = ["Desk", "Front", "create_app"]
