"""The host follows each agent's events: once each, over broken connections, and at a pace that others survive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from agent_common.clock import SystemClock
from agent_common.event_ring import EventRing
from agent_host.activity.agent_api import AgentApi
from agent_host.activity.agent_streams import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    LEAST_COST,
    AgentStreams,
    Allowance,
    _Stream,
)
from agent_host.activity.event_reader import AgentEvent
from agent_host.errors import Unavailable
from agent_host.fleet import NotOffered
from agent_host.gateway import AgentConnections
from agent_host.listener.connection.agent_api import ApiNotOffered
from agent_testing import ManualClock

from .agents import PATIENCE, Agents, Answer, Runtime, agents

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@dataclass
class Seen:
    """What the host has published."""

    agents: Agents
    streams: AgentStreams = field(init=False)
    events: list[tuple[str, AgentEvent]] = field(default_factory=list[tuple[str, AgentEvent]])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def publish(self, workspace: str, event: AgentEvent) -> None:
        self.events.append((workspace, event))
        self.news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.news.clear()
                await self.news.wait()

    def numbers(self) -> list[Any]:
        return [event.facts.get("number", event.type) for _, event in self.events]

    def asked_after(self) -> list[str | None]:
        """The `Last-Event-ID` of each request."""
        lines = [head.split("\r\n") for _, head in self.agents.heads]
        return [next((line[15:] for line in one if line.startswith("last-event-id: ")), None) for one in lines]


@asynccontextmanager
async def followed(answer: Answer, **agent: bool) -> AsyncGenerator[Seen]:
    """Follow an agent that answers so; `agent`: what the fleet knows of it."""
    async with agents({"a": answer}) as found:
        found.running["a"] = replace(found.running["a"], **agent)
        seen = Seen(found)
        api = AgentApi(found.fleet, AgentConnections())
        seen.streams = AgentStreams(found.fleet, api, SystemClock(), seen.publish)
        seen.streams.start("a")
        yield seen
        await seen.streams.close()


def event(event_id: int, number: int, **more: Any) -> bytes:
    data = {"type": "turn-started", "user": "ann", "number": number, **more}
    return b"id: %d\nevent: turn-started\ndata: %b\n\n" % (event_id, json.dumps(data).encode())


def breaking(*connections: bytes) -> Answer:
    """An agent whose connections bring these bytes each and then break; the last one stays."""
    left = list(connections)

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + left.pop(0))
        await writer.drain()
        if left:
            writer.close()
            raise ConnectionResetError

    return answer


async def test_a_broken_stream_is_taken_up_where_it_broke() -> None:
    first = b": watching\nid: 10\n\n" + event(11, 1) + event(12, 2)[:20]
    async with followed(breaking(first, event(12, 2), b": watching\nid: 15\n\n", event(16, 3))) as seen:
        await seen.until(lambda: len(seen.events) == 3)
        assert seen.numbers() == [1, 2, 3]
        assert seen.asked_after() == ["0", "11", "12", "15"]


async def test_a_new_runtime_is_read_from_its_beginning_and_an_older_one_from_now_on() -> None:
    lost = b'id: 10\nevent: events-lost\ndata: {"type":"events-lost","after":0}\n\n'
    async with followed(breaking(lost + event(11, 1))) as seen:
        await seen.until(lambda: bool(seen.events))
        assert (seen.numbers(), seen.asked_after()) == ([1], ["0"])
    async with followed(breaking(b": watching\nid: 20\n\n" + event(21, 1)), adopted=True) as seen:
        await seen.until(lambda: bool(seen.events))
        assert (seen.numbers(), seen.asked_after()) == ([1], [None])


async def test_an_agent_of_another_program_goes_on_after_a_stop_where_it_was() -> None:
    starts = 0

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        nonlocal starts
        starts += 1
        writer.write(HEAD + event(10 + starts, starts))

    async with followed(answer, external=True) as seen:
        await seen.until(lambda: seen.numbers() == [1])
        seen.streams.stop("a")
        seen.streams.start("a")
        await seen.until(lambda: seen.numbers() == [1, 2])
        seen.streams.forget("a")
        seen.streams.start("a")
        await seen.until(lambda: seen.numbers() == [1, 2, 3])
        assert seen.asked_after() == ["0", "11", "0"]


@pytest.mark.parametrize(
    "refusal",
    [
        ApiNotOffered("it does not offer its API"),
        Unavailable("it has 64 connections open", code="too_many_connections"),
        RuntimeError("nobody has foreseen this"),
    ],
    ids=lambda refusal: getattr(refusal, "code", "error"),
)
async def test_an_agent_that_cannot_be_followed_now_is_followed_later(refusal: Exception) -> None:
    async with followed(breaking(event(11, 1)), external=True) as seen:
        runtime = cast(Runtime, seen.agents.running["a"].runtime)
        runtime.refusals.extend([refusal, refusal])  # the stream has not had its first step
        await seen.until(lambda: bool(seen.events))
        assert (seen.numbers(), seen.asked_after(), runtime.refusals) == ([1], ["0"], [])


async def test_an_agent_to_which_its_driver_has_no_way_is_not_followed() -> None:
    async with followed(breaking(event(11, 1))) as seen:
        cast(Runtime, seen.agents.running["a"].runtime).refusals.append(NotOffered("there is no way"))
        [task] = seen.streams._tasks.values()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([task])
        assert seen.streams._tasks == {}
        assert seen.asked_after() == []


async def test_what_was_lost_on_the_way_is_told() -> None:
    lost = b'id: 50\nevent: events-lost\ndata: {"type":"events-lost","after":11}\n\n'
    huge = event(52, 2, text="x" * 400_000)
    async with followed(breaking(event(11, 1), lost + event(51, 2), huge + event(53, 3))) as seen:
        await seen.until(lambda: len(seen.events) == 5)
        assert seen.numbers() == [1, "events-lost", 2, "events-lost", 3]


async def test_it_ends_with_its_runtime() -> None:
    async with followed(breaking(event(11, 1), event(12, 2))) as seen:
        await seen.until(lambda: bool(seen.events))
        del seen.agents.running["a"]
        [task] = seen.streams._tasks.values()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([task])
        assert seen.streams._tasks == {}
        assert seen.numbers() == [1]


async def test_an_agent_speaks_for_itself_only() -> None:
    forged = [
        event(11, 1, workspace="b", at=1),
        event(12, 2, type="workspace-changed", change="deleted"),
        event(13, 3, type="work-changed", status="resulted"),
        event(14, 4, user=None),
        b"id: 15\ndata: nonsense\n\n",
        event(16, 6),
    ]
    async with followed(breaking(b"".join(forged))) as seen:
        await seen.until(lambda: len(seen.events) == 2)
        assert [(name, event.facts["number"]) for name, event in seen.events] == [("a", 1), ("a", 6)]
        assert "workspace" not in seen.events[0][1].facts


def test_a_burst_is_free_and_a_flood_is_slowed_down() -> None:
    clock = ManualClock()
    allowance = Allowance(clock)
    burst = int(BURST_BYTES / LEAST_COST)
    assert [allowance.spend(1) for _ in range(burst)] == [0.0] * burst
    assert allowance.spend(1) == LEAST_COST / BYTES_PER_SECOND
    waited = allowance.spend(int(BYTES_PER_SECOND))
    assert 1.0 < waited < 1.1
    clock.advance(waited + 1)
    assert allowance.spend(1) == 0.0
    clock.advance(10_000)
    assert sum(allowance.spend(1) > 0 for _ in range(burst + 1)) == 1


async def test_what_is_no_event_counts_too() -> None:
    comments = b":\n" * 500_000
    published, allowance = asyncio.Event(), Allowance(ManualClock())
    async with agents({"a": breaking(comments + event(11, 1))}) as found:
        stream = _Stream("a", 0, lambda *_: published.set(), allowance)
        reading = asyncio.create_task(stream.read(AgentApi(found.fleet, AgentConnections())))
        async with asyncio.timeout(PATIENCE):
            await published.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert allowance.spend(int(BURST_BYTES)) >= len(comments) / BYTES_PER_SECOND


async def test_a_flood_fills_no_more_than_the_ring() -> None:
    ring: EventRing[str] = EventRing(ManualClock())
    for number in range(20_000):
        ring.append("turn-started", "a", {"number": number, "text": "x" * 1000})
    assert sum(len(one.body) for one in ring._events.values()) <= 4 << 20
