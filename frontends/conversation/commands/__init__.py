"""Commands that people type."""

from .command import Call
from .sessions import PREFIX as SESSION_PREFIX
from .sessions import choose
from .table import COMMANDS, TABLE, listing, parse

__all__ = ["COMMANDS", "SESSION_PREFIX", "TABLE", "Call", "choose", "listing", "parse"]
