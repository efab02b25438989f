"""Connections to an agent's API, which the agent opens: only those that were asked for, only by the agent itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_common.protocol.work import api_challenge, compute_mac
from agent_host.errors import RequestError
from agent_host.listener.connection import agent_api

from .agent import Agent, Frame
from .conftest import Room


class Pipe(asyncio.Protocol):
    """What the host talks with over such a connection."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


async def attached(room: Room, name: str = "a", **more: Any) -> Agent:
    """An agent that offers its API."""
    agent = await room.connected(name, **more)
    agent.ready(detail=f"med/1 win=4 max=1048576 sid={agent.sid} api=1")
    agent.welcome = await agent.expect("welcome")
    if challenge := agent.welcome.get("challenge"):
        agent.answer(challenge)
    agent.send(ctl="resume", running=[], unacked=[])
    await agent.expect("resume_ok")
    return agent


@pytest.fixture
async def asked(room: Room) -> AsyncIterator[tuple[Agent, Frame, asyncio.Task[Pipe]]]:
    """An attached agent that has been asked for a connection, which the host waits for."""
    agent = await attached(room)
    waiting = asyncio.create_task(room.listener.connect_agent("a", Pipe))
    yield agent, await agent.expect("open_api"), waiting
    waiting.cancel()


def proof(agent: Agent, challenge: str) -> str:
    key, epoch = (agent.key or "").encode(), agent.welcome["epoch"]
    return compute_mac(key, challenge=challenge, sid=agent.sid, agent_id=agent.name, epoch=epoch)


def opened(agent: Agent, frame: Frame) -> Frame:
    """The line by which the agent opens the connection."""
    mac = proof(agent, api_challenge(frame["id"]))
    return {"ctl": "api_opened", "id": frame["id"], "agent_id": agent.name, "mac": mac}


async def test_the_agent_opens_a_connection_and_it_is_a_pipe(
    room: Room, asked: tuple[Agent, Frame, asyncio.Task[Pipe]]
) -> None:
    agent, frame, waiting = asked
    way = await room.connected()
    way.send(**opened(agent, frame))
    pipe = await waiting
    pipe.transport.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await way.reader.readexactly(18) == b"GET / HTTP/1.1\r\n\r\n"
    way.raw(b"not a frame, and no line either" * 100_000)
    await room.until(lambda: len(pipe.heard) == 3_100_000)
    assert room.alarms() == {}

    second = await room.connected()
    second.send(**opened(agent, frame))
    assert await second.ended(), "an id is for one use"
    await agent.close()
    await asyncio.wait_for(pipe.lost.wait(), 10)
    with pytest.raises(ConnectionError, match="not attached"):
        await room.listener.connect_agent("a", Pipe)


ATTACKS: dict[str, dict[str, Any]] = {
    "an id that nobody has asked for": {"id": "x" * 22},
    "no proof": {"mac": None},
    "a wrong proof": {"mac": "0" * 64},
    "another workspace's name": {"agent_id": "b"},
    "a name that there is not": {"agent_id": "nobody"},
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_what_is_not_the_agents_own_is_refused(
    room: Room, asked: tuple[Agent, Frame, asyncio.Task[Pipe]], attack: str
) -> None:
    agent, frame, waiting = asked
    await room.enrol("b")
    stranger = await room.connected()
    stranger.send(**(opened(agent, frame) | ATTACKS[attack]))
    assert await stranger.ended()
    assert not waiting.done()
    assert room.alarms() == {"unknown_api_connection": 1}
    way = await room.connected()
    way.send(**opened(agent, frame))
    assert await waiting, "the agent itself is not disturbed"


async def test_the_proof_of_the_attachment_is_none_here(
    room: Room, asked: tuple[Agent, Frame, asyncio.Task[Pipe]]
) -> None:
    agent, frame, waiting = asked
    for challenge in (agent.welcome["challenge"], frame["id"]):
        stranger = await room.connected()
        stranger.send(**(opened(agent, frame) | {"mac": proof(agent, challenge)}))
        assert await stranger.ended()
    assert not waiting.done()


async def test_more_than_the_one_line_is_refused(room: Room, asked: tuple[Agent, Frame, asyncio.Task[Pipe]]) -> None:
    agent, frame, waiting = asked
    way = await room.connected()
    way.signal("mediation_broken")
    way.send(**opened(agent, frame))
    assert await way.ended()
    assert not waiting.done()


async def test_one_that_detaches_is_not_waited_for(room: Room, asked: tuple[Agent, Frame, asyncio.Task[Pipe]]) -> None:
    agent, frame, waiting = asked
    await agent.close()
    with pytest.raises(ConnectionError, match="detached"):
        await waiting
    late = await room.connected()
    late.send(**opened(agent, frame))
    assert await late.ended()


async def test_connections_are_counted(room: Room) -> None:
    agent = await attached(room)
    waiting = [
        asyncio.create_task(room.listener.connect_agent("a", Pipe)) for _ in range(agent_api.MOST_CONNECTIONS + 1)
    ]
    frames = [await agent.expect("open_api") for _ in range(agent_api.MOST_CONNECTIONS)]
    with pytest.raises(RequestError, match="too many connections"):
        await waiting.pop()
    ways: list[Agent] = []
    for frame in frames:
        ways.append(await room.connected())
        ways[-1].send(**opened(agent, frame))
    pipes = await asyncio.gather(*waiting)
    assert len(pipes) == agent_api.MOST_CONNECTIONS
    pipes[0].transport.close()
    again = asyncio.create_task(room.listener.connect_agent("a", Pipe))
    ways[0].abort()
    assert await agent.expect("open_api")
    again.cancel()
    await room.listener.workspaces.quarantine("a", "it is odd")
    async with asyncio.timeout(60):
        await asyncio.gather(*(pipe.lost.wait() for pipe in pipes))


async def test_an_address_of_its_own_is_the_proof_of_an_agent_without_a_key(room: Room) -> None:
    await room.enrol("own", auth="none", listen="tcp://127.0.0.1:0")
    agent = await attached(room, "own")
    waiting = asyncio.create_task(room.listener.connect_agent("own", Pipe))
    frame = await agent.expect("open_api")
    line = {"ctl": "api_opened", "id": frame["id"], "agent_id": "own"}
    elsewhere = await room.connected("a")
    elsewhere.send(**line)
    assert await elsewhere.ended()
    assert not waiting.done()
    way = await room.connected("own")
    way.send(**line)
    assert await waiting


async def test_it_is_asked_for_only_if_it_is_offered(room: Room) -> None:
    await room.attached()
    with pytest.raises(RequestError, match="does not offer its API") as refused:
        await room.listener.connect_agent("a", Pipe)
    assert refused.value.status == 501
