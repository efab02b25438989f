"""The way out: the model client and what else the mesh offers. The heavy imports wait until someone asks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import ModelCatalog
    from .client import MeshClient
    from .greeting import MeshCheck
    from .model import ModelClient, RetryPolicy
    from .search import MeshSearch
    from .usage import with_cost

__all__ = ["MeshCheck", "MeshClient", "MeshSearch", "ModelCatalog", "ModelClient", "RetryPolicy", "with_cost"]

_HOMES = {
    "ModelCatalog": "catalog",
    "MeshCheck": "greeting",
    "MeshClient": "client",
    "MeshSearch": "search",
    "ModelClient": "model",
    "RetryPolicy": "model",
    "with_cost": "usage",
}


def __getattr__(name: str) -> Any:
    """httpx takes 70 ms to import, which a cold start does not have before its port is open."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
