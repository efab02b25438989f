"""Web search for agents: engines behind one Protocol, and the desk that counts and times what they are asked."""

from .loading import load_search
from .provider import SearchProvider
from .routes import router
from .service import SearchService

__all__ = ["SearchProvider", "SearchService", "load_search", "router"]
