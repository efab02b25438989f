"""Live turns: any number of readers at any pace, and a sign of life in a long silence."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from agent_common.protocol import chunks as c
from agent_common.protocol.chunks import DONE
from agent_runtime.loop import TurnStream
from agent_runtime.loop.core import turn_stream
from tests.unit.loop.support import PATIENCE, until


async def read(live: TurnStream) -> bytes:
    return b"".join([events async for events in live.follow()])


async def test_early_late_and_slow_readers_see_the_same() -> None:
    live = TurnStream()
    early = [asyncio.create_task(read(live)) for _ in range(3)]
    slow = live.follow()
    live.publish(c.Start(messageId="m"))
    head = await anext(slow)
    await asyncio.sleep(0)
    for number in range(50):
        live.publish(c.TextDelta(id="t", delta=str(number)))
        if number % 10 == 0:
            await asyncio.sleep(0)
    live.close()
    live.close()
    async with asyncio.timeout(PATIENCE):
        whole = await read(live)
        assert [await one for one in early] == [whole] * 3
        assert head + b"".join([events async for events in slow]) == whole
    assert whole.endswith(DONE)
    assert whole.count(DONE) == 1
    assert whole.count(b"text-delta") == 50


def long_stream() -> TurnStream:
    live = TurnStream()
    live.publish(c.TextDelta(id="long", delta="x" * turn_stream.JOIN_FROM))
    return live


def test_deltas_of_a_long_stream_that_nobody_has_read_are_joined() -> None:
    """An event is never longer than 4 KiB, and a stream of single characters is about as large as its text."""
    live = long_stream()
    texts = ['"', "\\", "\n", "\u00e9", "\U0001f600", "}", 'elta":"', '"}\n\n'] * 2_000
    for text in texts:
        live.publish(c.TextDelta(id='elta":"', delta=text))
    live.publish(c.TextDelta(id="other", delta="x"))
    live.publish(c.ReasoningDelta(id="other", delta="y"))
    live.publish(c.ToolInputDelta(toolCallId="t", inputTextDelta="{"))
    live.publish(c.ToolInputDelta(toolCallId="t", inputTextDelta="}"))
    events = [json.loads(event.removeprefix(b"data: ")) for event in live._log]
    assert "".join(one["delta"] for one in events if one.get("id") == 'elta":"') == "".join(texts)
    assert [one.get("delta", one.get("inputTextDelta")) for one in events[-3:]] == ["x", "y", "{}"]
    assert max(map(len, live._log[1:])) <= turn_stream.JOINED_BYTES
    assert live.size == sum(len(event) + turn_stream.EVENT_BYTES for event in live._log)
    assert len(events) < 30


def test_what_a_person_knows_is_not_joined() -> None:
    live = long_stream()
    live.publish(c.TextDelta(id="t", delta="a"))
    live.set_resume_position()
    live.publish(c.TextDelta(id="t", delta="b"))
    assert len(live._log) == 3


async def test_what_a_reader_has_is_not_joined() -> None:
    live = long_stream()
    reader = live.follow()
    await anext(reader)
    for letter in "ab":
        live.publish(c.TextDelta(id="t", delta=letter))
        assert letter.encode() in await anext(reader)
    live.publish(c.TextDelta(id="t", delta="c"))
    live.publish(c.TextDelta(id="t", delta="d"))
    assert b'"cd"' in await anext(reader)
    assert len(live._log) == 4


async def test_a_reader_who_leaves_disturbs_nobody() -> None:
    live = TurnStream()
    leaving, staying = asyncio.create_task(read(live)), asyncio.create_task(read(live))
    await until(lambda: len(live._waiters) == 2)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    live.publish(c.StartStep())
    live.close()
    assert b"start-step" in await staying


async def test_a_long_silence_is_filled() -> None:
    live = TurnStream()
    loop = asyncio.get_running_loop()
    follower = live.follow()
    waiting = asyncio.ensure_future(anext(follower))
    await until(lambda: len(live._waiters) == 1)
    turn_stream._resolve(live._waiters[0], False)  # what the alarm does when it rings
    assert await waiting == turn_stream.HEARTBEAT
    assert turn_stream.HEARTBEAT_SECONDS <= 15
    live.publish(c.StartStep())
    assert b"start-step" in await anext(follower)
    live.close()
    assert await anext(follower) == DONE
    with pytest.raises(StopAsyncIteration):
        await anext(follower)
    assert loop.is_running()
