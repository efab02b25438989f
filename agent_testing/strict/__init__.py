"""Chat completions of providers that refuse a history without what they gave, or with what another one gave."""

from .dialects import DIALECTS, FOREIGN_SIGNATURE, Dialect
from .provider import StrictProvider
from .server import StrictServer

__all__ = ["DIALECTS", "FOREIGN_SIGNATURE", "Dialect", "StrictProvider", "StrictServer"]
