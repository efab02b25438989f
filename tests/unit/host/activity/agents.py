"""Agents as the host sees them, each a raw HTTP server that a test tells what to answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from agent_common.net import Tcp, connect
from agent_host.errors import Conflict, NotFound
from agent_host.fleet import AgentRuntime, Fleet, RunningAgent

P = TypeVar("P", bound=asyncio.Protocol)
Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Answers the request with this head."""
PATIENCE = 20.0


class Runtime:
    def __init__(self, port: int) -> None:
        self.port = port
        self.refusals: list[Exception] = []
        """Raised for the next connections."""

    async def connect(self, protocol: Callable[[], P]) -> P:
        if self.refusals:
            raise self.refusals.pop(0)
        return (await connect(protocol, Tcp("127.0.0.1", self.port)))[1]


@dataclass
class Agents:
    """The fleet as the host's activity sees it."""

    running: dict[str, RunningAgent] = field(default_factory=dict[str, RunningAgent])
    heads: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Workspace and head of each request."""

    def running_ids(self) -> Sequence[str]:
        return sorted(self.running)

    async def get(self, workspace_id: str) -> object:
        if workspace_id not in self.running:
            raise NotFound(f"there is no workspace {workspace_id!r}")
        return workspace_id

    async def running_agent(self, workspace_id: str) -> RunningAgent:
        if workspace_id not in self.running:
            raise Conflict("it does not run", code="not_running")
        return self.running[workspace_id]

    @property
    def fleet(self) -> Fleet:
        return cast(Fleet, self)


@asynccontextmanager
async def agents(answers: Mapping[str, Answer]) -> AsyncGenerator[Agents]:
    """Serve an agent for each name that answers so."""
    found, writers = Agents(), list[asyncio.StreamWriter]()
    async with AsyncExitStack() as stack:
        for name, answer in answers.items():
            server = await asyncio.start_server(_serving(found, writers, name, answer), "127.0.0.1", 0)
            await stack.enter_async_context(server)
            runtime = cast(AgentRuntime, Runtime(server.sockets[0].getsockname()[1]))
            watch = asyncio.create_task(asyncio.Event().wait())
            stack.callback(watch.cancel)
            found.running[name] = RunningAgent(runtime, "secret", cast("asyncio.Task[None]", watch))
        try:
            yield found
        finally:
            for writer in writers:
                writer.transport.abort()


def _serving(
    found: Agents, writers: list[asyncio.StreamWriter], name: str, answer: Answer
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Coroutine[Any, Any, None]:
        writers.append(writer)  # at once: the last one may end before `serve` has begun
        return serve(reader, writer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                found.heads.append((name, head))
                await answer(head, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return accept


def body(data: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(data), data)


def always(reply: bytes) -> Answer:
    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)

    return answer
