"""What comes from Telegram: the loop that takes updates, and what people did in them."""

from .polling import CONFLICT_SECONDS, POLL_SECONDS, PollingLoop
from .updates import WANTED, read_updates

__all__ = ["CONFLICT_SECONDS", "POLL_SECONDS", "WANTED", "PollingLoop", "read_updates"]
