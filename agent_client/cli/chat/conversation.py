"""One session as one window sees it: what is sent, and the turns that are followed, one after the other.

A message is sent under an id of its own, so it is never lost and never answered twice: after a break the same message
is sent again, and its turn comes from the beginning. Nothing here knows how it is shown.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Protocol

from agent_common.protocol import is_object

from ... import (
    Agent,
    ChatEvent,
    ChatStream,
    ClientError,
    ConnectionFailed,
    NotFound,
    NotRunning,
    Queued,
    Started,
    Steered,
    Unavailable,
)
from ..errors import CliError, explain

FOLLOW_SECONDS = 7 * 24 * 3600.0
"""Seconds that a turn is followed: as long as it may wait for a person."""
MAX_PENDING = 50
RETRY_SECONDS = 1.0
AWAY = (ConnectionFailed, NotRunning, Unavailable)
"""What says that the agent may answer later."""


class View(Protocol):
    """Where a conversation is shown."""

    def user(self, text: str) -> None: ...
    def problem(self, text: str) -> None: ...
    async def event(self, event: ChatEvent) -> None: ...
    async def other_turn(self) -> None: ...
    async def missed_turn(self) -> None: ...
    def changed(self) -> None: ...


@dataclass(slots=True, eq=False)
class Message:
    """A message, or with `text` None the turn of another window."""

    text: str | None
    steers: bool = False
    id: str = field(default_factory=lambda: f"chat_{token_hex(12)}")
    shown: bool = False


class Conversation:
    """Sends messages of one session and follows its turns. `run` must run as long as it is used."""

    def __init__(self, agent: Agent, session: str, view: View, online: asyncio.Event) -> None:
        self.agent = agent
        self.session = session
        self.online = online
        self.model: str | None = None
        """For the messages from now on; None: the session's own."""
        self.manifest: str | None = None
        """The agent for the messages from now on; None: the session's own."""
        self.current: Message | None = None
        """Whose turn is followed."""
        self._view = view
        self._pending: deque[Message] = deque()
        self._steering: list[Message] = []
        self._mine: deque[str] = deque(maxlen=1000)
        self._news = asyncio.Event()
        self._posts: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._begun = False
        """Whether the server has the current message."""
        self._queued = False
        """Whether it waits there for other turns."""

    # ---------------------------------------------------------------- what a person does

    @property
    def busy(self) -> bool:
        return self.current is not None or bool(self._pending)

    @property
    def waiting(self) -> list[Message]:
        """Messages that have not been answered yet, in their order."""
        return [*self._steering, *(message for message in self._pending if message.text is not None)]

    def send(self, text: str) -> None:
        """Send a message: it starts a turn, or joins the one that runs. Raises CliError when too many wait."""
        self._add(Message(text, steers=self.busy))

    def queue(self, text: str) -> None:
        """Send a message that is answered after the turn that runs. Raises CliError when too many wait."""
        self._add(Message(text))

    async def stop(self) -> str | None:
        """Stop the turn that runs, or take back the message that waits for one: its text is returned."""
        message = self.current
        following = self._following
        if message is not None and following is not None and not self._begun and not self.online.is_set():
            following.cancel()
            return message.text
        try:
            if message is not None and self._queued:
                await self.agent.unqueue(self.session, message.id)
                return message.text
            await self.agent.abort(self.session)
        except NotFound:
            pass  # nothing has run in it yet
        except ClientError as error:
            self._view.problem(explain(error))
        return None

    def watch(self, *, shown: bool = False) -> None:
        """Follow the turn that another window has begun, before messages of this one that have not, also before one
        that waits at the server and is followed; `shown` says that its message is on the screen."""
        if len(self._pending) < MAX_PENDING:
            if self._queued and self.current is not None and self._following is not None:
                self._pending.appendleft(self.current)
                self._following.cancel()
                self._queued = False  # `run` sees the end of the task later; until then it is in `_pending` once
            self._pending.appendleft(Message(None, shown=shown))
            self._news.set()

    def switch(self, session: str) -> None:
        """Talk in another session from now on. Raises CliError while a turn runs."""
        if self.busy:
            raise CliError("a turn is running", "Esc stops it")
        self.session = session
        self.model = self.manifest = None

    def is_mine(self, message_id: str) -> bool:
        """Whether this window has sent the message."""
        return message_id in self._mine

    # ---------------------------------------------------------------- turns

    async def run(self) -> None:
        """Follow one turn after the other, until it is cancelled."""
        try:
            while True:
                while not self._pending:
                    self._news.clear()
                    await self._news.wait()
                self.current = self._pending.popleft()
                self._begun = False
                self._queued = False
                self._following = asyncio.create_task(self._follow(self.current))
                await asyncio.wait({self._following})
                self._end_turn(self._following)
        finally:
            for task in (*self._posts, *((self._following,) if self._following else ())):
                task.cancel()

    def _end_turn(self, following: asyncio.Task[None]) -> None:
        if not following.cancelled() and (error := following.exception()) is not None:
            if not isinstance(error, ClientError):
                raise error
            self._view.problem(explain(error))
        self.current = None
        for message in reversed(self._steering):  # the turn has made no other step: they are turns of their own
            self._pending.appendleft(message)
        self._steering.clear()
        self._view.changed()

    async def _follow(self, message: Message) -> None:
        """Follow the turn of a message to its end, however often the agent goes away."""
        if not message.shown:
            message.shown = True
            if message.text is None:
                await self._view.other_turn()
            else:
                self._view.user(message.text)
        while True:
            self._view.changed()
            await self.online.wait()
            try:
                async with aclosing(self._stream(message)) as events:
                    async for event in events:
                        self._begun = True
                        await self._take(event)
                if not self._begun:
                    await self._view.missed_turn()
                return
            except AWAY:
                if self._begun:
                    raise
                self.online.clear()  # the next answer of the agent sets it again
                self._view.changed()
                await asyncio.sleep(RETRY_SECONDS)

    def _stream(self, message: Message) -> ChatStream:
        if message.text is None:
            return self.agent.watch(self.session, wait=FOLLOW_SECONDS, reconnect=FOLLOW_SECONDS)
        return self.agent.chat(
            message.text,
            session=self.session,
            id=message.id,
            model=self.model,
            agent=self.manifest,
            wait=FOLLOW_SECONDS,
            reconnect=FOLLOW_SECONDS,
        )

    async def _take(self, event: ChatEvent) -> None:
        if not isinstance(event, Started):
            self._queued = isinstance(event, Queued)
        if isinstance(event, Steered) and is_object(event.data):
            self._steering = [one for one in self._steering if one.id != event.data.get("message_id")]
        await self._view.event(event)
        self._view.changed()

    # ---------------------------------------------------------------- sending

    def _add(self, message: Message) -> None:
        if len(self.waiting) >= MAX_PENDING:
            raise CliError(f"{MAX_PENDING} messages wait already", "wait for the agent, or stop it with Esc")
        self._mine.append(message.id)
        busy = self.busy
        (self._steering if message.steers else self._pending).append(message)
        if busy:
            self._spawn(self._post(message))
        self._news.set()
        self._view.changed()

    async def _post(self, message: Message) -> None:
        """Hand the message in now: it is on the agent's disk before its turn is followed."""
        try:
            await self.agent.send(
                message.text or "",
                session=self.session,
                id=message.id,
                model=None if message.steers else self.model,
                agent=None if message.steers else self.manifest,
                on_busy="steer" if message.steers else "queue",
            )
        except AWAY:
            return  # it is sent again when its turn is followed
        except ClientError as error:
            self._view.problem(f"not sent: {message.text}: {explain(error)}")
            for messages in (self._steering, self._pending):
                if message in messages:
                    messages.remove(message)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
