"""The terminal: what is drawn at its bottom, the keys, menus and completion."""

from .completion import ChatCompleter, Completable, Folders, size
from .handler import Handler
from .history import open_history
from .menu import Choice, Menu, Picked
from .screen import Screen

__all__ = [
    "ChatCompleter",
    "Choice",
    "Completable",
    "Folders",
    "Handler",
    "Menu",
    "Picked",
    "Screen",
    "open_history",
    "size",
]
