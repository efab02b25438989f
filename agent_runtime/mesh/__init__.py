"""The way out: the model client and what else the mesh offers."""

from .card_poster import CardPoster
from .catalog import ModelCatalog
from .client import MeshClient
from .health_check import MeshCheck
from .model import ModelClient, RetryPolicy
from .search import MeshSearch
from .team_requests import MeshTeamRequests

__all__ = [
    "CardPoster",
    "MeshCheck",
    "MeshClient",
    "MeshSearch",
    "MeshTeamRequests",
    "ModelCatalog",
    "ModelClient",
    "RetryPolicy",
]
