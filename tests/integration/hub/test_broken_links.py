"""Links that end in unusual ways: before their handshake, by an unforeseen error. The agent joins its hub again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from agent_client.hub import HubClient, HubUnavailable, LinkClient, Passport, Resume, WebSocketLink
from agent_common.protocol.hub import Frame, HelloFrame, RequestFrame, ResponseFrame
from agent_host.database import open_database
from agent_runtime.errors import MeshUnavailable
from agent_runtime.hub.member import HubMember
from agent_testing import LiveProcess
from agent_testing.bridge import FakeBridge
from tests.integration.hub import hub_process
from tests.ports import free_port

PATIENCE = 60.0


@pytest.fixture
def port(tmp_path: Path) -> Generator[int]:
    """The port of a hub."""
    url, port = f"sqlite:///{tmp_path / 'hub.db'}", free_port()
    open_database(url).close()
    with LiveProcess([sys.executable, hub_process.__file__, url, str(port)], timeout=PATIENCE) as process:
        process.wait_for_output("the hub listens")
        yield port


@asynccontextmanager
async def busy_loop() -> AsyncGenerator[None]:
    """Have other work delay each step of what runs meanwhile, so that a connection ends between any two."""

    async def work() -> None:
        while True:
            time.sleep(0.001)  # noqa: ASYNC251  that is the point
            await asyncio.sleep(0)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


@pytest.mark.slow  # waits for the pauses between attempts
def test_a_link_comes_back_after_connections_that_end_at_once(port: int) -> None:
    """They end before their handshake has begun, during it and after it."""

    async def run() -> None:
        async with FakeBridge("tcp://127.0.0.1:0", f"tcp://127.0.0.1:{port}") as bridge:
            hub = HubClient(WebSocketLink(f"{bridge.url.replace('tcp', 'ws')}/hub", direct=True), timeout=PATIENCE)
            agent = await hub.register(None, Passport(name="ann"), attach_plugin=False)
            bridge.host_is_down = True
            bridge.cut()
            async with busy_loop():
                await bridge.until(lambda counts: counts.failed_dials >= 4, PATIENCE)
            bridge.host_is_down = False
            assert await agent.sessions() == [], "asked again over the new link"
            assert hub.is_connected
            await hub.close()

    uvloop.run(run())


def test_a_connection_that_ends_at_once_is_an_unavailable_hub() -> None:
    async def run() -> None:
        async def end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(end, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, busy_loop():
            for _ in range(40):
                with pytest.raises(HubUnavailable, match="cannot be reached"):
                    await WebSocketLink(f"ws://127.0.0.1:{port}/hub", direct=True).client().open()

    uvloop.run(run())


class FailingLink(LinkClient):
    """Answers requests, and fails in its own way once it is told to."""

    def __init__(self) -> None:
        self.failing = asyncio.Event()
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send_frame(self, frame: Frame) -> None:
        if isinstance(frame, RequestFrame):
            self._frames.put_nowait(ResponseFrame(request_id=frame.request_id, result={"agent_id": "agt:1"}))
        else:
            assert isinstance(frame, HelloFrame)

    async def frames(self) -> AsyncIterator[Frame]:
        while not self.failing.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    yield await self._frames.get()
        raise ZeroDivisionError("nobody has foreseen this")


async def test_a_client_whose_link_fails_has_ended_and_says_why() -> None:
    link = FailingLink()
    hub = HubClient(link)
    agent = await hub.register(None, Passport(name="ann"), attach_plugin=False)
    link.failing.set()
    async with asyncio.timeout(PATIENCE):
        end = await hub.wait_ended()
    assert "nobody has foreseen this" in end.message
    assert not hub.is_connected
    with pytest.raises(HubUnavailable, match="nobody has foreseen"):
        await agent.sessions()
    await hub.close()


def is_joined(member: HubMember) -> bool:
    try:
        return member.client.agent_id != ""
    except MeshUnavailable:
        return False


async def test_an_agent_joins_although_its_card_could_not_be_made_at_first(port: int) -> None:
    attempts = 0

    def card() -> tuple[Passport, Resume]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("the skills cannot be read")
        return Passport(name="ann"), Resume()

    async def handle(*_: object) -> None: ...

    member = HubMember(WebSocketLink(f"ws://127.0.0.1:{port}/hub", direct=True))
    member.start(card, handle)
    try:
        async with asyncio.timeout(PATIENCE):
            while not is_joined(member):
                await asyncio.sleep(0.05)
        assert attempts == 2
    finally:
        await member.close()
