"""Messages of people on their way to an agent."""

from .files import receive_files, safe_name, safe_type
from .going_back import PREFIX as GOING_BACK_PREFIX
from .going_back import GoingBack
from .sending import Sending
from .words_of_people import StoredFile, edited, message_of, shown_name, without_hint

__all__ = [
    "GOING_BACK_PREFIX",
    "GoingBack",
    "Sending",
    "StoredFile",
    "edited",
    "message_of",
    "receive_files",
    "safe_name",
    "safe_type",
    "shown_name",
    "without_hint",
]
