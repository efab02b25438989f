"""The composition root: the only place where rooms meet."""

from .life import Runtime
from .migrations import MIGRATIONS
from .moving import import_session
from .servers import try_servers
from .skill_commands import allow_skill, test_skill

__all__ = ["MIGRATIONS", "Runtime", "allow_skill", "import_session", "test_skill", "try_servers"]
