"""The command `agent`."""

from .main import main

__all__ = ["main"]
