"""The model proxy: answers agents' model calls with the host's keys and records their usage. Also web search."""

from .calls.cache_watch import CacheWatch
from .calls.endpoint import ModelProxy
from .calls.fallbacks import CircuitBreaker
from .catalog.catalog import CatalogModel, HostCatalog
from .catalog_file import load_catalog
from .ledger.ledger import ModelCallLedger
from .providers import DemoMove, Providers, add_demo_script, local_model_missing
from .routes import model_routes, router
from .search import SearchProvider, SearchService, load_search
from .shown_catalog import ShownCatalog, ShownModel

__all__ = [
    "CacheWatch",
    "CatalogModel",
    "CircuitBreaker",
    "DemoMove",
    "HostCatalog",
    "ModelCallLedger",
    "ModelProxy",
    "Providers",
    "SearchProvider",
    "SearchService",
    "ShownCatalog",
    "ShownModel",
    "add_demo_script",
    "load_catalog",
    "load_search",
    "local_model_missing",
    "model_routes",
    "router",
]
