"""Delivery: inboxes and cursors, what is sent and acknowledged, and subscriptions."""

from .delivery import Delivery
from .inbox import Cursor, Endpoint, Inbox
from .inboxes import Inboxes
from .receipts import Receipts
from .subscription import Subscription, Watch

__all__ = ["Cursor", "Delivery", "Endpoint", "Inbox", "Inboxes", "Receipts", "Subscription", "Watch"]
