"""A small real model inside this process."""

from .engine import missing_parts
from .provider import LocalProvider

__all__ = ["LocalProvider", "missing_parts"]
