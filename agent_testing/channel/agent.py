"""A small agent for the mediation channel: sound, or wrong on purpose in one way, to try a host out with.

    agent = StubAgent("tcp://127.0.0.1:9900")
    task = asyncio.create_task(agent.run())

It answers `pong`; to `sleep:SECONDS` so much later; to `tool` after a call of a tool. It keeps its ledger in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Literal

from agent_common.net import open_endpoint, parse_endpoint
from agent_common.protocol.work import WorkRequest, WorkResult, WorkUsage, payload_hash

from .agent_connection import AgentConversation
from .agent_faults import AGENT_FAULTS, LOOSE_AGENT_FAULTS

CONNECTION_ERRORS = (OSError, EOFError, TimeoutError)
STEADY_SECONDS = 10.0


@dataclass(slots=True)
class StubEntry:
    """A request, and how far it is."""

    request: WorkRequest
    result: WorkResult | None = None
    sent: bool = False
    acked: bool = False
    usage: WorkUsage = field(default_factory=WorkUsage)
    task: asyncio.Task[None] | None = None
    result_unwanted: bool = False
    """Nobody wants its result."""
    answer: str = "pong"


@dataclass(slots=True)
class StubAgent:
    """Dials the host and works for it, until it is cancelled or drained."""

    url: str
    agent_id: str = "stub"
    dialect: Literal["strict", "loose"] = "strict"
    key: bytes | None = None
    constraints: bytes | None = None
    """Payload of version 1; without it there are none, and the version is 0."""
    extensions: bool = True
    faults: frozenset[str] = frozenset()
    """What it does wrong: names of AGENT_FAULTS, and of LOOSE_AGENT_FAULTS where it is loose."""
    backoff: tuple[float, float] = (0.1, 5.0)
    """Seconds before a new connection: at first, and at most."""
    window: int = 1
    max_line: int = 1 << 20
    version: int = 0
    hash: str = ""
    epoch: int = 0
    broken: str | None = None
    """Why the last connection ended."""
    drained: bool = False
    dials: int = 0
    ledger: dict[str, StubEntry] = field(default_factory=dict[str, StubEntry])
    _connection: AgentConversation | None = None

    def __post_init__(self) -> None:
        if unknown := self.faults - (AGENT_FAULTS | LOOSE_AGENT_FAULTS).keys():
            raise ValueError(f"faults: there is no fault {', '.join(sorted(unknown))}")
        if self.constraints is not None:
            self.version, self.hash = 1, payload_hash(self.constraints)

    async def run(self) -> None:
        """Returns when it was drained."""
        loop, (first, most) = asyncio.get_running_loop(), self.backoff
        delay = first
        try:
            while not self.drained:
                began = loop.time()
                await self._connect_once()
                if "exits_on_eof" in self.faults:
                    return
                delay = first if loop.time() - began >= STEADY_SECONDS else delay
                await asyncio.sleep(0.001 if "dials_hotly" in self.faults else random.uniform(0, delay))  # noqa: S311
                delay = min(delay * 2, most)
        finally:
            await self._stop_all()

    async def _connect_once(self) -> None:
        self.dials += 1
        try:
            reader, writer = await open_endpoint(parse_endpoint(self.url))
        except CONNECTION_ERRORS as error:
            self.broken = self.broken or str(error)
            return
        second = await self._dial_second() if "dials_twice" in self.faults else None
        self._connection = talk = AgentConversation(self, reader, writer)
        try:
            self.broken = await talk.run()
        finally:
            self._connection = None
            for one in filter(None, (writer, second)):
                one.close()
                with contextlib.suppress(*CONNECTION_ERRORS):
                    await one.wait_closed()
        if "loses_work" in self.faults:
            self.drop_running()

    async def _dial_second(self) -> asyncio.StreamWriter | None:
        with contextlib.suppress(*CONNECTION_ERRORS):
            return (await open_endpoint(parse_endpoint(self.url)))[1]
        return None

    async def _stop_all(self) -> None:
        tasks = [entry.task for entry in self.ledger.values() if entry.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------- what talks ask for

    @property
    def running(self) -> list[str]:
        return [name for name, entry in self.ledger.items() if entry.result is None]

    @property
    def unacked(self) -> list[str]:
        return [name for name, entry in self.ledger.items() if entry.result is not None and not entry.acked]

    def deliver(self, entry: StubEntry) -> None:
        """Sends a result on the connection that there is; without one it waits for the next."""
        if self._connection is not None and self._connection.open_for_results:
            self._connection.deliver(entry)

    def connection(self) -> AgentConversation | None:
        """The connection that there is."""
        return self._connection

    def drop_running(self) -> None:
        for entry in self.ledger.values():
            if entry.result is None and entry.task is not None:
                entry.result_unwanted = entry.acked = True
                entry.task.cancel()
