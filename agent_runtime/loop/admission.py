"""The only scheduler: every demand for a turn comes through here, whichever door it used.

One turn at a time per session, sessions in parallel up to a limit, first come first served among those that could
start. A place is reserved before the first await and the turn starts only after its admission is on disk, so that two
callers can never both find a session idle and nothing runs that a crash would forget.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Literal

from ..errors import Busy, Conflict, NotReady
from ..store import Database, Unit
from ..telemetry import logger
from .conversations import Conversation
from .state import Turn

log = logger(__name__)

Run = Callable[[Turn], Awaitable[None]]
"""Brings a turn to its end and settles it: by running it, or by cancelling it before it ran."""
CANCEL_SECONDS = 10.0
MOST_TURNS = 10_000
"""Turns held in all, those included that rest: they do not count against the queue, for only a new one wakes them."""


class Admission:
    """Lanes of turns by session, and the slots they share."""

    def __init__(self, database: Database, run: Run, cancel: Run, *, slots: int, queue: int) -> None:
        self._database, self._run, self._cancel = database, run, cancel
        self._free, self._queue_limit = slots, queue
        self._lanes: dict[str, deque[Turn]] = {}
        self._resting: set[str] = set()
        """Sessions whose queue rests because their last turn ended in error."""
        self._ready: deque[Turn] = deque()
        self._held: set[str] = set()
        """Sessions that somebody is changing; what comes meanwhile queues."""
        self._turns: dict[str, Turn] = {}
        self._draining = False

    # -- doors

    async def admit(self, turn: Turn, unit: Callable[[Turn], Unit[None]]) -> None:
        """Makes the turn durable and sees to it that it runs. `unit` stores it, given whether it must queue.

        Raises Busy when the queue is full, and whatever the unit raises; then nothing has happened. A caller who is
        cancelled while he waits takes nothing back: what is on its way to the disk is admitted.
        """
        self._reserve(turn)
        try:
            turn.admission = self._database.write(unit(turn), durable=True)
        except BaseException:
            self._withdraw(turn)
            raise
        turn.admission.add_done_callback(lambda written: self._admitted(turn, written))
        await asyncio.shield(turn.admission)

    def readmit(self, turn: Turn) -> None:
        """Takes back a turn that was queued in an earlier life."""
        turn.durable = turn.was_queued = True
        self._hold(turn)
        self._offer(turn.conversation.id)

    async def stop(self, turn: Turn) -> None:
        """Cancels a turn, queued or running; returns once it has ended. A turn that has ended stays as it is."""
        await _admissions([turn])
        if turn.state == "queued":
            await self._drop(turn)
            return
        turn.stop("cancelled")
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await turn.ended.wait()
        except TimeoutError:
            raise NotReady("the turn was told to stop and has not ended yet", headers={"Retry-After": "1"}) from None

    @contextlib.contextmanager
    def hold(self, conversation: Conversation) -> Iterator[None]:
        """Keeps a session still while its record is changed. Raises Conflict `session_busy` when a turn is at work or
        waits in it, or somebody else holds it; messages that come meanwhile queue."""
        busy = self.busy_with(conversation)
        if busy is not None or conversation.id in self._held:
            names = busy.names() if busy else {}
            raise Conflict("the session is busy; wait for its turn or abort it", code="session_busy", running=names)
        self._held.add(conversation.id)
        conversation.users += 1
        try:
            yield
        finally:
            conversation.users -= 1
            self._held.discard(conversation.id)
            self._offer(conversation.id)

    # -- looking

    def turn(self, message_id: str) -> Turn | None:
        """A turn that has not ended."""
        return self._turns.get(message_id)

    def current(self, conversation: Conversation) -> Turn | None:
        """The turn at the head of a session's lane."""
        lane = self._lanes.get(conversation.id)
        return lane[0] if lane else None

    def busy_with(self, conversation: Conversation) -> Turn | None:
        """The turn that a session is at, also when it still waits for a slot. None while the lane rests: what is in it
        then waits for the next message."""
        return None if conversation.id in self._resting else self.current(conversation)

    def turns(self, state: Literal["queued", "running"]) -> list[Turn]:
        wanted = ("queued",) if state == "queued" else ("running", "settling")
        return [turn for turn in self._turns.values() if turn.state in wanted]

    def ahead(self, turn: Turn) -> int:
        """Turns that were admitted before this one and have not ended; 0 for one that runs."""
        if turn.state != "queued":
            return 0
        return list(self._turns).index(turn.message_id)

    # -- end of this life

    async def drain(self, grace: float) -> None:
        """Admits nothing more, gives running turns their grace, then breaks them off: the next life settles them."""
        self._draining = True
        await _admissions(self._turns.values())
        for turn in self.turns("queued"):  # nothing more will be heard of them in this life
            turn.live.close()
            turn.ended.set()
        running = [turn.runner for turn in self.turns("running") if turn.runner is not None]
        if running and grace > 0:
            await asyncio.wait(running, timeout=grace)
        for turn in self.turns("running"):
            turn.stop("shutdown")
        if running:
            await asyncio.wait(running, timeout=CANCEL_SECONDS)
        for turn in list(self._turns.values()):
            turn.live.close()

    # -- lanes

    def _reserve(self, turn: Turn) -> None:
        if self._draining:
            raise NotReady("the server is shutting down", headers={"Retry-After": "1"})
        lane = self._lanes.get(turn.conversation.id)
        if lane or self._free == 0 or turn.conversation.id in self._held:
            waiting = sum(1 for queued in self.turns("queued") if queued.conversation.id not in self._resting)
            if waiting >= self._queue_limit or len(self._turns) >= MOST_TURNS:
                raise Busy(f"{waiting} turns are waiting; try again later", headers={"Retry-After": "5"})
            turn.was_queued = True
        else:
            self._free -= 1
            turn.state = "running"
        self._hold(turn)

    def _hold(self, turn: Turn) -> None:
        self._lanes.setdefault(turn.conversation.id, deque()).append(turn)
        self._turns[turn.message_id] = turn
        turn.conversation.users += 1

    def _admitted(self, turn: Turn, written: asyncio.Future[None]) -> None:
        if written.exception() is not None:
            self._withdraw(turn)
            return
        turn.durable = True
        self._resting.discard(turn.conversation.id)
        if turn.state == "running":
            self._start(turn)
        else:
            self._offer(turn.conversation.id)

    async def _drop(self, turn: Turn) -> None:
        """Cancels a turn that waits in its lane. If that cannot be written down, it goes on waiting."""
        turn.state = "settling"
        if turn in self._ready:
            self._ready.remove(turn)
        try:
            await self._cancel(turn)
        except BaseException:
            turn.state = "queued"
            self._offer(turn.conversation.id)
            raise
        turn.state = "ended"
        self._leave(turn)
        turn.live.close()
        turn.ended.set()

    def _withdraw(self, turn: Turn) -> None:
        """The admission failed: its place goes to the next."""
        if turn.state == "running":
            self._free += 1
        self._leave(turn)
        turn.state = "ended"
        turn.ended.set()

    def _leave(self, turn: Turn) -> None:
        session_id = turn.conversation.id
        lane = self._lanes[session_id]
        lane.remove(turn)
        if not lane:
            del self._lanes[session_id]
            self._resting.discard(session_id)
        del self._turns[turn.message_id]
        turn.conversation.users -= 1
        if turn in self._ready:
            self._ready.remove(turn)
        self._offer(session_id)

    def _offer(self, session_id: str) -> None:
        """Puts the head of a lane forward if it could start, then starts what fits."""
        lane = self._lanes.get(session_id)
        still = session_id in self._resting or session_id in self._held
        if lane and not still and lane[0].could_start and lane[0] not in self._ready:
            self._ready.append(lane[0])
        while self._free > 0 and self._ready and not self._draining:
            self._free -= 1
            turn = self._ready.popleft()
            turn.state = "running"
            self._start(turn)

    def _start(self, turn: Turn) -> None:
        turn.runner = asyncio.create_task(self._own(turn), name=f"turn {turn.message_id}")

    async def _own(self, turn: Turn) -> None:
        try:
            await self._run(turn)
        except asyncio.CancelledError:
            log.info("turn broken off", message_id=turn.message_id, reason=turn.stop_reason)
        except Exception:
            log.exception("turn could not be settled", message_id=turn.message_id)
        finally:
            self._free += 1
            if turn.outcome is not None and turn.outcome.status == "failed":
                self._resting.add(turn.conversation.id)
            turn.state = "ended"
            turn.live.close()
            turn.ended.set()
            self._leave(turn)


async def _admissions(turns: Iterable[Turn]) -> None:
    """Waits until it is known of each turn whether it was admitted."""
    under_way = [turn.admission for turn in turns if turn.admission is not None and not turn.admission.done()]
    if under_way:
        await asyncio.wait(under_way)
