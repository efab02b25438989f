"""Streams of numbered logs in the database: watchers go on where they were, and miss nothing."""

from .feed_memory import FeedMemory
from .feed_reader import LoggedEvent
from .log_feed import LogRange, read_page
from .watchers import Client, Watch, Watchers

__all__ = ["Client", "FeedMemory", "LogRange", "LoggedEvent", "Watch", "Watchers", "read_page"]
