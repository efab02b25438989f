"""A small listener for the mediation channel: sound, or wrong on purpose in one way, to try an agent out with.

    async with StubListener("tcp://127.0.0.1:9900") as listener:
        request_id = listener.submit("ping")
        work = await listener.wait_for_result(request_id)

It serves one agent, and keeps its ledger in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_common.net import listen_at, parse_endpoint
from agent_common.protocol.work import WorkRequest, WorkResult, to_rfc3339

from .listener_connection import ListenerConversation
from .listener_faults import LISTENER_FAULTS, LOOSE_LISTENER_FAULTS

_MOST_OPEN = 20
_MOST_PROBES = 50


@dataclass(slots=True)
class StubWork:
    """A request, and how far it is."""

    request: WorkRequest
    state: Literal["queued", "dispatched", "accepted", "resulted"] = "queued"
    result: WorkResult | None = None
    times_sent: int = 0
    """How often it was sent."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class StubListener:
    """Listens, and gives the work that is handed in to the agent that is attached."""

    url: str
    workspace: str = "stub"
    dialect: Literal["strict", "loose"] = "strict"
    key: bytes | None = None
    """With it, agents must prove that they have it, too."""
    heartbeat: float = 15.0
    first_line: float = 10.0
    """Seconds to the first line of a connection."""
    max_line: int = 1 << 20
    faults: frozenset[str] = frozenset()
    """What it does wrong: names of LISTENER_FAULTS, and of LOOSE_LISTENER_FAULTS where it is loose."""
    ledger: dict[str, StubWork] = field(default_factory=dict[str, StubWork])
    current: ListenerConversation | None = None
    epoch: int = 0
    macs: set[str] = field(default_factory=set[str])
    open_connections: int = 0
    _probes: int = 0
    hang_up_next: bool = False
    """The next one who says something is hung up on."""
    _hung_up_once: bool = False
    _connections: set[ListenerConversation] = field(default_factory=set[ListenerConversation])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _exit_stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        if unknown := self.faults - (LISTENER_FAULTS | LOOSE_LISTENER_FAULTS).keys():
            raise ValueError(f"faults: there is no fault {', '.join(sorted(unknown))}")

    async def __aenter__(self) -> StubListener:
        """Listens from now on; `url` names the port then. Raises OSError."""
        place = self._exit_stack.enter_context(listen_at(parse_endpoint(self.url, listening=True)))
        place.sock.setblocking(False)
        self.url = str(place.endpoint)
        self._track_task(asyncio.create_task(self._accept(place.sock), name="stub listener"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._exit_stack.close()

    def submit(self, content: str, *, request_id: str | None = None, **more: Any) -> str:
        """Hands in work; returns its id."""
        request = WorkRequest.model_validate(
            {
                "request_id": request_id or f"stub-{uuid.uuid4().hex[:12]}",
                "principal": {"name": "operator", "kind": "user", "verified": True},
                "content": content,
                "constraints_version": 0,
                "submitted_at": to_rfc3339(time.time_ns() // 1_000_000),
                "audit_ref": f"audit/{uuid.uuid4().hex[:8]}",
                **more,
            }
        )
        self.ledger[request.request_id] = StubWork(request)
        if self.current is not None:
            self.current.dispatch()
        return request.request_id

    async def wait_for_result(self, request_id: str, seconds: float = 10.0) -> StubWork:
        """The work once it has its result. Raises TimeoutError."""
        work = self.ledger[request_id]
        async with asyncio.timeout(seconds):
            await work.ended.wait()
        return work

    # ---------------------------------------------------------------- connections

    async def _accept(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            opened, _ = await loop.sock_accept(bound)
            if "few_connections" in self.faults and self.open_connections >= _MOST_OPEN:
                opened.close()
                continue
            self._track_task(asyncio.create_task(self._serve(opened)))

    async def _serve(self, opened: socket.socket) -> None:
        self.open_connections += 1
        opener = asyncio.open_unix_connection if opened.family == socket.AF_UNIX else asyncio.open_connection
        reader, writer = await opener(sock=opened)
        talk = ListenerConversation(self, reader, writer)
        if "probes_displace" in self.faults and self.current is not None:
            self.current.end()
        self._connections.add(talk)
        try:
            ended = await talk.run()
        finally:
            self.open_connections -= 1
            self._connections.discard(talk)
            if self.current is talk:
                self.current = None
            talk.requeue()
            talk.end()
        if not talk.has_spoken:
            self._count_probe(ended)

    def _count_probe(self, ended: str) -> None:
        """A connection on which nothing was said."""
        self._probes += 1
        many = self._probes >= _MOST_PROBES and "chokes_on_probes" in self.faults
        if (many or (ended == "reset" and "chokes_on_resets" in self.faults)) and not self._hung_up_once:
            self._hung_up_once = self.hang_up_next = True

    def _track_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
