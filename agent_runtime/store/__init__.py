"""The one database: connections, the writer thread, units of work, migrations. Each room owns its own tables."""

from .database import Database, Migration
from .writer import Unit

__all__ = ["Database", "Migration", "Unit"]
