"""Web search for agents: the providers of search, and the service that limits the number and time of searches."""

from .loading import load_search
from .provider import SearchProvider
from .routes import router
from .service import SearchService

__all__ = ["SearchProvider", "SearchService", "load_search", "router"]
