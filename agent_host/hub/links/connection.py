"""The hub's end of a link, whatever carries its frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import uuid4

from agent_common.protocol.hub import (
    VERSION,
    AcceptFrame,
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

from ..delivery import Subscription
from ..parts import HubParts
from ..tasks import OwnedTasks
from .caller import Caller
from .operations import run_operation

MOST_REQUESTS = 256
"""Requests of a link that run at a time."""
MOST_SUBSCRIPTIONS = 256


class HubConnection:
    """Answers the frames of one link. It knows nobody until it has registered an agent."""

    def __init__(self, hub: HubParts, send: Callable[[Frame], None], identity: str | None) -> None:
        """`send` takes frames for the client and never waits. `identity`: the one name that agents of this link may
        have; None: any."""
        self._hub, self._send = hub, send
        self._caller = Caller(hub, self, identity)
        self._endpoint_id = uuid4().hex
        self._tasks = OwnedTasks()
        self._requests = 0
        self._subscriptions: dict[str, tuple[str, Subscription]] = {}
        self._is_closed = False

    # ---------------------------------------------------------------- frames

    def send(self, frame: Frame) -> None:
        """Send a frame to the client. None is sent once the link is closed."""
        if not self._is_closed:
            self._send(frame)

    def receive(self, frame: Frame) -> None:
        """Take a frame of the client. Never waits; what it asks for is answered by frames."""
        match frame:
            case SendFrame():
                self._post(frame)
            case ReceiptFrame():
                if frame.recipient_id in self._caller.agent_ids:
                    self._hub.receipts.receive(self._hub.agents.get(frame.recipient_id), frame)
            case RequestFrame():
                self._start_request(frame)
            case SubscribeFrame():
                self._tasks.start(self._subscribe(frame))
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

    def _post(self, frame: SendFrame) -> None:
        on_posted = partial(self._on_posted, frame.request_id)
        try:
            sender = self._caller.agent(frame.envelope.sender_id)
        except NetworkError as error:
            on_posted(error)
            return
        self._hub.posting.post(sender, frame.envelope, on_posted)

    def _on_posted(self, request_id: str, result: str | NetworkError) -> None:
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
            result = await run_operation(self._caller, frame.op, frame.params)
            self.send(ResponseFrame(request_id=frame.request_id, result=result))
        except NetworkError as error:
            self.send(error_frame(error, frame.request_id))
        except Exception:
            self.send(error_frame(NetworkError(f"{frame.op}: the hub has failed"), frame.request_id))
            raise
        finally:
            self._requests -= 1

    async def _subscribe(self, frame: SubscribeFrame) -> None:
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            error = RateLimited(f"a link may have {MOST_SUBSCRIPTIONS} subscriptions at a time")
            self.send(error_frame(error, frame.subscription_id))
            return
        try:
            reader = self._caller.agent(frame.agent_id).agent_id
            await self._hub.queries.info([reader], frame.session_id)
            session = await self._hub.table.get(frame.session_id)
        except NetworkError as error:
            self.send(error_frame(error, frame.subscription_id))
            return
        subscription = Subscription(frame.subscription_id, reader, self, session)
        self._subscriptions[frame.subscription_id] = frame.session_id, subscription
        await self._hub.delivery.subscribe(session, subscription, frame.after)

    def _unsubscribe(self, subscription_id: str) -> None:
        session_id, subscription = self._subscriptions.pop(subscription_id, (None, None))
        if session_id is not None and subscription is not None:
            self._hub.delivery.unsubscribe(session_id, subscription)
            session = self._hub.table.live.get(session_id)
            if session is not None:
                self._hub.table.drop_if_done(session)
