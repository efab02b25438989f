"""Send frames to the host, and repeat results until it has them. Outlives every connection."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import BaseModel

from agent_common.protocol.work import LifecycleSignal, SignalName, Verdict, WorkResult, encode, to_rfc3339
from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ...errors import StoreError
from ...ports import Clock
from ...store import Database
from ..redaction import redact_frame
from . import ledger
from .batch_lookup import BatchLookup

log = logger(__name__)
MAX_ERROR_CHARACTERS = 1000
"""Maximum characters of an error in a signal."""
MAX_PENDING_ACKNOWLEDGEMENTS = 1024
"""Maximum acknowledgements being written; above that, reading from the host pauses."""
TOO_LARGE = "result_too_large"


class FrameSender(Protocol):
    """A connection for outgoing frames."""

    max_line: int
    """Bytes of the longest line that the host accepts."""
    redactor: Redactor

    def send(self, frame: BaseModel, *, droppable: bool = False) -> None:
        """Queue a frame, in order. On a closed connection it is lost, but its content is in the ledger."""
        ...

    async def flush(self) -> None:
        """Return once all queued frames were sent, or the connection has ended."""
        ...


@dataclass(slots=True)
class Outbox:
    """Sends frames and results on the current connection."""

    agent_id: str
    database: Database
    clock: Clock
    sender: FrameSender | None = None
    """The connection that may carry results; None if there is none."""
    extended: bool = False
    """Whether the host has sent a welcome: it then acknowledges results and receives progress."""
    _finding: BatchLookup[ledger.WorkEntry | None] = field(init=False)
    _settling: BatchLookup[None] = field(init=False)

    def __post_init__(self) -> None:
        self._finding = BatchLookup(self._find)
        self._settling = BatchLookup(self._acknowledge_batch)

    def send(self, frame: BaseModel, *, droppable: bool = False) -> None:
        if self.sender is not None:
            self.sender.send(frame, droppable=droppable)

    def send_signal(self, name: SignalName, request_id: str, *, error: str | None = None) -> None:
        now = to_rfc3339(self.clock.now_ms())
        words = error[:MAX_ERROR_CHARACTERS] if error is not None else None
        self.send(
            LifecycleSignal(signal=name, agent_id=self.agent_id, observed_at=now, request_id=request_id, error=words)
        )

    async def deliver(self, result: WorkResult) -> None:
        """Send the result, and the signal that its place in the window is free. The result stays in the outbox until it
        is acknowledged; to a host that never acknowledges, it is sent once."""
        if self.sender is None:
            return
        self.send(shorten_result(redact_frame(result, self.sender.redactor), self.sender.max_line))
        self.send_signal("completed", result.request_id)
        if not self.extended:
            now = self.clock.now_ms()
            request_id = result.request_id
            await self.write(lambda connection: ledger.mark_sent(connection, request_id, now))

    async def deliver_unacknowledged(self, verdicts: Mapping[str, Verdict] | None) -> None:
        """Send the unacknowledged results as fast as the host reads. `verdicts` are the host's decisions about them;
        None: send only those that were never sent."""
        sender = self.sender
        for request_id in await self.database.read(
            lambda connection: ledger.unacknowledged_ids(connection, unsent=verdicts is None)
        ):
            if verdicts is not None and verdicts.get(request_id) in ("forget", "cancel"):
                await self.acknowledge(request_id)
                continue
            entry = await self.find(request_id)
            if sender is None or self.sender is not sender:
                return
            if entry is not None and entry.result is not None and not entry.acked:
                await self.deliver(entry.result)
                await sender.flush()

    async def acknowledge(self, request_id: str) -> None:
        """Record that the host has the result, or does not want it."""
        await asyncio.shield(self._settling.submit(request_id))

    async def acknowledge_soon(self, request_id: str) -> None:
        """Record the same without waiting for the disk, unless too many acknowledgements wait already."""
        recorded = self._settling.submit(request_id)
        if self._settling.pending_count > MAX_PENDING_ACKNOWLEDGEMENTS:
            await asyncio.shield(recorded)

    async def find(self, request_id: str) -> ledger.WorkEntry | None:
        """Return the ledger's entry; None if there is none. Raises StoreError."""
        return await asyncio.shield(self._finding.submit(request_id))

    async def close(self) -> None:
        """Return once all acknowledgements are written."""
        await self._settling.wait_idle()

    async def _acknowledge_batch(self, request_ids: tuple[str, ...]) -> Mapping[str, None]:
        await self.write(lambda connection: ledger.acknowledge(connection, request_ids, self.clock.now_ms()))
        return dict.fromkeys(request_ids)

    async def _find(self, request_ids: tuple[str, ...]) -> Mapping[str, ledger.WorkEntry | None]:
        return await self.database.read(
            lambda connection: {request_id: ledger.find(connection, request_id) for request_id in request_ids}
        )

    async def write(self, unit: Callable[[sqlite3.Connection], object]) -> None:
        """Write to the ledger, ignoring StoreError: the host will ask again about what is lost."""
        try:
            await self.database.write(unit)
        except StoreError as error:
            log.warning("the ledger could not be written", error=str(error))


def _surely_fits(result: WorkResult, max_bytes: int) -> bool:
    """Return whether the encoded result certainly fits: a character takes at most six bytes, and the rest is
    bounded."""
    characters = len(result.content or "") + len(result.error or "") + len(result.audit_ref) + len(result.request_id)
    return characters * 6 + 512 <= max_bytes


def shorten_result(result: WorkResult, max_bytes: int) -> WorkResult:
    """Shorten the result to a line of at most `max_bytes`, because one that the host cannot read would be resent
    forever. Text is cut, with a mark; JSON is left out, as it would be invalid."""
    if result.content is None or _surely_fits(result, max_bytes):
        return result
    size = len(encode(result))
    if size <= max_bytes:
        return result
    text = f"{TOO_LARGE}: a line of {size} bytes, and the host accepts {max_bytes}; this agent keeps it all"
    if result.content.startswith("{"):
        return result.model_copy(update={"status": "failed", "content": None, "error": text})
    mark = f"\n[{text}]"
    length = len(result.content)
    while size > max_bytes and length > 0:
        length = min(length - 1, int(length * (max_bytes - 64) / size))
        cut = result.model_copy(update={"content": result.content[: max(0, length)] + mark})
        size = len(encode(cut))
        if size <= max_bytes:
            return cut
    return result.model_copy(update={"content": None, "error": text[:200]})
