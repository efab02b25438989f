"""Hubs that share a database: each gives signs of life, and takes in what the others write."""

from .follower import Follower
from .peers import Peers

__all__ = ["Follower", "Peers"]
