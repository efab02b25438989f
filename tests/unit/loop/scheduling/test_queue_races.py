"""Everything that can happen to a queue, in any order: what was accepted ends exactly once, first come first served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_runtime.errors import AgentRuntimeError, Busy, Conflict, ModelError
from agent_runtime.loop import CompletedTurn, SessionService, Turn
from agent_runtime.ports import Completion, ModelEvent, ModelRequest, TextPiece
from tests.unit.loop.people import assert_fit_for_a_provider
from tests.unit.loop.support import PATIENCE, FakeModel, World, incoming, until

T = TypeVar("T")
SLOTS, QUEUE = 2, 5
NAMES = st.sampled_from("abc")
PICKS = st.integers(0, 30)
STATES = {"idle", "busy", "retrying", "waiting_on_approval", "waiting_on_user_input", "error"}


class Gates(FakeModel):
    """A model that answers each message when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, asyncio.Future[bool]] = {}
        self.started: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        said = json.loads(list(request.messages)[-1])
        assert said["role"] == "user"
        assert_fit_for_a_provider(list(request.messages))
        name = re.findall(r"<\w+>", said["content"])[-1]
        self.started.append(name)
        self.open[name] = asyncio.get_running_loop().create_future()
        try:
            good = await self.open[name]
        finally:
            del self.open[name]
        if not good:
            raise ModelError("told to fail")
        yield TextPiece("ok")
        yield Completion("stop")


class Queues(RuleBasedStateMachine):
    """Callers at three sessions with two slots."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.model = Gates()
        self.world = World(Path(self.folder.name), self.model, slots=SLOTS, queue=QUEUE)
        self.sessions = SessionService(self.world.hallway, self.world.compactions)
        self.accepted: dict[str, tuple[str, Turn]] = {}
        """By name, in the order of admission: session and turn."""
        self.cancelled: set[str] = set()
        self.taken_back: set[str] = set()
        self.holds: dict[str, contextlib.ExitStack] = {}
        self.heard: list[dict[str, Any]] = []
        self.count = 0
        self.run(self._open())

    async def _open(self) -> None:
        await self.world.__aenter__()
        watching = self.world.events.watch("operator")
        await anext(watching)
        self.watching = asyncio.create_task(self._listen(watching))

    async def _listen(self, watching: AsyncIterator[bytes]) -> None:
        async for piece in watching:
            self.heard += [json.loads(line[6:]) for line in piece.decode().split("\n") if line.startswith("data: ")]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def at_rest() -> T:
            async with asyncio.timeout(PATIENCE):
                value = await coroutine
                await until(self._at_rest)
                return value

        return self.runner.run(at_rest())

    def _at_rest(self) -> bool:
        """Whatever could move has moved: who runs stands before the model."""
        turns = self.world.admission.queues.all()
        if any(gate.done() for gate in self.model.open.values()):
            return False
        inside = {turn.request.message_name for turn in turns if turn.state == "running"}
        before_the_model = {name.strip("<>") for name in self.model.open}
        return inside == before_the_model and all(
            one.admission.done and one.state in ("queued", "running") for one in turns
        )

    def _busy(self, session: str) -> Turn | None:
        known = self.world.conversations._known.get(self.world.conversations._aliases.get(("operator", session), ""))
        return self.world.admission.queues.active_turn(known) if known else None

    # -- what callers do

    @rule(session=NAMES, on_busy=st.sampled_from(["queue", "queue", "queue", "reject", "interrupt", "steer"]))
    def send(self, session: str, on_busy: Any) -> None:
        self.run(self._send(session, on_busy))

    async def _send(self, session: str, on_busy: Any) -> Turn | None:
        self.count += 1
        name = f"m{self.count}"
        busy, held = self._busy(session), session in self.holds
        runs = busy is not None and busy.state != "queued"
        try:
            turn = await self.world.chats.send(_message(session, name, on_busy=on_busy))
        except Busy:
            assert len([turn for turn in self.world.admission.queues.turns("queued") if self._wakes(turn)]) >= QUEUE
            return None
        except Conflict as error:
            if error.code == "session_busy" and on_busy == "reject" and busy is not None:
                return None
            raise
        assert on_busy != "reject" or busy is None
        assert isinstance(turn, Turn)
        assert not (held and turn.state == "running")
        self.accepted[name] = (session, turn)
        if on_busy == "interrupt" and busy is not None:
            assert busy.ended.is_set() == runs, "what only waited is kept"
        return turn

    def _wakes(self, turn: Turn) -> bool:
        return turn.session.id not in self.world.admission.queues.paused

    @rule(session=NAMES, count=st.integers(2, 4))
    def send_many(self, session: str, count: int) -> None:
        async def many() -> None:
            await asyncio.gather(*(self._send(session, "queue") for _ in range(count)))

        self.run(many())

    @rule(pick=PICKS, same=st.booleans(), times=st.integers(1, 3))
    def send_again(self, pick: int, times: int, *, same: bool) -> None:
        if (name := one_of(self.accepted, pick)) is None:
            return
        if name in self.taken_back:
            return  # its name is free again
        session, turn = self.accepted[name]
        started = list(self.model.started)
        text = f"<{name}>" if same else "something else"
        sends = [self.world.chats.send(_message(session, name, text)) for _ in range(times)]
        got = self.run(_all(sends))
        assert self.model.started == started
        for one in got:
            if not same:
                assert isinstance(one, Conflict)
                assert one.code == "message_conflict"
            elif turn.ended.is_set():
                assert isinstance(one, CompletedTurn)
                assert one.outcome["status"] == (turn.end.outcome.status if turn.end.outcome else "?")
            else:
                assert one is turn

    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        if (name := one_of(self.accepted, pick)) is None:
            return
        turn = self.accepted[name][1]
        before = turn.state
        won = self.run(self.world.admission.cancel_queued(turn))
        assert won == (before == "queued")
        self.cancelled |= {name} if won else set()

    @rule(end=PICKS, pick=PICKS, hops=st.integers(0, 6), good=st.booleans(), first=st.booleans())
    def end_one_and_cancel_another(self, end: int, pick: int, hops: int, *, good: bool, first: bool) -> None:
        """The queue moves on while somebody calls a message of it back."""
        ending, name = one_of(self.model.open, end), one_of(self.accepted, pick)
        if ending is None or name is None:
            return
        turn = self.accepted[name][1]

        async def both() -> tuple[bool, bool]:
            if first:
                self.model.open[ending].set_result(good)
                for _ in range(hops):
                    await asyncio.sleep(0)
            cancelling = asyncio.gather(*(self.world.admission.cancel_queued(turn) for _ in range(2)))
            if not first:
                for _ in range(hops):
                    await asyncio.sleep(0)
                if ending in self.model.open and not self.model.open[ending].done():
                    self.model.open[ending].set_result(good)
            one, two = await cancelling
            return one, two

        won = self.run(both())
        assert won != (True, True)
        self.cancelled |= {name} if any(won) else set()

    @rule(pick=PICKS, good=st.sampled_from([True, True, False]))
    def end(self, pick: int, *, good: bool) -> None:
        if (name := one_of(self.model.open, pick)) is None:
            return

        async def tell() -> None:
            self.model.open[name].set_result(good)
            await self.world.ended(self.accepted[name.strip("<>")][1])

        self.run(tell())

    @rule(session=NAMES, twice=st.booleans())
    def abort(self, session: str, *, twice: bool) -> None:
        turn = self._busy(session)
        if turn is not None:
            self.run(_all([self.world.admission.stop(turn) for _ in range(1 + twice)]))
            assert turn.ended.is_set()
            assert turn.end.outcome is not None
            assert turn.end.outcome.status == "cancelled"

    @rule(pick=PICKS)
    def rewind(self, pick: int) -> None:
        if (name := one_of(self.accepted, pick)) is None:
            return
        session, turn = self.accepted[name]
        busy, held = self._busy(session) is not None, session in self.holds
        (got,) = self.run(_all([self.sessions.rewind("operator", session, name)]))
        if busy or held:
            assert isinstance(got, Conflict)
            assert got.code == "session_busy"
        elif turn.state == "queued":
            assert isinstance(got, AgentRuntimeError), "what waits is not shown"
        elif not isinstance(got, AgentRuntimeError):
            behind = list(self.accepted)[list(self.accepted).index(name) :]
            self.taken_back.update(one for one in behind if self.accepted[one][0] == session)

    @rule(session=NAMES)
    def hold_or_let_go(self, session: str) -> None:
        async def act() -> None:
            if (held := self.holds.pop(session, None)) is not None:
                held.close()
                return
            conversation = await self.world.conversations.find_or_create("operator", session)
            with contextlib.suppress(Conflict), contextlib.ExitStack() as stack:
                stack.enter_context(self.world.admission.hold(conversation))
                self.holds[session] = stack.pop_all()

        self.run(act())

    # -- what always holds

    @invariant()
    def slots_are_kept(self) -> None:
        admission = self.world.admission
        running = [turn for turn in admission.queues.all() if turn.state == "running"]
        assert len(running) + admission.slots.free == SLOTS
        assert all(times == 1 for times in Counter(turn.session.id for turn in running).values())
        if admission.slots.free:
            heads = {turn.session.id: turn for turn in reversed(admission.queues.all())}.values()
            could = [turn for turn in heads if turn.could_start]
            idle = [turn for turn in could if turn.session.id not in admission.queues.held | admission.queues.paused]
            assert not idle, "a slot is free and somebody waits"

    @invariant()
    def each_session_says_how_it_stands(self) -> None:
        for session in {session for session, _ in self.accepted.values()}:
            detail = self.run(self.sessions.get("operator", session))
            state = detail.status.state
            assert state in STATES
            assert (state == "busy") == (self._busy(session) is not None)
            waiting = [
                name for name, (where, turn) in self.accepted.items() if (where, turn.state) == (session, "queued")
            ]
            assert [one.message_id for one in detail.queue] == waiting

    @invariant()
    def first_come_is_first_served(self) -> None:
        order: dict[str, list[str]] = defaultdict(list)
        for name in self.model.started:
            order[self.accepted[name.strip("<>")][0]].append(name.strip("<>"))
        for session, started in order.items():
            mine = [name for name, (where, _) in self.accepted.items() if where == session]
            assert started == [name for name in mine if name in started]
            assert not set(started) & self.cancelled

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.runner.run(asyncio.wait_for(self._finish(), PATIENCE))
        finally:
            self.runner.close()
            self.folder.cleanup()

    async def _finish(self) -> None:
        for held in self.holds.values():
            held.close()
        for session in {where for where, _ in self.accepted.values()}:
            while any(turn.state != "ended" for where, turn in self.accepted.values() if where == session):
                for gate in self.model.open.values():
                    if not gate.done():
                        gate.set_result(True)
                await self.world.database.write(lambda _: None)
                known = self.world.conversations._aliases.get(("operator", session), "")
                if known in self.world.admission.queues.paused:
                    with contextlib.suppress(Busy):
                        await self._send(session, "queue")
        await self._check_ledger()
        self.world.events.close()
        await self.watching
        self._check_events()
        admission = self.world.admission
        assert admission.slots.free == SLOTS
        assert not any((admission.queues.all(), admission.queues.paused, admission.queues.held))
        assert admission.queues.next_startable(admission.slots) is None
        assert all(known.use_count == 0 for known in self.world.conversations._known.values())
        await self.world.__aexit__()

    async def _check_ledger(self) -> None:
        rows = await self.world.rows("SELECT client_id, state, outcome_json FROM turns ORDER BY seq")
        assert [row["client_id"] for row in rows] == list(self.accepted)
        for row in rows:
            turn = self.accepted[row["client_id"]][1]
            assert turn.end.outcome is not None
            assert row["state"] == "ended"
            assert json.loads(row["outcome_json"]) == turn.end.outcome.json()
            cancelled = row["client_id"] in self.cancelled
            assert not cancelled or turn.end.outcome.status == "cancelled"

    def _check_events(self) -> None:
        told: dict[str, list[str]] = defaultdict(list)
        for event in self.heard:
            told[event["message_id"]].append(event["type"])
        assert all(kinds == ["turn-started", "turn-finished"] for kinds in told.values()), told
        started = {name.strip("<>") for name in self.model.started}
        assert started <= told.keys()
        assert not self.cancelled & told.keys()


def _message(session: str, name: str, text: str | None = None, **more: Any) -> Any:
    return incoming(text or f"<{name}>", session=session, message_id=name, **more)


def one_of(names: Iterable[str], pick: int) -> str | None:
    """Draws must not depend on what the threads of the database did when."""
    known = sorted(names)
    return known[pick % len(known)] if known else None


async def _all(doing: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    return await asyncio.gather(*doing, return_exceptions=True)


TestQueues = Queues.TestCase
# An example is a loop with a database and up to 25 rules: eight in the profile `dev`, forty in `ci`.
TestQueues.settings = settings(max_examples=min(40, settings().max_examples // 3), stateful_step_count=25)
