"""Why an agent cannot post a card, or cannot ask another."""

from __future__ import annotations

from ..errors import Conflict, RequestError


class CardTooLarge(RequestError):
    """The card is too large."""

    status = 413
    code = "card_too_large"


class AskedInCircle(Conflict):
    """The agent already waits for this work, or has caused it."""

    code = "ask_cycle"


class AskedTooDeep(Conflict):
    """Too many agents have asked each other for one piece of work."""

    code = "ask_depth"


class WorkEnded(Conflict):
    """The work in whose name the agent asks is over."""

    code = "work_ended"
