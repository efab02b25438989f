"""The client of the mesh: model calls, catalog, search. Heavy modules are imported on first use."""

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
    """Import on first use: httpx takes 70 ms to import, which would delay opening the port at start."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
