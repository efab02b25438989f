"""The fleet's HTTP routes for the operator."""

from .routes import router

__all__ = ["router"]
