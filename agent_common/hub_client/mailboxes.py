"""What is delivered to one agent: sessions side by side, the envelopes of each one after another.

The loop that receives never waits for a handler. An envelope whose handler fails comes again after a pause; until then
those behind it wait, so that order is kept. An envelope that is delivered twice is handled once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from ..protocol.hub import Envelope, NotifyFrame, TurnOutcome
from ..telemetry import logger

log = logger(__name__)
Handle = Callable[[Envelope], Awaitable[TurnOutcome | None]]
Receipt = Callable[[NotifyFrame, TurnOutcome | None, str | None], Awaitable[None]]
"""Answers a notify: with the outcome of its turn, or with why it was not handled."""
_REMEMBERED = 1024
_MOST_SESSIONS = 10_000
handled: ContextVar[NotifyFrame | None] = ContextVar("handled", default=None)
"""The notify whose handler runs."""


class _Mailbox:
    """The envelopes of one session that wait for the agent."""

    __slots__ = ("current", "queue", "refused", "task")

    def __init__(self) -> None:
        self.queue: deque[NotifyFrame] = deque()
        self.current: str | None = None
        """Id of the one that is handled."""
        self.refused: str | None = None
        """Id of the one that has failed and comes again first."""
        self.task: asyncio.Task[None] | None = None

    def has(self, envelope_id: str) -> bool:
        return envelope_id == self.current or any(one.envelope.envelope_id == envelope_id for one in self.queue)


class Mailboxes:
    """Runs an agent's handler over what is delivered."""

    def __init__(self, handle: Handle, answer: Receipt) -> None:
        self._handle = handle
        self._answer = answer
        self._mailboxes: dict[str, _Mailbox] = {}
        self._done: OrderedDict[str, TurnOutcome | None] = OrderedDict()
        """Ids of the last envelopes that were handled. Their receipts may have been lost."""
        self._seen: OrderedDict[str, int] = OrderedDict()
        """Per session, the sequence up to which a wait has looked at it."""
        self._answers: set[asyncio.Task[None]] = set()
        self._is_open = False

    def open(self) -> None:
        """Begin to handle what has come and what comes."""
        self._is_open = True
        for session_id, mailbox in tuple(self._mailboxes.items()):
            self._start(session_id, mailbox)

    def put(self, frame: NotifyFrame) -> None:
        """Take a delivery. Never waits."""
        session_id = frame.envelope.session_id
        envelope_id = frame.envelope.envelope_id
        if envelope_id in self._done:
            self._start_answer(frame, self._done[envelope_id])
            return
        if not self._is_open and frame.envelope.sequence <= self._seen.get(session_id, 0):
            self._start_answer(frame, None)
            return
        mailbox = self._mailboxes.setdefault(session_id, _Mailbox())
        if mailbox.has(envelope_id):
            return
        if mailbox.refused == envelope_id:
            mailbox.refused = None
            mailbox.queue.appendleft(frame)
        else:
            mailbox.queue.append(frame)
        self._start(session_id, mailbox)

    def drain(self, session_id: str, sequence: int) -> None:
        """A wait has looked at a session up to a sequence: acknowledge what has come of that and what comes, unless a
        handler does so. Waits find it in the log."""
        if self._is_open or sequence <= self._seen.get(session_id, 0):
            return
        self._seen[session_id] = sequence
        self._seen.move_to_end(session_id)
        if len(self._seen) > _MOST_SESSIONS:
            self._seen.popitem(last=False)
        mailbox = self._mailboxes.get(session_id)
        while mailbox is not None and mailbox.queue and mailbox.queue[0].envelope.sequence <= sequence:
            self._start_answer(mailbox.queue.popleft(), None)
        if mailbox is not None and not mailbox.queue:
            del self._mailboxes[session_id]

    def give_up(self, envelope_id: str) -> None:
        """An envelope that has failed does not come again."""
        for session_id, mailbox in tuple(self._mailboxes.items()):
            if mailbox.refused == envelope_id:
                mailbox.refused = None
                self._start(session_id, mailbox)

    def start_over(self) -> None:
        """The link is a new one: what waits will be delivered again."""
        for mailbox in self._mailboxes.values():
            mailbox.queue.clear()
            mailbox.refused = None

    async def close(self) -> None:
        """Cancel the handlers that run. What they were handling is not acknowledged."""
        tasks = {one.task for one in self._mailboxes.values() if one.task is not None} | self._answers
        tasks.discard(asyncio.current_task())  # type: ignore[arg-type]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, session_id: str, mailbox: _Mailbox) -> None:
        if self._is_open and mailbox.task is None and mailbox.queue and mailbox.refused is None:
            mailbox.task = asyncio.get_running_loop().create_task(self._run(session_id, mailbox))

    async def _run(self, session_id: str, mailbox: _Mailbox) -> None:
        try:
            while mailbox.queue and mailbox.refused is None:
                frame = mailbox.queue.popleft()
                mailbox.current = frame.envelope.envelope_id
                handled.set(frame)
                await self._handle_one(mailbox, frame)
                mailbox.current = None
        finally:
            mailbox.current = mailbox.task = None
            if not mailbox.queue and mailbox.refused is None:
                self._mailboxes.pop(session_id, None)

    async def _handle_one(self, mailbox: _Mailbox, frame: NotifyFrame) -> None:
        envelope_id = frame.envelope.envelope_id
        try:
            outcome = await self._handle(frame.envelope)
        except Exception as error:  # noqa: BLE001
            log.warning("hub_handler_failed", envelope_id=envelope_id, why=repr(error))
            mailbox.refused = envelope_id
            await self._answer(frame, None, f"{type(error).__name__}: {error}"[:500])
            return
        self._done[envelope_id] = outcome
        if len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        await self._answer(frame, outcome, None)

    def _start_answer(self, frame: NotifyFrame, outcome: TurnOutcome | None) -> None:
        async def answer() -> None:
            await self._answer(frame, outcome, None)

        task = asyncio.get_running_loop().create_task(answer())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
