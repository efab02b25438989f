"""Random lives of the scheduler: one turn at a time per session, slots kept, first come first served, nothing lost."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import Busy
from agent_runtime.loop import MIGRATIONS, Admission, EventBus, Turn
from agent_runtime.loop.core.turn_state import TurnOutcome
from agent_runtime.store import Database
from agent_testing import ManualClock
from tests.unit.loop.support import PATIENCE, conversation, new_turn

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.sampled_from("abc")),
        st.tuples(st.just("refuse"), st.sampled_from("abc")),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("stop"), st.integers(0, 9)),
        st.tuples(st.just("rest"), st.just(0)),
    ),
    max_size=25,
)
SLOTS, QUEUE = 2, 3
PRINCIPALS = {"a": "alice", "b": "alice", "c": "bob"}


class Refused(Exception):
    """The disk said no."""


class Life:
    """An admission whose turns end when they are told to, and which keeps watch over its own promises."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.admission = Admission(database, EventBus(ManualClock()), slots=SLOTS, queue_limit=QUEUE)
        self.admission.start(self.run, self.cancel)
        self.conversations = {name: conversation(name, principal=PRINCIPALS[name]) for name in PRINCIPALS}
        self.numbers = itertools.count()
        self.running: dict[Turn, asyncio.Future[str]] = {}
        self.admitted: list[Turn] = []
        self.started: dict[str, list[Turn]] = defaultdict(list)
        self.cancelled: list[Turn] = []

    async def run(self, turn: Turn, _: object) -> None:
        session = turn.session.id
        assert turn.admission.done
        assert all(other.session.id != session for other in self.running)
        self.started[session].append(turn)
        told = self.running[turn] = asyncio.get_running_loop().create_future()
        assert len(self.running) <= SLOTS
        turn.interruptible = True
        try:
            end = "cancelled" if turn.end.stop_reason else await told
        except asyncio.CancelledError:
            end = "cancelled"
        del self.running[turn]
        failed = TurnOutcome("failed", "error")
        turn.end.outcome = (
            failed if end == "failed" else TurnOutcome("cancelled" if end == "cancelled" else "complete", "stop")
        )

    async def cancel(self, turn: Turn, _: object) -> None:
        await asyncio.sleep(0)
        self.cancelled.append(turn)

    async def admit(self, session: str, *, refuse: bool) -> None:
        turn = new_turn(session=self.conversations[session], message_id=f"m{next(self.numbers)}", state="queued")

        def unit(_: object) -> None:
            if refuse:
                raise Refused

        resting = self.admission.queues.paused  # what rests waits for a message, and does not count
        waiting = [queued for queued in self.admission.queues.turns("queued") if queued.session.id not in resting]
        own = sum(queued.session.principal == turn.session.principal for queued in waiting)
        try:
            await self.admission.admit(turn, lambda _: unit)
        except Busy:
            assert own >= QUEUE or len(waiting) + own >= 2 * QUEUE
            return
        except Refused:
            assert refuse
            return
        assert own <= QUEUE
        self.admitted.append(turn)

    def end(self, number: int, how: str) -> None:
        running = list(self.running.values())
        if number < len(running) and not running[number].done():
            running[number].set_result(how)

    async def stop(self, number: int) -> None:
        if number < len(self.admitted):
            await self.admission.stop(self.admitted[number])
            assert self.admitted[number].ended.is_set()

    async def act(self, what: str, value: object) -> asyncio.Task[None] | None:
        match what:
            case "admit" | "refuse":
                return asyncio.create_task(self.admit(str(value), refuse=what == "refuse"))
            case "stop":
                return asyncio.create_task(self.stop(int(str(value))))
            case "rest":
                await self.database.write(lambda _: None)
            case _:
                self.end(int(str(value)), "failed" if what == "fail" else "complete")
        await asyncio.sleep(0)
        return None

    async def finish(self, doing: list[asyncio.Task[None]]) -> None:
        """Lets everything end; what rests after a failure, and would wait for the next message, is stopped."""
        while self.running or not all(task.done() for task in doing):
            for number in range(SLOTS):
                self.end(number, "complete")
            await self.database.write(lambda _: None)
        for session in self.conversations.values():
            while (turn := self.admission.queues.head_turn(session)) is not None:
                await self.admission.stop(turn)

    def check(self) -> None:
        for session, started in self.started.items():
            admitted = [turn for turn in self.admitted if turn.session.id == session]
            assert started == [turn for turn in admitted if turn not in self.cancelled]
        ran = [turn for started in self.started.values() for turn in started]
        assert len(ran) + len(self.cancelled) == len(self.admitted)
        assert all(turn.ended.is_set() for turn in self.admitted)
        assert self.admission.slots.free == SLOTS
        assert not self.admission.queues.all()
        assert self.admission.queues.next_startable(self.admission.slots) is None
        assert not self.admission.queues.paused
        assert all(session.use_count == 0 for session in self.conversations.values())


@given(ACTIONS)
def test_nothing_is_lost(actions: list[tuple[str, object]]) -> None:
    async def live(path: str) -> None:
        database = Database(Path(path) / "a.db", MIGRATIONS)
        database.open()
        life = Life(database)
        begun = [await life.act(*action) for action in actions]
        doing = [task for task in begun if task is not None]
        async with asyncio.timeout(PATIENCE):
            await life.finish(doing)
        for task in doing:
            task.result()
        life.check()
        database.close()

    with TemporaryDirectory() as path:
        asyncio.run(live(path))
