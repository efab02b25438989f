"""What a conversation has of its bot, and what it raises when it cannot go on now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..platform import Platform


@dataclass(frozen=True, slots=True)
class Bot:
    """One bot on one platform."""

    name: str
    platform: Platform
    workspaces: Sequence[str]
    """Those that its people may use; the first is used unless a person chooses another."""
    approvers: frozenset[str] = frozenset()
    """Principals that may decide what others have asked for."""

    def workspace(self, chosen: str | None) -> str:
        """Return the workspace of a chat: the one that was chosen, while the bot may use it."""
        return chosen if chosen and chosen in self.workspaces else self.workspaces[0]


class Later(Exception):
    """An update cannot be handled now, because an agent or the platform cannot be reached. Nothing has happened; try it
    again."""

    def __init__(self, after: float | None = None, reason: str = "The agent cannot be reached right now.") -> None:
        super().__init__(reason)
        self.after = after
        """Seconds, if the agent or the platform has said so."""
        self.reason = reason
        """Why, in words for the chat."""
