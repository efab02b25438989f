"""The way out: the model client and what else the mesh offers. The heavy imports wait until someone asks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import Catalog
    from .client import MeshClient
    from .greeting import Greeting
    from .model import ModelClient, Patience
    from .search import MeshSearch
    from .usage import priced

__all__ = ["Catalog", "Greeting", "MeshClient", "MeshSearch", "ModelClient", "Patience", "priced"]

_HOMES = {
    "Catalog": "catalog",
    "Greeting": "greeting",
    "MeshClient": "client",
    "MeshSearch": "search",
    "ModelClient": "model",
    "Patience": "model",
    "priced": "usage",
}


def __getattr__(name: str) -> Any:
    """httpx takes 70 ms to import, which a cold start does not have before its port is open."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
