"""A strict double of Discord: its REST API and gateway, with limits and faults."""

from .fake import FakeDiscord
from .faults import Fault, Faults, How, RandomFaults
from .journal import Request
from .limits import RateLimits, Violation
from .people import Action, User
from .world.entities import Account, Attachment, Bot, Button, Channel, Guild, Message, Upload

__all__ = [
    "Account",
    "Action",
    "Attachment",
    "Bot",
    "Button",
    "Channel",
    "FakeDiscord",
    "Fault",
    "Faults",
    "Guild",
    "How",
    "Message",
    "RandomFaults",
    "RateLimits",
    "Request",
    "Upload",
    "User",
    "Violation",
]
