"""MCP servers that the operator has configured, and their tools."""

from .config.config import ServerConfig, read_servers
from .config.trusted_paths import is_changeable
from .manager import MAX_CONCURRENT_STARTS, ConnectorManager
from .session.timeouts import Timeouts
from .transport.transports import ConnectorDeps

__all__ = [
    "MAX_CONCURRENT_STARTS",
    "ConnectorDeps",
    "ConnectorManager",
    "ServerConfig",
    "Timeouts",
    "is_changeable",
    "read_servers",
]
