"""Chat completions of providers that refuse a history without what they gave, or with what another one gave."""

from .dialects import DIALECTS, Dialect
from .provider import StrictProvider
from .server import StrictServer

__all__ = ["DIALECTS", "Dialect", "StrictProvider", "StrictServer"]
