"""The hub by HTTP: links over WebSockets, and what operators may read."""

from .routes import router

__all__ = ["router"]
