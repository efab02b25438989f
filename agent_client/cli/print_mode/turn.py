"""One turn of `agent -p`, and how it ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Literal

from ..errors import ABORTED, DONE, FAILED, LIMIT, WAITS

if TYPE_CHECKING:
    from ... import Approval, Question, Reply

BY_THE_HOST = "channel"
"""The `limit` of a turn that the host has ended, or the loss of the channel to it."""
Status = Literal["done", "failed", "waits", "limit", "aborted"]
EXIT_CODES: dict[Status, int] = {"done": DONE, "failed": FAILED, "waits": WAITS, "limit": LIMIT, "aborted": ABORTED}


@dataclass(slots=True)
class Turn:
    """One turn, and what is known of it so far."""

    session: str
    message_id: str = field(default_factory=lambda: f"cli_{token_hex(12)}")
    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    waits_for: Approval | Question | None = None
    reply: Reply | None = None
    timed_out: bool = False

    @property
    def status(self) -> Status:
        if self.waits_for is not None:
            return "waits"
        ended = self.reply.finish_reason if self.reply else "abort"
        limited = self.reply is not None and self.reply.limit not in (None, BY_THE_HOST)
        if limited or (self.timed_out and ended == "abort"):
            return "limit"
        return "aborted" if ended == "abort" else "failed" if self.reply and self.reply.failed else "done"
