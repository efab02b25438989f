"""The composition root: the only place where rooms meet."""

from .life import Runtime
from .migrations import MIGRATIONS
from .moving import import_session

__all__ = ["MIGRATIONS", "Runtime", "import_session"]
