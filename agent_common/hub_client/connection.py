"""One process's connection to a hub: requests and their answers, events, and a link that comes back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from ..backoff import Backoff
from ..protocol.hub import (
    ALL_SESSIONS,
    AcceptFrame,
    Envelope,
    ErrorFrame,
    Frame,
    HelloFrame,
    HubUnavailable,
    NetworkError,
    NotFoundError,
    NotifyFrame,
    PingFrame,
    PongFrame,
    RequestFrame,
    ResponseFrame,
    SendFrame,
    SubscribeFrame,
    UnsubscribeFrame,
)
from ..telemetry import logger
from .links import LinkClient

log = logger(__name__)
_RECONNECT = Backoff(0.1, 10.0, jitter=0.5)


class Subscription:
    """Events of a session, in order."""

    def __init__(self, frame: SubscribeFrame) -> None:
        self.frame = frame
        self._events: asyncio.Queue[Envelope | NetworkError] = asyncio.Queue()

    def put(self, event: Envelope | NetworkError) -> None:
        """Take what the hub has sent. After a broken link it comes again; what is known is left out."""
        if isinstance(event, Envelope) and self.frame.session_id != ALL_SESSIONS:
            if event.sequence <= self.frame.after:
                return
            self.frame = self.frame.model_copy(update={"after": event.sequence})
        self._events.put_nowait(event)

    async def get(self) -> Envelope:
        """The next event. Raises NetworkError if the hub refuses the subscription."""
        event = await self._events.get()
        if isinstance(event, NetworkError):
            raise event
        return event


class Connection:
    """Sends frames and waits for answers. While the link is broken, what was asked waits, and is asked again: the hub
    does each thing once, because each send and opening has a key."""

    def __init__(self, link: LinkClient, timeout: float) -> None:
        self._link = link
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._pending: dict[str, tuple[Frame | None, asyncio.Future[Any]]] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._is_open = asyncio.Event()
        self._end: NetworkError | None = None
        """Why there is no link any more; None: there is, or will be again."""
        self._ended = asyncio.Event()
        self._failures = 0
        """Attempts to take up the link that have failed one after another."""
        self.on_notify: Callable[[NotifyFrame], None] = _ignore
        self.on_dead_letter: Callable[[str], None] = _ignore
        self.on_reconnect: Callable[[], Awaitable[None]] = _nothing
        """Called when the link is there again, before anything else is asked."""

    async def open(self) -> None:
        """Connect, unless that was done. Raises AuthError or HubUnavailable."""
        async with self._opening:
            self._check()
            if self._task is None:
                await self._link.open()
                await self._link.send_frame(HelloFrame())
                self._is_open.set()
                self._task = asyncio.get_running_loop().create_task(self._run())

    def _check(self) -> None:
        if self._end is not None:
            raise type(self._end)(self._end.message)

    @property
    def is_open(self) -> bool:
        """Whether the link is there now."""
        return self._is_open.is_set() and self._end is None

    async def wait_ended(self) -> NetworkError:
        """Wait until the link does not come back any more: it is closed or refused. Returns why."""
        await self._ended.wait()
        return self._end or HubUnavailable("this client is closed")

    async def close(self) -> None:
        """End the link. What waits for an answer fails."""
        end = self._give_up(HubUnavailable("this client is closed"))
        await self._link.close()
        tasks = {*self._tasks, *({self._task} if self._task is not None else ())}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._fail(end)

    # ---------------------------------------------------------------- asking

    async def ask(self, op: str, params: dict[str, Any], *, deadline: float | None = None, again: bool = True) -> Any:
        """Ask the hub for something. Raises NetworkError, or TimeoutError if no answer comes.

        `again`: ask once more when the link has broken meanwhile."""
        number = str(next(self._numbers))
        return await self._exchange(
            number, RequestFrame(request_id=number, op=op, params=params), deadline, again=again
        )

    async def send(self, envelope: Envelope) -> str:
        """Send an envelope that has a key; its id once it is in the log. Raises NetworkError."""
        number = str(next(self._numbers))
        answer: str = await self._exchange(number, SendFrame(request_id=number, envelope=envelope), None, again=True)
        return answer

    async def tell(self, frame: Frame) -> None:
        """Send a frame that has no answer. If the link is broken it is lost."""
        with suppress(HubUnavailable):
            await self._link.send_frame(frame)

    async def _exchange(self, number: str, frame: Frame, deadline: float | None, *, again: bool) -> Any:
        self._check()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(deadline or self._timeout):
            if again:
                await self._is_open.wait()
            self._check()
            self._pending[number] = frame if again else None, answer
            try:
                await self.tell(frame)
                return await answer
            finally:
                self._pending.pop(number, None)

    @asynccontextmanager
    async def subscribe(self, session_id: str, agent_id: str, after: int) -> AsyncGenerator[Subscription]:
        """What is said in a session after a sequence."""
        number = f"s{next(self._numbers)}"
        self._check()
        frame = SubscribeFrame(subscription_id=number, session_id=session_id, agent_id=agent_id, after=after)
        subscription = self._subscriptions[number] = Subscription(frame)
        try:
            if self._is_open.is_set():  # else it is sent when its agent is registered over the new link
                await self.tell(frame)
            yield subscription
        finally:
            del self._subscriptions[number]
            await self.tell(UnsubscribeFrame(subscription_id=number))

    # ---------------------------------------------------------------- the link

    async def _run(self) -> None:
        """Take frames, and open the link again when it breaks. An unforeseen error is logged and ends this client;
        `wait_ended` returns it."""
        taking_up: asyncio.Task[None] | None = None
        try:
            while True:
                with suppress(HubUnavailable):
                    async for frame in self._link.frames():
                        self._take(frame)
                self._is_open.clear()
                if taking_up is not None:  # over the link that has broken
                    taking_up.cancel()
                    await asyncio.wait([taking_up])
                if not await self._reconnect():
                    return
                taking_up = asyncio.get_running_loop().create_task(self._take_up())
        except Exception as error:
            log.exception("hub_link_failed")
            self._fail(self._give_up(HubUnavailable(f"the link has failed: {error!r}")))
        finally:
            if taking_up is not None:
                taking_up.cancel()

    async def _reconnect(self) -> bool:
        """Open the link again, however long it takes. Returns False if this client is closed or is let in no more."""
        while self._end is None:
            self._failures += 1
            await asyncio.sleep(_RECONNECT.pause(self._failures))
            try:
                await self._link.open()
                await self._link.send_frame(HelloFrame())
            except HubUnavailable:
                continue
            except NetworkError as error:
                log.error("hub_link_refused", why=error.message)
                self._give_up(error)
                self._fail(error)
                return False
            return True
        return False

    async def _take_up(self) -> None:
        """Register again over a new link, then ask again what waits for an answer."""
        waiting = [frame for frame, _ in self._pending.values() if frame is not None]
        try:
            await self.on_reconnect()
        except NotFoundError as error:
            log.error("hub_register_failed", why=error.message)
            self._give_up(error)
            self._fail(error)
            await self._link.close()
            return
        except Exception as error:  # noqa: BLE001  after any error the link is opened again
            log.error("hub_register_failed", why=repr(error))
            await self._link.close()
            return
        self._failures = 0
        self._is_open.set()
        for frame in waiting:
            await self.tell(frame)
        for number in tuple(self._subscriptions):
            subscription = self._subscriptions.get(number)
            if subscription is not None:  # else it has ended meanwhile
                await self.tell(subscription.frame)

    def _take(self, frame: Frame) -> None:
        match frame:
            case NotifyFrame() if frame.subscription_id:
                subscription = self._subscriptions.get(frame.subscription_id)
                if subscription is not None:
                    subscription.put(frame.envelope)
            case NotifyFrame():
                self.on_notify(frame)
            case AcceptFrame():
                self._answer(frame.request_id, frame.envelope_id)
            case ResponseFrame():
                self._answer(frame.request_id, frame.result)
            case ErrorFrame() if frame.envelope_id:
                self.on_dead_letter(frame.envelope_id)
            case ErrorFrame():
                self._refuse(frame)
            case PingFrame():
                self._start(self.tell(PongFrame()))
            case _:
                pass

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _answer(self, request_id: str, result: Any) -> None:
        _, answer = self._pending.get(request_id, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(result)

    def _refuse(self, frame: ErrorFrame) -> None:
        _, answer = self._pending.get(frame.request_id, (None, None))
        if answer is not None and not answer.done():
            answer.set_exception(frame.to_error())
        elif (subscription := self._subscriptions.get(frame.request_id)) is not None:
            subscription.put(frame.to_error())
        else:
            log.warning("hub_refused_frame", code=frame.code, why=frame.message)

    def _give_up(self, why: NetworkError) -> NetworkError:
        """End for good; return the first reason for that."""
        self._end = self._end or why
        self._ended.set()
        self._is_open.set()  # wakes the callers that wait for it
        return self._end

    def _fail(self, error: NetworkError) -> None:
        for _, answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)
        for subscription in self._subscriptions.values():
            subscription.put(error)


def _ignore(_what: object) -> None:
    return


async def _nothing() -> None:
    return
