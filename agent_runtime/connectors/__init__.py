"""What others offer: MCP servers that the operator has named, and their tools."""

from .config.config import Server, read_servers
from .manager import AT_ONCE, Connectors
from .session.timeouts import Patience
from .transport.transports import Ground

__all__ = ["AT_ONCE", "Connectors", "Ground", "Patience", "Server", "read_servers"]
