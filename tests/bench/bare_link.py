"""A client of a hub in this process, as bare as one can be."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
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
)
from agent_host.hub import Hub

TEXT = {"text": "x" * 100}


class BareLink:
    """One agent on a link of its own. Invitations are accepted, everything is acknowledged."""

    def __init__(self, hub: Hub) -> None:
        self._link = hub.connect(self._take)
        self._answers: dict[str, asyncio.Future[object]] = {}
        self._numbers = itertools.count()
        self.agent_id = ""
        self.on_text: Callable[[Envelope], None] = lambda _envelope: None
        self.on_accepted: Callable[[], None] = lambda: None

    def _take(self, frame: Frame) -> None:
        match frame:
            case NotifyFrame():
                envelope = frame.envelope
                if envelope.event_type == EV_SESSION_INVITE:
                    self.post(envelope.session_id, EV_SESSION_INVITE_ACK)
                self._link.receive(
                    ReceiptFrame(
                        envelope_id=envelope.envelope_id, session_id=envelope.session_id, recipient_id=self.agent_id
                    )
                )
                if envelope.event_type == EV_TEXT:
                    self.on_text(envelope)
            case AcceptFrame():
                self.on_accepted()
            case ResponseFrame():
                self._answers.pop(frame.request_id).set_result(frame.result)
            case ErrorFrame():
                raise frame.to_error()
            case _:
                pass

    def post(self, session_id: str, event_type: str = EV_TEXT, causation_id: str | None = None) -> None:
        data = TEXT if event_type == EV_TEXT else {}
        envelope = Envelope(
            session_id=session_id,
            sender_id=self.agent_id,
            event_type=event_type,
            event_data=data,
            causation_id=causation_id,
        )
        self._link.receive(SendFrame(request_id="send", envelope=envelope))

    async def ask(self, op: str, **params: object) -> Any:
        number = str(next(self._numbers))
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._link.receive(RequestFrame(request_id=number, op=op, params=params))
        return await answer

    async def register(self, name: str) -> BareLink:
        self.agent_id = (await self.ask("register", passport={"name": name}))["agent_id"]
        return self

    async def open(self, target: str) -> str:
        params = {"agent_id": self.agent_id, "type": "conversation", "targets": [target]}
        return (await self.ask("open", **params))["session_id"]
