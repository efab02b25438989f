"""The composition root: the only place that connects the packages."""

from .app import Runtime
from .mcp_servers import try_servers
from .migrations import MIGRATIONS
from .session_import import import_session
from .skill_commands import allow_skill, test_skill

__all__ = ["MIGRATIONS", "Runtime", "allow_skill", "import_session", "test_skill", "try_servers"]
