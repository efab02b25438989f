"""Readers of a live turn: whoever comes, goes, dawdles or comes again ends up with the same message."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import chunks as c
from agent_common.protocol.chunks import DONE
from agent_runtime.loop import TurnStream
from agent_runtime.loop.core import turn_stream
from tests.unit.loop.people import ASK, Frontend, Hands, answer, heard, shown, stored, waits
from tests.unit.loop.support import PATIENCE, FakeModel, World, call, say, until

ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("attach"), st.integers(0, 1)),
        st.tuples(st.sampled_from(["take", "take", "leave"]), st.integers(0, 9)),
        st.tuples(st.just("pause"), st.just(0)),
    ),
    max_size=40,
)
ENDING = (c.FinishStep(), c.Finish(finishReason="tool-calls"))
GOODBYE = b"".join(chunk.to_sse() for chunk in ENDING) + DONE


class Reader:
    """Takes a piece when told to."""

    def __init__(self, live: TurnStream, *, waits: bool) -> None:
        self.waits, self.read, self.whole = waits, b"", False
        self.pieces = live.follow(through_waits=waits)
        self.taking: asyncio.Task[bytes] | None = None

    async def take(self) -> None:
        """One piece, or the end; leaves it to later when there is none yet."""
        self.taking = self.taking or asyncio.create_task(_next(self.pieces))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if self.taking.done():
            piece = self.taking.result()
            self.taking, self.whole, self.read = None, not piece, self.read + piece

    async def leave(self) -> None:
        if self.taking is not None:
            self.taking.cancel()
            await asyncio.wait([self.taking])
        with contextlib.suppress(RuntimeError):
            if isinstance(self.pieces, AsyncGenerator):
                await self.pieces.aclose()


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces, b"")


class Scene:
    """One live turn and its audience."""

    def __init__(self, size: int) -> None:
        self.live, self.size, self.number = TurnStream(), size, 0
        self.readers: list[Reader] = []

    def publish(self, count: int) -> None:
        self.live.resume()
        for _ in range(count):
            self.live.publish(c.TextDelta(id="t", delta=f"{self.number}:" + "x" * self.size))
            self.number += 1

    async def act(self, what: str, value: int) -> None:
        if what == "publish":
            self.publish(value)
        elif what == "attach":
            self.readers.append(Reader(self.live, waits=bool(value)))
        elif what == "pause":
            self.live.pause(ENDING)
        elif self.readers and what == "take":
            await self.readers[value % len(self.readers)].take()
        elif self.readers:
            await self.readers.pop(value % len(self.readers)).leave()


@given(ACTS, st.integers(1, 40_000))
def test_every_reader_gets_every_chunk_once_at_any_pace(acts: list[tuple[str, int]], size: int) -> None:
    async def run() -> None:
        scene = Scene(size)
        for act in acts:
            await scene.act(*act)
        scene.live.resume()
        scene.live.close()
        whole = await heard_of(scene.live)
        assert whole.count(DONE) == 1
        assert all(whole.count(b'"%d:' % at) == 1 for at in range(scene.number))
        for reader in scene.readers:
            while not reader.whole:
                await reader.take()
            if reader.read != whole:
                assert not reader.waits
                assert reader.read.endswith(GOODBYE)
                assert whole.startswith(reader.read.removesuffix(GOODBYE))

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


async def heard_of(live: TurnStream) -> bytes:
    return b"".join([piece async for piece in live.follow()])


async def test_pieces_are_bounded() -> None:
    live = TurnStream()
    for _ in range(5000):
        live.publish(c.TextDelta(id="t", delta="x" * 100))
    live.publish(c.TextDelta(id="t", delta="y" * 3 * turn_stream.PIECE_BYTES))
    live.close()
    sizes = [len(piece) async for piece in live.follow()]
    assert sum(size > turn_stream.PIECE_BYTES for size in sizes) == 1, "only an event that is larger by itself"


async def test_a_long_wait_costs_no_memory() -> None:
    """A turn may wait for a person for days, its readers with it; each heartbeat must leave nothing behind."""
    live = TurnStream()
    follower = live.follow()
    for _ in range(100):
        waiting = asyncio.ensure_future(anext(follower))
        await until(lambda: any(not waiter.done() for waiter in live._waiters))
        turn_stream._resolve(live._waiters[-1], False)  # what the alarm does when it rings
        assert await waiting == turn_stream.HEARTBEAT
    for _ in range(100):
        leaving = asyncio.ensure_future(anext(live.follow()))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
    assert len(live._waiters) <= 1


@given(st.lists(st.integers(0, 12), max_size=10), st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_a_reader_may_come_again_as_often_as_he_likes(comings: list[int], rounds: list[int]) -> None:
    """A real turn with tools and a wait: what was read last, from its first chunk, is what is on disk."""

    async def run(path: str) -> None:
        plays = [
            call(*((f"c{n}{i}", "echo", f'{{"n": {n}{i}}}') for i in range(count)), text="w " * n)
            for n, count in enumerate(rounds, 1)
        ]
        model = FakeModel([*plays, call(("q", "question", ASK)), say("the ", "end")])
        async with World(Path(path), model, catalog=Hands().catalog("echo")) as it:
            turn = await it.send("go")
            for pieces in comings:
                reader = Reader(turn.stream, waits=True)
                for _ in range(pieces):
                    await reader.take()
                await reader.leave()
            staying, ending = asyncio.create_task(heard(turn)), asyncio.create_task(heard(turn, through_waits=False))
            await waits(turn)
            before = Frontend().read(await ending)
            assert before.ends[0]["finishReason"] == "tool-calls"
            await answer(it, turn, "q", "blue")
            await it.ended(turn)
            final = shown((await stored(it, turn)).parts)
            assert Frontend().read(await staying).shown() == final
            assert Frontend().read(await heard(turn)).shown() == final
            assert final[: len(before.parts) - 1] == before.shown()[:-1]

    with TemporaryDirectory() as path:
        asyncio.run(asyncio.wait_for(run(path), PATIENCE))
