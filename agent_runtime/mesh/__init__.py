"""The way out: the model client and what else the mesh offers."""

from .card_poster import CardPoster
from .catalog import ModelCatalog
from .client import MeshClient
from .health_check import MeshCheck
from .model import ModelClient, RetryPolicy
from .rooms import MeshRooms
from .search import MeshSearch

__all__ = [
    "CardPoster",
    "MeshCheck",
    "MeshClient",
    "MeshRooms",
    "MeshSearch",
    "ModelCatalog",
    "ModelClient",
    "RetryPolicy",
]
