"""A small real model that runs in this process."""

from .engine import missing_parts
from .provider import LocalProvider

__all__ = ["LocalProvider", "missing_parts"]
