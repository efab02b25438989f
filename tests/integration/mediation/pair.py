"""Both ends of the channel in one process, each with its database, and the bridge between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import text

from agent_common.net import parse_endpoint
from agent_common.protocol.work import Principal, WorkRequest, to_rfc3339
from agent_host.database import open_database
from agent_host.listener import LedgerRecord, Listener, ListenerLimits
from agent_runtime.mediation import (
    ChannelGate,
    ConstraintService,
    Identity,
    MediationChannel,
    Outbox,
    WorkRules,
    WorkService,
)
from agent_runtime.mediation.channel.backoff import RECONNECT, ReconnectBackoff
from agent_runtime.runtime.migrations import MIGRATIONS
from agent_runtime.store import Database
from agent_testing import FakeBridge
from tests.unit.mediation.support import Hands, Piece

from .moved_time import HandLoop, Hours

PATIENCE = 60.0
STEP = 5.0
NAME = "a"
ENDS = "SELECT type FROM work_audit WHERE request_id = :id AND direction = 'host' AND type IN ('resulted', 'dead')"


LONGEST = replace(RECONNECT, draw=max)
"""Never lucky: always the longest wait there is."""


class Guest:
    """A channel as it is in a runtime, whose work ends when a test says so. Fills ports.Events."""

    def __init__(self, folder: Path, url: str, key: str, *, required: bool, window: int) -> None:
        folder.mkdir()
        (folder / "key").write_text(key)
        self.clock = Hours()
        self.database = Database(folder / "agent.db", MIGRATIONS)
        self.hands = Hands(self.database, self.clock)
        self.constraints = ConstraintService(folder / "constraints")
        outbox = Outbox(NAME, self.database, self.clock)
        rules = WorkRules(window, loose=False)
        self.clerk = WorkService(self.database, self.clock, self.hands, self.constraints, rules, outbox)
        self.gate = ChannelGate(required=required)
        identity = Identity(NAME, folder / "key", loose=False, window=window, max_line=1 << 20)
        self.channel = MediationChannel(
            *(parse_endpoint(url), identity, self.clerk, self.gate, self),
            grace=30,
            backoff=lambda: ReconnectBackoff(LONGEST),
        )
        self.states: list[str] = []
        """Of the channel, one after the other."""
        self.errors: list[str] = []
        """Why its connections have ended."""

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        del kind, principal
        self.states.append(facts["state"])
        if facts["state"] == "broken" and facts["error"]:
            self.errors.append(facts["error"])

    @property
    def begun(self) -> list[str]:
        return self.hands.begun

    @property
    def breaks(self) -> int:
        return self.channel.status.breaks

    async def open(self) -> None:
        self.database.open()
        await self.channel.start()

    async def close(self) -> None:
        for piece in self.hands.pieces.values():
            piece.over.set()
        await self.channel.close()
        self.database.close()

    async def rest(self) -> None:
        """Until what was begun has gone through the database and back."""
        for _ in range(4):
            await self.database.write(lambda _: None)
            await self.database.read(lambda _: None)
            await asyncio.sleep(0)


class Pair:
    """A listener with one workspace, a bridge, and the guests that a test wakes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._stack, self._guests = folder, ExitStack(), list[Guest]()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HandLoop)
        self.loop, self.clock = loop, Hours()
        self.database = open_database(f"sqlite:///{self.folder / 'mesh.db'}")
        limits = ListenerLimits(retry_min=0.0, retry_max=0.01, resend_max=0.01, close_timeout=0.05)
        self.listener = Listener(self.database, "tcp://127.0.0.1:0", limits=limits, clock=self.clock)
        await self.listener.open()
        self._key = (await self.listener.workspaces.enrol(NAME))[1] or ""
        self.bridge = FakeBridge(f"unix:{self.folder / 'guest.sock'}", str(self.listener.workspaces.address))
        await self.bridge.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bridge.release()
        for guest in self._guests:
            await guest.close()
        await self.listener.close()
        await self.bridge.__aexit__(kind, error, traceback)
        self.database.close()

    async def guest(self, *, required: bool = False, window: int = 4) -> Guest:
        """A guest that dials; `ready` waits for its attachment."""
        folder = self.folder / f"guest-{len(self._guests)}"
        guest = Guest(folder, self.bridge.url, self._key, required=required, window=window)
        self._guests.append(guest)
        await guest.open()
        return guest

    async def attached(self, *, required: bool = False, window: int = 4) -> Guest:
        guest = await self.guest(required=required, window=window)
        await self.ready(guest)
        return guest

    # ---------------------------------------------------------------- time

    async def until(self, fits: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> Any:
        """Waits until it holds, on the machine's clock."""
        end = time.monotonic() + PATIENCE
        while True:
            found = fits()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            assert time.monotonic() < end, "it does not come to that"
            await asyncio.sleep(0.001)

    async def pass_time(self, seconds: float, step: float = STEP) -> None:
        """In small steps, after each of which everybody has had his turn: the disks, and the bridge between."""
        while seconds > 0:
            self.loop.leap(min(step, seconds))
            seconds -= step
            await self.settle()

    async def settle(self) -> None:
        """Until nothing moves on the wires any more, and the disks have rested."""
        before = None
        while before != (now := (self.bridge.counts.to_host, self.bridge.counts.to_guest, self.bridge.counts.accepted)):
            before = now
            for guest in self._guests:
                await guest.rest()
            await self.listener.ledger_writer.flush()
            for _ in range(20):
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)

    # ---------------------------------------------------------------- work

    async def ready(self, guest: Guest) -> None:
        """Both ends agree that it is."""

        async def fits() -> bool:
            readiness = await self.listener.workspaces.readiness(NAME)
            return guest.channel.ready and readiness is not None and readiness.attached

        await self.until(fits)

    @property
    def epoch(self) -> int:
        """The one that is attached; 0 for none."""
        session = self.listener.channels.get(NAME).session
        return session.epoch if session is not None else 0

    @property
    def host_breaks(self) -> dict[str, int]:
        return self.listener.metrics.labels("breaks")

    async def submit(self, request_id: str = "r1", **more: Any) -> None:
        given: dict[str, Any] = {
            "request_id": request_id,
            "principal": Principal(name="ann", kind="user", verified=True),
            "content": "ping",
            "constraints_version": 0,
            "submitted_at": to_rfc3339(self.clock.now_ms()),
            "audit_ref": request_id,
            **more,
        }
        await self.listener.submit(NAME, WorkRequest(**given))

    async def begun(self, guest: Guest, request_id: str = "r1") -> Piece:
        """Handed in, and accepted."""
        await self.submit(request_id)
        await self.until(lambda: request_id in guest.hands.pieces)

        async def fits() -> bool:
            return (await self.listener.get(request_id)).status == "accepted"

        await self.until(fits)
        return guest.hands.pieces[request_id]

    async def ended(self, request_id: str = "r1") -> LedgerRecord:
        async def fits() -> LedgerRecord | None:
            record = await self.listener.get(request_id)
            return record if record.is_finished else None

        return await self.until(fits)

    async def once(self, guest: Guest, request_id: str = "r1") -> LedgerRecord:
        """It was begun once, ended once, was recorded once, and the guest knows that it was."""
        record = await self.ended(request_id)
        assert (record.status, record.attempts) == ("resulted", 1), record
        assert record.result is not None
        assert (record.result.status, record.result.content) == ("completed", "done")
        assert guest.begun.count(request_id) == 1
        await self.until(lambda: self._nothing_left(guest))
        await self.listener.ledger_writer.flush()
        rows = await self.database.run(lambda connection: connection.execute(text(ENDS), {"id": request_id}).all())
        assert len(rows) == 1
        return record

    async def _nothing_left(self, guest: Guest) -> bool:
        resume = await guest.clerk.resume_frame()
        return not resume.running and not resume.unacked
