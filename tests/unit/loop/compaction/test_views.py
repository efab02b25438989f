"""What the model sees behind a compaction is the same bytes whether it stayed in memory or is read back from disk,
whatever was said and done before and behind it."""

from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_common.protocol import ForkRequest
from agent_runtime.context import View
from agent_runtime.errors import Conflict, ModelError, NotFound
from agent_runtime.loop import Turn, TurnLimits
from tests.unit.loop.compaction.long_conversations import (
    Breaks,
    Calls,
    Hasty,
    Play,
    Says,
    Stage,
    SummaryKind,
    Talker,
    paired,
    prose,
)
from tests.unit.loop.people import decide
from tests.unit.loop.support import PATIENCE, World

SIZES = st.sampled_from([0, 3, 60, 400, 1500, 4000])
TOOLS = st.lists(st.tuples(st.sampled_from(["read", "read", "fail", "nudge", "deploy"]), SIZES), min_size=1, max_size=3)
PLAYS = st.one_of(
    st.builds(Calls, TOOLS.map(tuple), st.sampled_from(["", "let me see"])),
    st.builds(Calls, TOOLS.map(tuple), st.sampled_from(["", "let me see"])),
    st.builds(Breaks, st.sampled_from(["transient", "overflow", "for good"]), st.sampled_from([0, 20])),
    st.builds(Says, SIZES),
)


@dataclass(frozen=True)
class Send:
    words: int
    plan: tuple[Play, ...] = ()
    agent: str = "default"
    approve: bool = True


@dataclass(frozen=True)
class Do:
    what: Literal["compact", "rewind", "unrewind", "fork", "restart", "wait", "report"]
    at: int = 0


SENDS = st.builds(
    Send, SIZES, st.lists(PLAYS, max_size=6).map(tuple), st.sampled_from(["default", "default", "other"]), st.booleans()
)
DOINGS = st.builds(
    Do, st.sampled_from(["compact", "rewind", "unrewind", "fork", "restart", "wait", "report"]), st.integers(0, 9)
)
STORIES = st.lists(st.one_of(SENDS, SENDS, SENDS, DOINGS), min_size=2, max_size=14)
KINDS = st.sampled_from(
    [("good",), ("good",), ("good", "empty"), ("good", "transient"), ("good", "broken"), ("long", "good", "good")]
)
LIMITS = TurnLimits(steps=10, seconds=60, retries=3)


@dataclass
class Teller:
    """Plays a story, and looks after every step of it."""

    folder: Path
    model: Talker
    stage: Stage = field(init=False)
    world: World = field(init=False)
    session: str = "long"
    before: dict[str, dict[str, list[bytes]]] = field(default_factory=dict[str, dict[str, list[bytes]]])
    """By session: what was to be seen before each message was sent."""
    taken_back: list[list[bytes]] = field(default_factory=list[list[bytes]])
    """What was to be seen before each rewind that can be taken back."""

    faults: list[AssertionError] = field(default_factory=list[AssertionError])

    def __post_init__(self) -> None:
        self.stage = Stage(self.model)
        self.model.look = self._look
        self._asked = 0
        self._clock: Any = None

    async def tell(self, story: Sequence[Send | Do]) -> None:
        rest = deque(story)
        while rest:
            self.world = self.stage.open(self.folder, limits=LIMITS, clock=self._clock)
            self._clock = self.world.clock
            async with self.world:
                while rest:
                    one = rest.popleft()
                    if isinstance(one, Send):
                        await self._send(one)
                    elif one.what == "restart":
                        break
                    else:
                        await self._do(one)
                    await self._check()
        async with self.stage.open(self.folder, limits=LIMITS, clock=self._clock) as self.world:
            await self._carried()

    # -- what happens

    async def _send(self, send: Send) -> None:
        self.model.plan.clear()
        self.model.plan.extend(send.plan)
        self._asked = 0
        seen = await self._seen()
        turn = await self.world.send(prose(send.words) or "hm", session=self.session, agent=send.agent)
        self.session = self.stage.session = turn.session.id
        self.before.setdefault(self.session, {})[turn.message_id] = seen
        self.taken_back.clear()
        while await self._waits(turn):
            for asked in list(turn.human_wait.requests.values()):
                await decide(self.world, turn, asked.call_id, "once" if send.approve else "reject")
        async with asyncio.timeout(PATIENCE):  # one that was to steer may have come too late and have its own turn
            while (left := self.world.admission.queues.head_turn(turn.session)) is not None:
                if self.world.admission.queues.active_turn(turn.session) is None:
                    break
                if await self._waits(left):
                    for name in list(left.human_wait.requests):
                        await decide(self.world, left, name, "reject")

    async def _waits(self, turn: Turn) -> bool:
        async with asyncio.timeout(PATIENCE):
            await turn.paused_or_ended.wait()
        if turn.state != "waiting":
            await self.world.ended(turn)
        return turn.state == "waiting"

    async def _do(self, do: Do) -> None:
        sessions = self.world.sessions()
        try:
            match do.what:
                case "wait":
                    self._clock.advance(5)
                case "compact":
                    await sessions.compact("operator", self.session)
                    self.taken_back.clear()
                case "rewind":
                    await self._rewind(do.at)
                case "unrewind":
                    await sessions.unrewind("operator", self.session)
                    if self.taken_back:
                        assert await self._seen() == self.taken_back.pop()
                case "fork":
                    await self._fork()
                case "report":
                    await self._report()
                case "restart":
                    raise AssertionError
        except (Conflict, ModelError, NotFound):
            pass  # nothing was said yet, or nothing came of it

    async def _rewind(self, at: int) -> None:
        known = self.before.get(self.session, {})
        if not known:
            return
        message_id = list(known)[at % len(known)]
        self.taken_back.append(await self._seen())
        await self.world.sessions().rewind("operator", self.session, message_id)
        assert await self._seen() == known[message_id], "a rewind shows what was seen before that message"
        for later in list(known)[at % len(known) :]:
            del known[later]

    async def _fork(self) -> None:
        seen = await self._seen()
        child = await self.world.sessions().fork("operator", self.session, ForkRequest())
        self.session = self.stage.session = child.id
        self.taken_back.clear()
        assert await self._seen() == seen, "a fork shows what its parent shows"

    async def _report(self) -> None:
        found = await self.world.conversations.get("operator", self.session)
        if found is not None and found.stored:
            await self.stage.report(found)
            self.taken_back.clear()
            assert b"[report]" in (await self._seen())[-1]

    # -- what must hold

    async def _seen(self) -> list[bytes]:
        found = await self.world.conversations.get("operator", self.session)
        return list((await self.stage.on_disk(found)).messages)[1:] if found is not None and found.stored else []

    async def _check(self) -> None:
        for fault in self.faults:
            raise fault
        found = await self.world.conversations.get("operator", self.session)
        if found is None or not found.stored:
            return
        disk = await self.stage.on_disk(found)
        paired(disk.messages)
        if found.view is not None:
            same(found.view, disk)

    async def _look(self, sent: list[bytes]) -> None:
        """A request in the middle of a turn. What is wrong there would only fail the turn."""
        try:
            await self._examine(sent)
        except AssertionError as fault:
            self.faults.append(fault)

    async def _examine(self, sent: list[bytes]) -> None:
        """All but the call itself is on disk by then."""
        paired(sent)
        self._asked += 1
        found = await self.world.conversations.get("operator", self.session)
        running = self.world.admission.queues.head_turn(found) if found is not None else None
        broke = self._asked > 1 and isinstance(self._last, Breaks)
        self._last = self.model.plan[0] if self.model.plan else Says(5)
        if running is None or found is None or self._asked == 1 or broke:
            return
        disk = await self.stage.on_disk(found)
        assert sent[1:] == list(disk.messages)[1:]

    async def _carried(self) -> None:
        """An export that is read in elsewhere shows the same."""
        found = await self.world.conversations.get("operator", self.session)
        if found is None:
            return
        seen = await self._seen()
        with await self.world.sessions().export("operator", self.session, whole=False) as file:
            exported = io.BytesIO(file.read())
        elsewhere = Stage(self.model)
        async with elsewhere.open(self.folder / "elsewhere") as world:
            await world.sessions().import_session("operator", exported, keep_permissions=False)
            assert list((await elsewhere.on_disk(found)).messages)[1:] == seen


def same(memory: View, disk: View) -> None:
    assert list(memory.messages)[1:] == list(disk.messages)[1:]
    assert memory.cut_points == disk.cut_points
    assert memory.spoken_to == disk.spoken_to
    assert set(memory.shortened) == set(disk.shortened)
    assert memory.size - len(memory.messages[0]) == disk.size - len(disk.messages[0])


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=Hasty) as runner:
        runner.run(coroutine)


READS = (Calls((("read", 1500),)),) * 5
SPLIT = Send(3, READS)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(STORIES, KINDS)
@example([SPLIT, Do("restart"), Send(3), Do("compact"), Send(60), Do("rewind"), Do("unrewind"), Send(3)], ("good",))
@example([Send(3, (Calls((("read", 4000),) * 3),)), Send(60, agent="other"), Do("fork"), SPLIT], ("good",))
@example([Send(400), Send(400), Send(400, (Breaks("overflow", 20),)), Do("restart"), Send(400)], ("good",))
def test_the_view_in_memory_is_that_on_disk(story: Sequence[Send | Do], summaries: Sequence[SummaryKind]) -> None:
    with TemporaryDirectory() as path:
        run(Teller(Path(path), Talker(summaries=summaries)).tell(story))
