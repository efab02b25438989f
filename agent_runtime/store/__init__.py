"""The database: connections, the writer thread, units of work, migrations, backups. Each package owns its tables."""

from .backup_scheduler import BackupScheduler
from .backups import Backup
from .database import Database, Migration
from .pages import release_free_pages
from .writer import Unit

__all__ = ["Backup", "BackupScheduler", "Database", "Migration", "Unit", "release_free_pages"]
