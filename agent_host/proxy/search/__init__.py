"""Web search for agents: engines behind one Protocol, and the desk that counts and times what they are asked."""

from .desk import SearchDesk
from .loading import load_search
from .provider import SearchProvider
from .routes import router

__all__ = ["SearchDesk", "SearchProvider", "load_search", "router"]
