"""What others offer: MCP servers that the operator has named, and their tools."""

from .config import Server, read_servers
from .dialing import Ground
from .host import AT_ONCE, Connectors
from .patience import Patience

__all__ = ["AT_ONCE", "Connectors", "Ground", "Patience", "Server", "read_servers"]
