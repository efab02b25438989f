"""The demo model: a script instead of a mind, with genuine tool calls."""

from .provider import DemoProvider

__all__ = ["DemoProvider"]
