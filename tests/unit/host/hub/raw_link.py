"""A client of a hub that tests drive by hand, frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from agent_common.protocol.hub import (
    EV_SESSION_INVITE,
    EV_SESSION_INVITE_ACK,
    EV_TEXT,
    AcceptFrame,
    Envelope,
    ErrorFrame,
    Frame,
    NotifyFrame,
    ReceiptFrame,
    RequestFrame,
    ResponseFrame,
    SendFrame,
    SubscribeFrame,
)
from agent_host.hub import Hub, HubConnection, LinkRights

DEADLINE = 60


class RawLink:
    """One link with one agent. Invitations are acknowledged; everything else waits in `notifies`."""

    def __init__(self, hub: Hub, identity: str | None = None, *, reads_all: bool = False) -> None:
        self.link: HubConnection = hub.connect(self._take, LinkRights(identity, reads_all))
        self.agent_id = ""
        self.accepts_invitations = True
        self.notifies: asyncio.Queue[NotifyFrame] = asyncio.Queue()
        self.others: asyncio.Queue[Frame] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Any]] = {}

    def _take(self, frame: Frame) -> None:
        match frame:
            case NotifyFrame(subscription_id="") if self._accepts(frame.envelope):
                self.start_send(frame.envelope.session_id, EV_SESSION_INVITE_ACK)
                self.ack(frame)
            case NotifyFrame():
                self.notifies.put_nowait(frame)
            case AcceptFrame():
                self._answers.pop(frame.request_id).set_result(frame.envelope_id)
            case ResponseFrame():
                self._answers.pop(frame.request_id).set_result(frame.result)
            case ErrorFrame() if frame.request_id in self._answers:
                self._answers.pop(frame.request_id).set_exception(frame.to_error())
            case _:
                self.others.put_nowait(frame)

    def _accepts(self, envelope: Envelope) -> bool:
        return self.accepts_invitations and envelope.event_type == EV_SESSION_INVITE

    async def _answer(self, frame: RequestFrame | SendFrame) -> Any:
        self._answers[frame.request_id] = asyncio.get_running_loop().create_future()
        answer = self._answers[frame.request_id]
        self.link.receive(frame)
        async with asyncio.timeout(DEADLINE):
            return await answer

    def _next_id(self) -> str:
        return f"{id(self)}-{len(self._answers)}-{asyncio.get_running_loop().time()}"

    async def ask(self, op: str, **params: Any) -> Any:
        return await self._answer(RequestFrame(request_id=self._next_id(), op=op, params=params))

    async def ask_own(self, op: str, **params: Any) -> Any:
        return await self.ask(op, agent_id=self.agent_id, **params)

    def start_send(self, session_id: str, event_type: str = EV_TEXT, **fields: Any) -> asyncio.Task[str]:
        envelope = Envelope(session_id=session_id, sender_id=self.agent_id, event_type=event_type, **fields)
        frame = SendFrame(request_id=self._next_id() + str(len(fields)), envelope=envelope)
        return asyncio.get_running_loop().create_task(self._answer(frame))

    async def send(self, session_id: str, text: str = "x", event_type: str = EV_TEXT, **fields: Any) -> str:
        return await self.start_send(session_id, event_type, **{"event_data": {"text": text}, **fields})

    async def get(self) -> NotifyFrame:
        """The next envelope that is not acknowledged by itself."""
        async with asyncio.timeout(DEADLINE):
            return await self.notifies.get()

    async def get_text(self) -> NotifyFrame:
        """The next text; what comes before is acknowledged."""
        while (frame := await self.get()).envelope.event_type != EV_TEXT:
            self.ack(frame)
        return frame

    def waiting(self) -> list[str]:
        """The texts that have come and were not taken."""
        return [frame.envelope.text for frame in list(self.notifies._queue)]  # type: ignore[attr-defined]

    def ack(self, frame: NotifyFrame, **fields: Any) -> None:
        self.link.receive(
            ReceiptFrame(
                envelope_id=frame.envelope.envelope_id,
                session_id=frame.envelope.session_id,
                recipient_id=frame.recipient_id,
                **fields,
            )
        )

    def nack(self, frame: NotifyFrame, reason: str = "not now") -> None:
        self.ack(frame, status="nack", reason=reason)

    def subscribe(self, session_id: str, after: int = 0) -> None:
        self.link.receive(
            SubscribeFrame(subscription_id="sub", session_id=session_id, agent_id=self.agent_id, after=after)
        )


async def join(hub: Hub, name: str, *, identity: str | None = None, **params: Any) -> RawLink:
    """A link with a registered agent."""
    link = RawLink(hub, identity)
    link.agent_id = (await link.ask("register", passport={"name": name}, **params))["agent_id"]
    return link


async def open_session(creator: RawLink, *targets: str, kind: str = "conversation", **params: Any) -> str:
    """Open a session whose targets acknowledge."""
    info = await creator.ask_own("open", type=kind, targets=targets, **params)
    return info["session_id"]


@asynccontextmanager
async def opened(url: str = "memory://", **options: Any) -> AsyncGenerator[Hub]:
    hub = await Hub.open(url, **options)
    try:
        yield hub
    finally:
        await hub.close()
