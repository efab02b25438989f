"""Conversations of people with agents: between the port of the platforms and the client of the agents."""

from .bot import Bot, Later
from .commands import COMMANDS
from .conversations import Conversations
from .urgency import is_urgent

__all__ = ["COMMANDS", "Bot", "Conversations", "Later", "is_urgent"]
