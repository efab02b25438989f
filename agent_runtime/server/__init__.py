"""One runtime as a server: opens the port, loads behind it, and drains on SIGTERM."""

from .main import serve

__all__ = ["serve"]
