"""What the person asked of `agent chat`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..answered_by import AnsweredBy


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a chat begins. Without a session it is a new one."""

    session: str | None = None
    """The name of the session; one that does not exist begins with the first message."""
    last: bool = False
    """Continue the session that changed last."""
    where: str = ""
    """The URL of the agent or its host, for the first lines."""
    history: Path | None = None
    """The file of the messages that were typed before."""
    message: str | None = None
    """Sent at once."""
    by: AnsweredBy = field(default_factory=AnsweredBy)
    """What answers until the person chooses another."""
