"""A listener on a free port with a database of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent_common.protocol.work import Principal, WorkRequest, WorkResult, to_rfc3339
from agent_host.database import HostDatabase, open_database
from agent_host.listener import LedgerRecord, Listener, ListenerLimits, NoOwner, WorkspaceOwner
from agent_host.listener.connection.session import AgentSession
from agent_host.listener.dispatch.readiness import Readiness
from agent_testing import ManualClock

from .agent import PATIENCE, Agent


class Owner(NoOwner):
    """Notes what it is told. `fails`: it cannot delete tokens."""

    def __init__(self) -> None:
        self.halted: list[str] = []
        self.revoked: list[str] = []
        self.fails = False

    def on_halt(self, workspace: str) -> None:
        self.halted.append(workspace)

    def revoke_tokens(self, connection: Connection, workspace: str) -> None:
        self.revoked.append(workspace)
        if self.fails:
            raise OSError("the disk is full")

    def on_fenced(self, workspace: str) -> None:
        self.revoked.append(workspace)


class Room:
    """A listener over all its lives, and what tests do with it."""

    def __init__(self, folder: Path, limits: ListenerLimits | None = None, owner: WorkspaceOwner | None = None) -> None:
        self.url = f"sqlite:///{folder / 'mesh.db'}"
        self.limits = limits or ListenerLimits(retry_min=0.0, retry_max=0.01, close_timeout=0.05)
        self.clock, self.owner = ManualClock(), owner
        self.keys: dict[str, str] = {}
        self.database: HostDatabase
        self.listener: Listener
        self.agents: list[Agent] = []

    async def open(self) -> None:
        self.database = open_database(self.url)
        self.listener = Listener(
            self.database, "tcp://127.0.0.1:0", limits=self.limits, clock=self.clock, owner=self.owner
        )
        await self.listener.open()

    async def close(self) -> None:
        for agent in self.agents:
            agent.abort()
        self.agents.clear()
        await self.listener.close()
        self.database.close()

    async def again(self) -> None:
        """A new life of the host."""
        await self.close()
        await self.open()

    async def enrol(self, name: str = "a", **more: Any) -> str | None:
        key = (await self.listener.workspaces.enrol(name, **more))[1]
        if key:
            self.keys[name] = key
        return key

    def agent(self, name: str = "a", **more: Any) -> Agent:
        return Agent(
            self.listener.workspaces.address_of(name) or self.listener.workspaces.address,
            name,
            self.keys.get(name),
            **more,
        )

    async def connected(self, name: str = "a", **more: Any) -> Agent:
        agent = await self.agent(name, **more).__aenter__()
        self.agents.append(agent)
        return agent

    async def attached(self, name: str = "a", **more: Any) -> Agent:
        """An agent that has said all it must."""
        resume = {key: more.pop(key) for key in ("running", "unacked") if key in more}
        agent = await self.connected(name, **more)
        await agent.attach(**resume)
        return agent

    async def submit(self, request_id: str = "r1", name: str = "a", **more: Any) -> LedgerRecord:
        expires_in = more.pop("expires_in", None)
        pinned = more.pop("pinned", False)
        given: dict[str, Any] = {
            "request_id": request_id,
            "principal": Principal(name="ann", kind="user", verified=True),
            "content": "ping",
            "constraints_version": 0,
            "submitted_at": to_rfc3339(self.clock.now_ms()),
            "audit_ref": request_id,
            **more,
        }
        request = WorkRequest(**given)
        return (await self.listener.submit(name, request, pinned=pinned, expires_in=expires_in))[0]

    async def until(self, fits: Callable[[], Any] | Callable[[], Awaitable[Any]], what: str = "") -> Any:
        """Waits until it holds."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = fits()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.005)

    async def status(self, request_id: str = "r1") -> str:
        return (await self.listener.get(request_id)).status

    async def ended(self, request_id: str = "r1") -> LedgerRecord:
        """The record once it is over."""
        record = await self.listener.wait(request_id, PATIENCE)
        assert record.is_finished, record
        return record

    async def stands(self, status: str, request_id: str = "r1") -> LedgerRecord:
        async def fits() -> LedgerRecord | None:
            record = await self.listener.get(request_id)
            return record if record.status == status else None

        return await self.until(fits)

    async def result(self, request_id: str = "r1") -> WorkResult:
        """How it ended, with a result."""
        record = await self.ended(request_id)
        assert record.result is not None, record
        return record.result

    async def error(self, request_id: str = "r1") -> str:
        """Why it ended without one."""
        record = await self.ended(request_id)
        assert record.error is not None, record
        return record.error

    async def closed_by(self, name: str = "a") -> str | None:
        """Why the workspace gets no work."""
        return (await self.readiness(name)).code

    async def readiness(self, name: str = "a") -> Readiness:
        """Asks for it, and waits until the connection that this takes has come and gone: asyncio's own server leaves
        one unclosed that it takes while it is being closed."""
        gone = self.listener.metrics.total("probes")
        ready = await self.listener.workspaces.readiness(name)
        assert ready is not None
        if ready.target_reachable:
            await self.until(lambda: self.listener.metrics.total("probes") > gone)
        return ready

    @property
    def session(self) -> AgentSession:
        """That of the agent `a`."""
        session = self.listener.channels.get("a").session
        assert isinstance(session, AgentSession)
        return session

    def pass_time(self, seconds: float) -> None:
        """The clock goes on, and whatever is due then happens."""
        self.clock.advance(seconds)

    def count(self, name: str) -> int:
        return self.listener.metrics.total(name)

    def alarms(self) -> dict[str, int]:
        return self.listener.metrics.labels("alarms")


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
async def room(tmp_path: Path, owner: Owner) -> AsyncIterator[Room]:
    room = Room(tmp_path, owner=owner)
    await room.open()
    await room.enrol()
    yield room
    await room.close()
