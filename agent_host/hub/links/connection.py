"""The hub's end of a link, whatever carries its frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol
from uuid import uuid4

from sqlalchemy.exc import DataError

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import (
    ALL_SESSIONS,
    VERSION,
    AcceptFrame,
    AccessDeniedError,
    Frame,
    HelloFrame,
    NetworkError,
    PingFrame,
    PongFrame,
    ProtocolError,
    RateLimited,
    ReceiptFrame,
    RequestFrame,
    ResponseFrame,
    SendFrame,
    SubscribeFrame,
    UnsubscribeFrame,
    WelcomeFrame,
    error_frame,
)

from ..delivery import Subscription, Watch
from ..live_session import LiveSession
from ..parts import HubParts
from .caller import Caller, LinkRights
from .operations import run_operation

MOST_REQUESTS = 256
"""Requests of a link that run at a time."""
MOST_SUBSCRIPTIONS = 256
MOST_UNWRITTEN = 4 << 20
"""Bytes of envelopes of a link that wait to be written, from which on no more are read."""
_READS = frozenset({"info", "list_agents", "list_tasks", "read_log", "read_task_checkpoint", "sessions"})
"""Operations whose answers may be large."""
_READS_AT_ONCE = 8


class Flow(Protocol):
    """How much waits to be sent over a link."""

    @property
    def has_space(self) -> bool:
        """Whether the client keeps up."""
        ...

    async def drained(self) -> None:
        """Return once there is space, or the link has ended."""
        ...


class Unbounded:
    """The flow of a link within the process: what is sent is bounded by what is asked, and by the agents' windows."""

    has_space = True

    async def drained(self) -> None:
        return


class HubConnection:
    """Answers the frames of one link. It knows nobody until it has registered an agent."""

    def __init__(
        self,
        hub: HubParts,
        send: Callable[[Frame], None],
        rights: LinkRights,
        flow: Flow | None = None,
    ) -> None:
        """`send` takes frames for the client and never waits. `flow`: how much of what was sent still waits; call
        `pump` when it has drained."""
        self._hub = hub
        self._send = send
        self._flow = flow or Unbounded()
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._caller = Caller(hub, self, rights)
        self._endpoint_id = uuid4().hex
        self._tasks = OwnedTasks()
        self._requests = 0
        self._subscriptions: dict[str, tuple[str, Subscription | Watch]] = {}
        self._subscribing: dict[str, SubscribeFrame] = {}
        """What the client has asked for and has not begun yet, by the ids of the subscriptions."""
        self._is_closed = False
        self._unwritten = 0
        """Bytes of what the client has sent and is not decided yet."""
        self._written = asyncio.Event()

    async def readable(self) -> None:
        """Return once more may be read of what the client sends: its quota is not used up, and little of it waits to be
        written."""
        client = self._caller.rights.identity
        if client is not None and (seconds := self._hub.quota.wait_seconds(client)) > 0:
            await asyncio.sleep(seconds)
        while self._unwritten > MOST_UNWRITTEN:
            self._written.clear()
            await self._written.wait()

    # ---------------------------------------------------------------- what is delivered

    @property
    def has_space(self) -> bool:
        return self._flow.has_space

    async def drained(self) -> None:
        await self._flow.drained()

    def release(self, agent_id: str) -> None:
        self._caller.agent_ids.discard(agent_id)

    def pump(self) -> None:
        """The client keeps up again: deliver what waits for its agents."""
        for agent_id in tuple(self._caller.agent_ids):
            agent = self._hub.agents.find(agent_id)
            if agent is not None:
                self._hub.delivery.pump(self._hub.delivery.inboxes.of(agent))

    # ---------------------------------------------------------------- frames

    def send(self, frame: Frame) -> None:
        """Send a frame to the client. None is sent once the link is closed."""
        if not self._is_closed:
            self._send(frame)

    def receive(self, frame: Frame, size: int = 0) -> None:
        """Take a frame of the client, which has `size` bytes. Never waits; what it asks for is answered by frames. One
        that comes after the end of the link has no effect."""
        if self._is_closed:
            return
        if (client := self._caller.rights.identity) is not None and isinstance(frame, SendFrame | RequestFrame):
            self._hub.quota.spend(client, size)
        match frame:
            case SendFrame():
                self._post(frame, size)
            case ReceiptFrame():
                agent = self._hub.agents.find(frame.recipient_id)
                if agent is not None and agent.agent_id in self._caller.agent_ids:
                    self._hub.receipts.receive(agent, frame)
            case RequestFrame():
                self._start_request(frame)
            case SubscribeFrame():
                self._start_subscription(frame)
            case UnsubscribeFrame():
                self._unsubscribe(frame.subscription_id)
            case _:
                self._answer(frame)

    def _answer(self, frame: Frame) -> None:
        match frame:
            case PingFrame():
                self.send(PongFrame())
            case HelloFrame() if frame.version != VERSION:
                self.send(error_frame(ProtocolError(f"version: this hub speaks {VERSION}, and not {frame.version}")))
            case HelloFrame():
                self.send(WelcomeFrame(endpoint_id=self._endpoint_id, hub_time=self._hub.clock.now_ms()))
            case PongFrame():
                pass
            case _:
                self.send(error_frame(ProtocolError(f"kind: a client does not send {frame.kind}")))

    async def close(self) -> None:
        """The link has ended: deliver nothing more over it."""
        self._is_closed = True
        await self._tasks.close()
        for subscription_id in tuple(self._subscriptions):
            self._unsubscribe(subscription_id)
        for agent_id in self._caller.agent_ids:
            agent = self._hub.agents.find(agent_id)
            if agent is not None:
                self._hub.registry.disconnect(agent, self)

    # ---------------------------------------------------------------- what is asked

    def _post(self, frame: SendFrame, size: int) -> None:
        self._unwritten += size
        on_posted = partial(self._on_posted, frame.request_id, size)
        try:
            sender = self._caller.agent(frame.envelope.sender_id)
        except NetworkError as error:
            on_posted(error)
            return
        self._hub.posting.post(sender, frame.envelope, on_posted)

    def _on_posted(self, request_id: str, size: int, result: str | NetworkError) -> None:
        self._unwritten -= size
        self._written.set()
        if isinstance(result, NetworkError):
            self.send(error_frame(result, request_id))
        else:
            self.send(AcceptFrame(request_id=request_id, envelope_id=result))

    def _start_request(self, frame: RequestFrame) -> None:
        if self._requests >= MOST_REQUESTS:
            error = RateLimited(f"a link may have {MOST_REQUESTS} requests at a time", retry_after=0.5)
            self.send(error_frame(error, frame.request_id))
            return
        self._requests += 1
        self._tasks.start(self._request(frame))

    async def _request(self, frame: RequestFrame) -> None:
        try:
            if frame.op in _READS:
                async with self._reads:
                    await self._respond(frame)
                    await self.drained()
            else:
                await self._respond(frame)
        except NetworkError as error:
            self.send(error_frame(error, frame.request_id))
        except DataError:
            self.send(error_frame(_not_kept(frame.op), frame.request_id))
        except Exception:
            self.send(error_frame(NetworkError(f"{frame.op}: the hub has failed"), frame.request_id))
            raise
        finally:
            self._requests -= 1

    async def _respond(self, frame: RequestFrame) -> None:
        result = await run_operation(self._caller, frame.op, frame.params)
        self.send(ResponseFrame(request_id=frame.request_id, result=result))

    def _start_subscription(self, frame: SubscribeFrame) -> None:
        self._unsubscribe(frame.subscription_id)
        if len(self._subscriptions) + len(self._subscribing) >= MOST_SUBSCRIPTIONS:
            error = RateLimited(f"a link may have {MOST_SUBSCRIPTIONS} subscriptions at a time")
            self.send(error_frame(error, frame.subscription_id))
            return
        self._subscribing[frame.subscription_id] = frame
        self._tasks.start(self._subscribe(frame))

    async def _subscribe(self, frame: SubscribeFrame) -> None:
        """Begin a subscription, unless its client ends it, or has another one in its place, before that."""
        try:
            session, subscription = await self._prepare(frame)
        except NetworkError as error:
            self._refuse_subscription(frame, error)
            return
        except DataError:
            self._refuse_subscription(frame, _not_kept("subscribe"))
            return
        except Exception:
            self._refuse_subscription(frame, NetworkError("subscribe: the hub has failed"))
            raise
        if not self._is_awaited(frame):
            if session is not None:
                self._hub.table.drop_if_done(session)
            return
        self._subscriptions[frame.subscription_id] = frame.session_id, subscription
        if isinstance(subscription, Watch):
            self._hub.delivery.watches.append(subscription)
        elif session is not None:
            await self._hub.delivery.subscribe(session, subscription)

    async def _prepare(self, frame: SubscribeFrame) -> tuple[LiveSession | None, Subscription | Watch]:
        """A subscription to a session, or to what is said on the whole hub from now on. Raises NetworkError."""
        if frame.session_id == ALL_SESSIONS:
            if not self._caller.reads_all:
                raise AccessDeniedError("session_id: only an operator's link without agents watches all sessions")
            return None, Watch(frame.subscription_id, self)
        reads_all = self._caller.reads_all and not frame.agent_id
        reader = None if reads_all else self._caller.agent(frame.agent_id).agent_id
        await self._hub.queries.info(None if reader is None else [reader], frame.session_id)
        session = await self._hub.table.get(frame.session_id)
        return session, Subscription(frame.subscription_id, reader, self, session, frame.after)

    def _is_awaited(self, frame: SubscribeFrame) -> bool:
        """Whether its client still waits for a subscription to begin; from now on it does not."""
        if self._subscribing.get(frame.subscription_id) is not frame:
            return False
        del self._subscribing[frame.subscription_id]
        return True

    def _refuse_subscription(self, frame: SubscribeFrame, error: NetworkError) -> None:
        if self._is_awaited(frame):
            self.send(error_frame(error, frame.subscription_id))

    def _unsubscribe(self, subscription_id: str) -> None:
        self._subscribing.pop(subscription_id, None)
        session_id, subscription = self._subscriptions.pop(subscription_id, (None, None))
        if isinstance(subscription, Watch):
            self._hub.delivery.watches.remove(subscription)
        elif session_id is not None and subscription is not None:
            self._hub.delivery.unsubscribe(session_id, subscription)
            session = self._hub.table.live.get(session_id)
            if session is not None:
                self._hub.table.drop_if_done(session)


def _not_kept(what: str) -> ProtocolError:
    return ProtocolError(f"{what}: has a value that the database cannot keep, such as the character NUL; leave it out")
