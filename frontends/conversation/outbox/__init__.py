"""What the bot says: posts that are brought to the platform, and kept there as they should look."""

from .outbox import Outbox
from .writer import Draft

__all__ = ["Draft", "Outbox"]
