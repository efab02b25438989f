"""What others offer: MCP servers that the operator has named, and their tools."""

from .config.config import ServerConfig, read_servers
from .manager import AT_ONCE, ConnectorManager
from .session.timeouts import Timeouts
from .transport.transports import ConnectorDeps

__all__ = ["AT_ONCE", "ConnectorDeps", "ConnectorManager", "ServerConfig", "Timeouts", "read_servers"]
