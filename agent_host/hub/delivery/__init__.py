"""Delivery: inboxes and cursors, what is sent and acknowledged, and subscriptions."""

from .delivery import Delivery
from .inbox import Cursor, Endpoint, Inbox
from .receipts import Receipts
from .subscription import Subscription, Watch

__all__ = ["Cursor", "Delivery", "Endpoint", "Inbox", "Receipts", "Subscription", "Watch"]
