"""The state of a work request: pending until it is in the ledger, then active."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from agent_common.protocol.work import Cancel, Progress, WorkRequest
from agent_common.redaction import Redactor

from .turn_worker import RunningWork


@dataclass(slots=True)
class PendingWork:
    """A request that is not in the ledger yet."""

    request: WorkRequest
    cancelled: Cancel | None = None
    """With which the host has cancelled it meanwhile; None: it has not."""


@dataclass(slots=True, eq=False)
class ActiveWork:
    """A request that is being worked on."""

    request: WorkRequest
    job: RunningWork | None
    """None: its turn has ended, but its result is not on disk yet."""
    forgotten: bool = False
    """Whether the host no longer wants its result."""
    stopping: bool = False
    """Whether it was cancelled."""
    task: asyncio.Task[None] | None = None
    _seq: int = 0
    _held_text: str = ""
    """Text withheld until the next piece, because it could be the beginning of a secret."""

    def outgoing_progress(self, frame: Progress, redactor: Redactor) -> Iterator[Progress]:
        """Yield the frames to send for this one, numbered and in order."""
        if frame.kind == "text":
            released, self._held_text = redactor.split_releasable(self._held_text + (frame.text or ""))
            yield self._numbered(frame, text=released)
            return
        if self._held_text:
            rest = self._held_text
            self._held_text = ""
            yield self._numbered(Progress(request_id=frame.request_id, seq=0, kind="text"), text=rest)
        yield self._numbered(frame)

    def _numbered(self, frame: Progress, **changed: str) -> Progress:
        self._seq += 1
        return frame.model_copy(update={"seq": self._seq, **changed})
