"""Streams of numbered logs in the database: watchers go on where they were, and miss nothing."""

from .feed_memory import FeedMemory
from .log_feed import LoggedEvent, LogRange, read_page
from .watchers import MayWatch, Watch, Watchers

__all__ = ["FeedMemory", "LogRange", "LoggedEvent", "MayWatch", "Watch", "Watchers", "read_page"]
