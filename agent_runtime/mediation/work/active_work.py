"""A request in the clerk's hands: on its way into the ledger, then worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from agent_common.protocol.work import Progress, WorkRequest
from agent_common.redaction import Redactor

from .turn_worker import RunningWork


@dataclass(slots=True)
class PendingWork:
    """A request on its way into the ledger."""

    request: WorkRequest
    cancelled: bool = False
    """The host has thought better of it meanwhile."""


@dataclass(slots=True, eq=False)
class ActiveWork:
    """A request that is worked on."""

    request: WorkRequest
    job: RunningWork | None
    """None: its turn has ended, and its result is still on the way to the disk."""
    forgotten: bool = False
    """The host does not want to hear of it."""
    stopping: bool = False
    """It was cancelled."""
    task: asyncio.Task[None] | None = None
    _seq: int = 0
    _held_text: str = ""
    """Words that wait for the next ones, for they could be the beginning of a secret."""

    def outgoing_progress(self, frame: Progress, redactor: Redactor) -> Iterator[Progress]:
        """What goes out when this comes, in order and with its numbers."""
        if frame.kind == "text":
            said, self._held_text = redactor.split_releasable(self._held_text + (frame.text or ""))
            yield self._numbered(frame, text=said)
            return
        if self._held_text:
            rest, self._held_text = self._held_text, ""
            yield self._numbered(Progress(request_id=frame.request_id, seq=0, kind="text"), text=rest)
        yield self._numbered(frame)

    def _numbered(self, frame: Progress, **changed: str) -> Progress:
        self._seq += 1
        return frame.model_copy(update={"seq": self._seq, **changed})
