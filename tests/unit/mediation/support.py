"""The clerk between a host that is driven by hand and hands that work when they are told to, over a real ledger."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent_common.protocol.work import LifecycleSignal, Progress, WorkRequest, WorkResult, WorkUsage, to_rfc3339
from agent_common.redaction import Redactor
from agent_runtime.mediation import (
    ConstraintService,
    Outbox,
    RunningWork,
    WorkRefused,
    WorkRules,
    WorkService,
)
from agent_runtime.mediation.ledger import ledger as book
from agent_runtime.ports import Clock
from agent_runtime.runtime.migrations import MIGRATIONS
from agent_runtime.store import Database
from agent_testing import ManualClock

PATIENCE = 60.0


def request(request_id: str = "req-1", content: str = "ping", **changes: Any) -> WorkRequest:
    return WorkRequest.model_validate(
        {
            "request_id": request_id,
            "principal": {"name": "ada", "kind": "user", "verified": True},
            "content": content,
            "constraints_version": 0,
            "submitted_at": "2026-11-22T02:00:00Z",
            "audit_ref": f"audit-{request_id}",
            **changes,
        }
    )


@dataclass
class Wire:
    """Fills Post: everything that was said, in order."""

    max_line: int = 1 << 20
    redactor: Redactor = field(default_factory=Redactor)
    said: list[BaseModel] = field(default_factory=list[BaseModel])
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    """The host reads."""

    def __post_init__(self) -> None:
        self.reads.set()

    def send(self, frame: BaseModel, *, droppable: bool = False) -> None:
        del droppable
        self.said.append(frame)

    async def flush(self) -> None:
        await self.reads.wait()

    def results(self, request_id: str | None = None) -> list[WorkResult]:
        found = [frame for frame in self.said if isinstance(frame, WorkResult)]
        return [one for one in found if request_id in (None, one.request_id)]

    def signals(self, name: str) -> list[str | None]:
        return [one.request_id for one in self.said if isinstance(one, LifecycleSignal) and one.signal == name]


@dataclass
class Piece:
    """Fills Job."""

    request: WorkRequest
    hands: Hands
    over: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False
    queued: bool = False
    said: list[str] = field(default_factory=list[str])
    known: WorkResult | None = None

    async def wait_ended(self) -> bool:
        await self.over.wait()
        return not self.lost

    def result(self) -> WorkResult | None:
        return self.known

    async def stop(self, why: str) -> None:
        await self.finish("failed", f"{why}: it was stopped")

    def usage(self) -> WorkUsage:
        return WorkUsage()

    async def progress(self) -> AsyncIterator[Progress]:
        for text in self.said:
            yield Progress(request_id=self.request.request_id, seq=0, kind="text", text=text)
        await self.over.wait()

    async def finish(self, status: str = "completed", error: str | None = None, content: str = "done") -> None:
        """The result and the end."""
        if not self.over.is_set():
            await self.record(status, error, content)
            self.over.set()

    async def record(self, status: str = "completed", error: str | None = None, content: str = "done") -> None:
        result = WorkResult.model_validate(
            {
                "request_id": self.request.request_id,
                "status": status,
                "content": content,
                "error": error,
                "completed_at": to_rfc3339(self.hands.clock.now_ms()),
                "audit_ref": self.request.audit_ref,
            }
        )
        await self.hands.database.write(lambda connection: book.save_result(connection, result), durable=True)


@dataclass
class Hands:
    """Fills Worker: takes whatever comes and ends it when told to."""

    database: Database
    clock: Clock
    pieces: dict[str, Piece] = field(default_factory=dict[str, Piece])
    begun: list[str] = field(default_factory=list[str])
    barrier: asyncio.Event | None = None
    """Nothing begins before it is set."""
    refusal: WorkRefused | None = None

    async def start(self, request: WorkRequest) -> RunningWork:
        if self.barrier is not None:
            await self.barrier.wait()
        if self.refusal is not None:
            raise self.refusal
        now = self.clock.now_ms()

        def unit(connection: sqlite3.Connection) -> None:
            book.insert_request(connection, request, "msg_1", now)
            self.begun.append(request.request_id)

        try:
            await self.database.write(unit, durable=True)
        except book.AlreadyEntered:
            raise WorkRefused("overloaded", "it is being taken up") from None
        return self._piece(request)

    def resume(self, entry: book.WorkEntry) -> RunningWork | None:
        return self._piece(entry.request)

    def _piece(self, request: WorkRequest) -> Piece:
        piece = self.pieces[request.request_id] = Piece(request, self)
        return piece


class Office:
    """A clerk and what is around it; `restart` is a crash and the next life."""

    def __init__(self, database: Database, folder: Path, window: int) -> None:
        self.database, self.clock, self._window = database, ManualClock(), window
        self.constraints = ConstraintService(folder / "constraints")
        self.begun: list[str] = []
        self.wires: list[Wire] = []
        self._born()

    def _born(self) -> None:
        self.hands = Hands(self.database, self.clock, begun=self.begun)
        self.clerk = WorkService(
            database=self.database,
            clock=self.clock,
            worker=self.hands,
            constraints=self.constraints,
            rules=WorkRules(self._window, loose=False),
            outbox=Outbox("agent", self.database, self.clock),
        )

    def wire(self, **fields: Any) -> Wire:
        self.wires.append(Wire(**fields))
        return self.wires[-1]

    async def restart(self) -> None:
        self.clerk.detach()
        await self.clerk.close()
        await self.rest()  # what was on its way to the disk is there, or is not
        self._born()
        await self.clerk.open()

    async def rest(self) -> None:
        """Until what was begun has gone through the database and back."""
        for _ in range(4):
            await self.database.write(lambda _: None)
            await self.database.read(lambda _: None)
            await asyncio.sleep(0)

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await self.rest()


@contextmanager
def office(folder: Path, window: int = 1) -> Generator[Office]:
    database = Database(folder / "agent.db", MIGRATIONS)
    database.open()
    try:
        yield Office(database, folder, window)
    finally:
        database.close()
