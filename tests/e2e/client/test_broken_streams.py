"""A stream that breaks anywhere gives the same events and the same message as one that does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Literal

import pytest

from agent_client import (
    Agent,
    ChatEvent,
    ConnectionFailed,
    Finished,
    Mesh,
    Reply,
    Started,
    TextDelta,
    TextReplaced,
    ToolCall,
    ToolResult,
)
from agent_testing import Call, FakeBridge, Hang, Say, ScriptedProvider, Trip
from tests.integration.host.live import OPERATOR

from ..conftest import Start
from ..live import TOKEN, Runtime, fresh
from .conftest import World, bridge_to, through_bridge

WORDS = tuple(f"w{number:03} " for number in range(500))
ANSWER = "".join(WORDS)


def at_chunk(number: int) -> Trip:
    """A break between two chunks."""
    return Trip("rst", mark=b'data: {"type":"text-delta","id":"text-1","delta":' + json.dumps(WORDS[number]).encode())


def inside_chunk(number: int) -> Trip:
    return Trip("rst", mark=WORDS[number].encode())


async def read(turn: AsyncIterator[ChatEvent]) -> tuple[list[ChatEvent], Reply]:
    events = [event async for event in turn]
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Started) for event in events) == 1
    return events, events[-1].reply


def text_of(events: list[ChatEvent]) -> str:
    assert not any(isinstance(event, TextReplaced) for event in events)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def cut_at_every_chunk(
    kind: Literal["chat", "task"], agent: Agent, through: Agent, bridge: FakeBridge, provider: ScriptedProvider
) -> None:
    """Read the 500 chunks of one turn over connections that each break at the next of them, and every tenth also inside
    it. The turn runs until the last chunk was read, so all connections but the last are to a running turn."""
    provider.script.replace([Hang(after=500, reply=Say(pieces=WORDS))])
    trips = [trip(number) for number in range(500) for trip in (at_chunk, inside_chunk)[: 1 + (number % 10 == 0)]]
    task = await agent.submit("count") if kind == "task" else None
    bridge.trip_each("to_guest", trips)
    events: list[ChatEvent] = []
    async with through.task(task.id).events() if task else through.chat("count", session=fresh("s")) as turn:
        async for event in turn:
            events.append(event)
            if isinstance(event, TextDelta) and event.text == WORDS[-1]:
                provider.release()
    kinds = [event.type for event in events if not isinstance(event, TextDelta)]
    assert kinds == ["started", "step-started", "step-finished", "finished"]
    assert [event.text for event in events if isinstance(event, TextDelta)] == list(WORDS)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reply.text, finished.reply.finish_reason) == (ANSWER, "stop")
    assert bridge.counts.breaks == len(trips) == 550
    assert len(provider.completions) == 1
    if task is not None:
        assert await task.result() == {"text": ANSWER}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chat", "task"])
async def test_a_stream_that_breaks_at_every_chunk_gives_the_same_message(
    agent: Runtime, client: Agent, bridge: FakeBridge, through: Agent, kind: Literal["chat", "task"]
) -> None:
    assert isinstance(agent.provider, ScriptedProvider)
    await cut_at_every_chunk(kind, client, through, bridge, agent.provider)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chat", "task"])
async def test_a_stream_through_the_host_that_breaks_at_every_chunk_gives_the_same_message(
    world: World, kind: Literal["chat", "task"]
) -> None:
    async with (
        bridge_to(world.host) as bridge,
        Mesh(world.host.url, OPERATOR) as mesh,
        Mesh(bridge.url.replace("tcp", "http"), OPERATOR) as through,
    ):
        await cut_at_every_chunk(kind, mesh.agent("ada"), through.agent("ada"), bridge, world.provider)


@pytest.mark.parametrize(
    "trip",
    [
        Trip("rst", after=0),
        Trip("fin", after=0),
        Trip("rst", after=20),
        Trip("fin", mark=b"\r\n\r\n"),
        Trip("rst", mark=b'data: {"type":"start"'),
        Trip("fin", mark=b'data: {"type":"finish"'),
        Trip("rst", mark=b"data: [DONE]"),
        Trip("fin", mark=b"[DONE]"),
        Trip("rst", mark=b"0\r\n\r\n"),
    ],
    ids=repr,
)
async def test_a_stream_that_breaks_at_its_beginning_or_end_gives_the_same_message(
    agent: Runtime, bridge: FakeBridge, through: Agent, trip: Trip
) -> None:
    """After the end the stream is made from the record, in which a text is one chunk."""
    agent.provider.script.replace(
        [Call("todo", {"todos": []}, text="First this.", id="call_a"), Say("And that.", reasoning="Is that all?")]
    )
    bridge.trip("to_guest", trip)
    events, reply = await read(through.chat("work", session=fresh("s")))
    assert text_of(events) == "First this.Is that all?And that."
    assert reply.text == "And that."
    assert [event.id for event in events if isinstance(event, ToolCall | ToolResult)] == ["call_a", "call_a"]
    assert [event.id for event in reply.tool_results] == ["call_a"]
    assert reply.usage.total > 0
    assert (await bridge.until(lambda counts: counts.open == 0 or counts.breaks == 1)).breaks == 1
    assert len(agent.provider.completions) == 2  # the message was taken once


@pytest.mark.parametrize("next_turn", [False, True], ids=["nothing runs", "the next turn runs"])
async def test_a_watched_turn_that_ends_while_the_connection_is_broken_is_read_to_its_end(
    agent: Runtime, client: Agent, bridge: FakeBridge, through: Agent, next_turn: bool
) -> None:
    session, own_id = fresh("s"), fresh("m")
    agent.provider.script.replace([Hang(after=100, reply=Say(pieces=WORDS)), Hang(after=1, reply=Say("other words"))])
    await client.send("count", session=session, id=own_id)
    events: list[ChatEvent] = []
    async with through.watch(session) as turn:
        async for event in turn:
            events.append(event)
            if isinstance(event, TextDelta) and event.text == WORDS[99]:
                bridge.cut()
                if next_turn:
                    await client.send("and again", session=session)
                agent.provider.release()
                await client.chat("count", session=session, id=own_id).reply()
    assert text_of(events) == ANSWER
    assert sum(isinstance(event, Started) for event in events) == 1
    assert isinstance(events[-1], Finished)
    assert (events[-1].reply.message_id, events[-1].reply.text) == (own_id, ANSWER)
    if next_turn:
        await client.abort(session)


async def test_a_connection_that_carries_no_byte_any_more_is_replaced(agent: Runtime, bridge: FakeBridge) -> None:
    agent.provider.script.replace([Hang(after=250, reply=Say(pieces=WORDS))])
    async with through_bridge(bridge, silence=1.0) as client, client.chat("count", session=fresh("s")) as turn:
        events: list[ChatEvent] = []
        async for event in turn:
            events.append(event)
            if isinstance(event, TextDelta) and event.text == WORDS[100]:
                bridge.stall("both", bridge.links[-1])
            if isinstance(event, TextDelta) and event.text == WORDS[249]:
                agent.provider.release()
    assert text_of(events) == ANSWER
    assert bridge.counts.accepted >= 2


@pytest.mark.slow
async def test_a_task_goes_on_over_the_death_of_its_server(start: Start) -> None:
    """What the model call said that the death interrupted is not part of the answer, and the caller is told."""
    runtime = start()
    runtime.provider.script.replace(
        [
            Call("todo", {"todos": []}, text="First this.", id="call_a"),
            Hang(after=1, reply=Say("I mean to")),
            Say("Done."),
        ]
    )
    async with bridge_to(runtime) as bridge, through_bridge(bridge) as client:
        task = await client.submit("work")
        events: list[ChatEvent] = []
        async with task.events() as turn:
            async for event in turn:
                events.append(event)
                if isinstance(event, TextDelta) and event.part == 1 and runtime.process.returncode is None:
                    runtime.process.kill9()
                    runtime.start()
                    bridge.target = runtime.url.replace("http", "tcp")
        assert await task.result() == {"text": "Done."}
    assert isinstance(events[-1], Finished)
    assert events[-1].reply.text == "Done."
    assert sum(isinstance(event, ToolCall) for event in events) == 1
    assert sum(isinstance(event, ToolResult) for event in events) == 1


@pytest.mark.slow
async def test_a_chat_that_the_death_of_its_server_cut_off_says_so(start: Start) -> None:
    runtime = start()
    runtime.provider.script.replace([Hang(after=10, reply=Say(pieces=WORDS))])
    async with bridge_to(runtime) as bridge, through_bridge(bridge) as client:
        shown: dict[int, str] = {}
        async with client.chat("count", session="s") as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    shown[event.part] = shown.get(event.part, "") + event.text
                    if event.text == WORDS[9]:
                        runtime.process.kill9()
                        runtime.start()
                        bridge.target = runtime.url.replace("http", "tcp")
                elif isinstance(event, TextReplaced):
                    shown[event.part] = event.text
                elif isinstance(event, Finished):
                    assert event.reply.error_code == "interrupted"
                    assert event.reply.text == "".join(shown.values())
        assert ANSWER.startswith(shown.get(0, ""))


@pytest.mark.slow
async def test_a_server_that_is_away_for_good_is_given_up(agent: Runtime, bridge: FakeBridge) -> None:
    bridge.refuse()
    async with through_bridge(bridge) as client:
        with pytest.raises(ConnectionFailed, match="/chat/stream"):
            await client.ask("hello")
    async with Agent(agent.url, TOKEN) as client:
        assert (await client.ask("echo hello")).text
