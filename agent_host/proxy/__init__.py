"""The model proxy: answers the agents' model calls with the host's keys, and writes down what they used. And search."""

from .calls.endpoint import ModelProxy
from .catalog.catalog import Catalog, Model
from .catalog.catalog_file import load_catalog
from .ledger.ledger import Ledger
from .providers import Providers, local_model_missing
from .routes import model_routes, router
from .search import SearchDesk, SearchProvider, load_search

__all__ = [
    "Catalog",
    "Ledger",
    "Model",
    "ModelProxy",
    "Providers",
    "SearchDesk",
    "SearchProvider",
    "load_catalog",
    "load_search",
    "local_model_missing",
    "model_routes",
    "router",
]
