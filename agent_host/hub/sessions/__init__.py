"""Sessions: in memory, appended to, opened and closed."""

from .lifecycle import Lifecycle, Opening
from .posting import Posting
from .table import SessionTable

__all__ = ["Lifecycle", "Opening", "Posting", "SessionTable"]
