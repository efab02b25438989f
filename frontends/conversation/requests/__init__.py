"""Approvals and questions as messages with buttons."""

from .card import card
from .choices import Answer, AskReason, Progress, choice_of_press, choice_of_text
from .decisions import Decisions, is_press
from .waiting import Waiting

__all__ = [
    "Answer",
    "AskReason",
    "Decisions",
    "Progress",
    "Waiting",
    "card",
    "choice_of_press",
    "choice_of_text",
    "is_press",
]
