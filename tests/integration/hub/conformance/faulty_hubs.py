"""Hubs that break one rule on purpose, each as small a change of the real one as does it."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_core import from_json, to_json
from starlette.types import Message, Receive

from agent_common.protocol.hub import (
    EV_SESSION_INVITE,
    EV_SESSION_INVITE_ACK,
    Envelope,
    ErrorFrame,
    Frame,
    HelloFrame,
    NotifyFrame,
    ReceiptFrame,
    RequestFrame,
    ResponseFrame,
    SendFrame,
    SubscribeFrame,
    WelcomeFrame,
)
from agent_host.hub import Agent, HubConnection, LinkRights

from .faulty_frames import SENT, TAKEN, Change
from .faulty_tasks import OF_TASKS
from .hub_server import HubServer

# ---------------------------------------------------------------- links


class Changing(HubConnection):
    """Changes single frames."""

    sent: Change = staticmethod(lambda frame: frame)
    taken: Change = staticmethod(lambda frame: frame)

    def send(self, frame: Frame) -> None:
        changed = self.sent(frame)
        if changed is not None:
            super().send(changed)

    def receive(self, frame: Frame, size: int = 0) -> None:
        changed = self.taken(frame)
        if changed is not None:
            super().receive(changed, size)


class Knowing(HubConnection):
    """Knows who takes part in what."""

    def creator(self, session_id: str) -> Agent:
        return self._hub.agents.get(self._hub.table.live[session_id].folded.info.creator_id)

    def takes_part(self, session_id: str) -> bool:
        live = self._hub.table.live.get(session_id)
        return live is None or any(live.folded.info.has(one) for one in self._caller.agent_ids)

    def read_as_creator(self, frame: RequestFrame | SubscribeFrame, session_id: str) -> Frame:
        creator = self.creator(session_id).agent_id
        self._caller.agent_ids.add(creator)
        if isinstance(frame, SubscribeFrame):
            return frame.model_copy(update={"agent_id": creator})
        return frame.model_copy(update={"params": {**frame.params, "agent_id": creator}})

    def in_flight(self, agent_id: str, session_id: str) -> list[Envelope]:
        """What was delivered and is not acknowledged."""
        cursor = self._hub.delivery.inboxes.of(self._hub.agents.get(agent_id)).cursors.get(session_id)
        return list(cursor.in_flight.values()) if cursor is not None else []

    def acknowledge(self, agent_id: str, *envelopes: Envelope) -> None:
        for one in envelopes:
            receipt = ReceiptFrame(
                envelope_id=one.envelope_id, session_id=one.session_id, recipient_id=agent_id, status="ack"
            )
            self._hub.receipts.receive(self._hub.agents.get(agent_id), receipt)


class SpeaksAsClient(HubConnection):
    def send(self, frame: Frame) -> None:
        super().send(frame)
        if isinstance(frame, WelcomeFrame):
            super().send(HelloFrame())


class OneAtATime(HubConnection):
    """Takes nothing while it opens a session."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.opening, self.waiting = "", list[tuple[Frame, int]]()

    def receive(self, frame: Frame, size: int = 0) -> None:
        if self.opening:
            self.waiting.append((frame, size))
            return
        if isinstance(frame, RequestFrame) and frame.op == "open":
            self.opening = frame.request_id
        super().receive(frame, size)

    def send(self, frame: Frame) -> None:
        super().send(frame)
        if isinstance(frame, ResponseFrame | ErrorFrame) and frame.request_id == self.opening:
            waiting, self.waiting, self.opening = self.waiting, [], ""
            for one, size in waiting:
                self.receive(one, size)


class NewIdEachTime(HubConnection):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, RequestFrame) and frame.op == "register":
            self._tasks.start(self.register_anew(frame, size))
        else:
            super().receive(frame, size)

    async def register_anew(self, frame: RequestFrame, size: int) -> None:
        agent = self._hub.agents.find(frame.params["passport"]["name"])
        if agent is not None:
            await self._hub.registry.unregister(agent)
        super().receive(frame, size)


class ForgedSenders(HubConnection):
    def receive(self, frame: Frame, size: int = 0) -> None:
        sender = self._hub.agents.find(frame.envelope.sender_id) if isinstance(frame, SendFrame) else None
        if isinstance(frame, SendFrame) and sender is not None:
            self._caller.agent_ids.add(sender.agent_id)
        super().receive(frame, size)


class ForgedRequests(HubConnection):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, RequestFrame) and isinstance(named := frame.params.get("agent_id"), str):
            self._caller.agent_ids.add(named)
        super().receive(frame, size)


class OpensEarly(HubConnection):
    """Accepts invitations by itself."""

    def send(self, frame: Frame) -> None:
        if isinstance(frame, NotifyFrame) and frame.envelope.event_type == EV_SESSION_INVITE:
            accepted = Envelope(session_id=frame.envelope.session_id, event_type=EV_SESSION_INVITE_ACK)
            self._hub.posting.post(self._hub.agents.get(frame.recipient_id), accepted, lambda _: None)
        super().send(frame)


class AnybodyCloses(HubConnection):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, RequestFrame) and frame.op == "close":
            session = self._hub.table.live[frame.params["session_id"]]
            closing = self._hub.lifecycle.close(session, frame.params.get("reason", ""), None)
            self._hub.owned_tasks.start(closing)
            self.send(ResponseFrame(request_id=frame.request_id))
        else:
            super().receive(frame, size)


class OutsidersWrite(Knowing):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, SendFrame) and not self.takes_part(frame.envelope.session_id):
            creator = self.creator(frame.envelope.session_id)
            self._caller.agent_ids.add(creator.agent_id)
            envelope = frame.envelope.model_copy(update={"sender_id": creator.agent_id})
            frame = frame.model_copy(update={"envelope": envelope})
        super().receive(frame, size)


class OutsidersRead(Knowing):
    def receive(self, frame: Frame, size: int = 0) -> None:
        session_id = frame.params.get("session_id", "") if isinstance(frame, RequestFrame) else ""
        if isinstance(frame, RequestFrame) and not self.takes_part(session_id):
            frame = self.read_as_creator(frame, session_id)
        super().receive(frame, size)


class ReadsEverything(Knowing):
    """Whoever takes part reads all of a log."""

    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, RequestFrame) and frame.op == "read_log" and self.may_read(frame.params):
            self._tasks.start(self.show(frame))
        else:
            super().receive(frame, size)

    def may_read(self, params: dict[str, Any]) -> bool:
        return params["agent_id"] in self._caller.agent_ids and self.takes_part(params["session_id"])

    async def show(self, frame: RequestFrame) -> None:
        params = frame.params
        page = await self._hub.queries.log(None, params["session_id"], params["after"], params["limit"])
        shown = {"envelopes": [one.model_dump(mode="json") for one in page.envelopes], "next": page.next}
        self.send(ResponseFrame(request_id=frame.request_id, result=shown))


class WatchesEverything(Knowing):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, SubscribeFrame):
            frame = self.read_as_creator(frame, frame.session_id)
        super().receive(frame, size)


class Reorders(HubConnection):
    """Keeps an envelope back until the next one was sent."""

    kept: Frame | None = None

    def send(self, frame: Frame) -> None:
        if isinstance(frame, NotifyFrame) and frame.envelope.event_data.get("text") == "3":
            self.kept = frame
            return
        super().send(frame)
        if isinstance(frame, NotifyFrame) and self.kept is not None:
            kept, self.kept = self.kept, None
            super().send(kept)


class AcknowledgesItself(Knowing):
    def send(self, frame: Frame) -> None:
        super().send(frame)
        if isinstance(frame, NotifyFrame) and not frame.subscription_id:
            self.acknowledge(frame.recipient_id, frame.envelope)


class ForgetsWhoIsAway(HubConnection):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, RequestFrame) and frame.op == "register":
            agent = self._hub.agents.find(frame.params["passport"]["name"])
            for cursor in self._hub.delivery.inboxes.of(agent).cursors.values() if agent is not None else ():
                cursor.next = cursor.session.committed + 1
        super().receive(frame, size)


class Overtakes(HubConnection):
    """A nacked envelope comes again, and those behind it do not wait."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.delivered = dict[str, NotifyFrame]()

    def send(self, frame: Frame) -> None:
        if isinstance(frame, NotifyFrame) and not frame.subscription_id:
            self.delivered[frame.envelope.envelope_id] = frame
        super().send(frame)

    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, ReceiptFrame) and frame.status == "nack":
            again = self.delivered[frame.envelope_id].model_copy(update={"attempt": 2})
            asyncio.get_running_loop().call_later(1.0, self.send, again)
        else:
            super().receive(frame, size)


class DeliversTwice(Overtakes):
    """An acknowledged envelope comes again."""

    def receive(self, frame: Frame, size: int = 0) -> None:
        HubConnection.receive(self, frame, size)
        if isinstance(frame, ReceiptFrame) and frame.status == "ack" and frame.envelope_id in self.delivered:
            self.send(self.delivered.pop(frame.envelope_id).model_copy(update={"attempt": 2}))


class HighWaterMark(Knowing):
    """An acknowledgement is one of all before."""

    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, ReceiptFrame) and frame.status == "ack":
            flying = self.in_flight(frame.recipient_id, frame.session_id)
            mark = max((one.sequence for one in flying if one.envelope_id == frame.envelope_id), default=0)
            self.acknowledge(frame.recipient_id, *(one for one in flying if one.sequence < mark))
        super().receive(frame, size)


class AnybodyAcknowledges(HubConnection):
    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, ReceiptFrame):
            self._hub.receipts.receive(self._hub.agents.get(frame.recipient_id), frame)
        else:
            super().receive(frame, size)


class GuessesReceipts(Knowing):
    """A receipt for an envelope that nobody knows is one for all that is in flight."""

    def receive(self, frame: Frame, size: int = 0) -> None:
        super().receive(frame, size)
        if isinstance(frame, ReceiptFrame) and frame.envelope_id == "env_ffff":
            self.acknowledge(frame.recipient_id, *self.in_flight(frame.recipient_id, frame.session_id))


# ---------------------------------------------------------------- servers


class StopsAt(HubServer):
    """Reads no more of a link after a message that is wrong."""

    @staticmethod
    def is_wrong(message: Message) -> bool:
        """Whether it is no JSON object."""
        try:
            return not isinstance(from_json(message["text"]), dict)
        except ValueError:
            return True

    def receiving(self, receive: Receive) -> Receive:
        async def receive_until_wrong() -> Message:
            message = await receive()
            while message["type"] == "websocket.receive" and self.is_wrong(message):
                self.on_wrong()
                message = await receive()
                while message["type"] == "websocket.receive":
                    message = await receive()
            return message

        return receive_until_wrong

    def on_wrong(self) -> None:
        return


class EndsAllLinks(StopsAt):
    """A message that is wrong ends each link."""

    def on_wrong(self) -> None:
        self.end_all_links()


class StopsAtUnknownKinds(StopsAt):
    @staticmethod
    def is_wrong(message: Message) -> bool:
        return "teleport" in message["text"]


class SwallowsLongFrames(HubServer):
    max_frame = HubServer.max_frame * 2

    def receiving(self, receive: Receive) -> Receive:
        async def receive_short() -> Message:
            while len((message := await receive()).get("text") or "") > HubServer.max_frame:
                pass
            return message

        return receive_short


class CutFramesEndAllLinks(HubServer):
    def receiving(self, receive: Receive) -> Receive:
        async def receive_or_end() -> Message:
            message = await receive()
            if message["type"] == "websocket.disconnect" and message.get("code") in (1005, 1006):
                self.end_all_links()
            return message

        return receive_or_end


class DropsUnknownFields(HubServer):
    def receiving(self, receive: Receive) -> Receive:
        async def receive_known() -> Message:
            message = await receive()
            if "audiense" in (message.get("text") or ""):
                frame = from_json(message["text"])
                del frame["envelope"]["audiense"]
                return {**message, "text": to_json(frame).decode()}
            return message

        return receive_known


class SmallFrames(HubServer):
    max_frame = 1 << 19


class AnybodyIsLetIn(HubServer):
    def identify(self, token: str) -> str | None:
        return super().identify(token) or "alice"


class AnyName(HubServer):
    def rights(self, name: str) -> LinkRights:
        return LinkRights()


LINKS: dict[str, type[HubConnection]] = {
    "speaks_as_client": SpeaksAsClient,
    "one_at_a_time": OneAtATime,
    "new_id_each_time": NewIdEachTime,
    "forged_senders": ForgedSenders,
    "forged_requests": ForgedRequests,
    "opens_early": OpensEarly,
    "anybody_closes": AnybodyCloses,
    "outsiders_write": OutsidersWrite,
    "outsiders_read": OutsidersRead,
    "reads_everything": ReadsEverything,
    "watches_everything": WatchesEverything,
    "reorders": Reorders,
    "acknowledges_itself": AcknowledgesItself,
    "forgets_who_is_away": ForgetsWhoIsAway,
    "overtakes": Overtakes,
    "delivers_twice": DeliversTwice,
    "high_water_mark": HighWaterMark,
    "anybody_acknowledges": AnybodyAcknowledges,
    "guesses_receipts": GuessesReceipts,
    **OF_TASKS,
}
SERVERS: dict[str, type[HubServer]] = {
    "stops_at_bad_frames": StopsAt,
    "ends_all_links": EndsAllLinks,
    "stops_at_unknown_kinds": StopsAtUnknownKinds,
    "swallows_long_frames": SwallowsLongFrames,
    "cut_frames_end_all_links": CutFramesEndAllLinks,
    "drops_unknown_fields": DropsUnknownFields,
    "small_frames": SmallFrames,
    "anybody_is_let_in": AnybodyIsLetIn,
    "any_name": AnyName,
    "refuses_newer_links": AnyName,
}
HUB_FAULTS = {*SENT, *TAKEN, *LINKS, *SERVERS}


def faulty(fault: str) -> type[HubServer]:
    """The server with this fault."""
    if fault in SERVERS:
        return SERVERS[fault]
    link = LINKS.get(fault)
    if link is None:
        parts = {"sent": SENT.get(fault), "taken": TAKEN.get(fault)}
        changes = {name: staticmethod(change) for name, change in parts.items() if change is not None}
        link = type("Changed", (Changing,), changes)
    return type("Faulty", (HubServer,), {"kind": link})
