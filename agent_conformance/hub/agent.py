"""One agent of the tester: its token, its link, and what it asks, says, gets and acknowledges over it."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from agent_common.hub_client import HubAddress
from agent_common.protocol.hub import EV_SESSION_INVITE, EV_SESSION_INVITE_ACK, NetworkError
from agent_testing.channel import Frame

from ..rules import RuleBroken
from .link import TesterLink

NOTE = "conformance.note"
"""Event type of what the tester's agents say: it moves no turn."""
_ANSWERS = ("response", "accept", "error")


@dataclass(frozen=True, slots=True)
class HubOptions:
    """The options of a run."""

    timeout: float = 10.0
    """Seconds to wait for a frame that must come."""
    wait: float = 60.0
    """Seconds to wait until the hub is there."""

    @property
    def quiet_seconds(self) -> float:
        """Seconds to wait where nothing must come."""
        return min(0.5, self.timeout / 4)


class Refused(RuleBroken):
    """The hub has refused what it must do, unless the rule expects that."""

    def __init__(self, what: str, frame: Frame) -> None:
        super().__init__(f"{what} is refused: {frame.get('code')}: {frame.get('message')}")
        self.code: str = frame.get("code", "")
        self.retry_after: float | None = frame.get("retry_after")


@dataclass(slots=True)
class TesterAgent:
    """An agent that the tester acts as. `name` is the identity of its token."""

    name: str
    token: str
    address: HubAddress
    options: HubOptions
    links: list[TesterLink] = field(default_factory=list[TesterLink])
    """All that it has had, the present one last."""
    agent_id: str = ""
    """That of its registration."""
    unacked: dict[str, Frame] = field(default_factory=dict[str, Frame])
    """What was delivered over the present link and not acknowledged, by the envelope's id."""
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # ---------------------------------------------------------------- links

    @property
    def link(self) -> TesterLink:
        """The present link."""
        return self.links[-1]

    async def dial(self, token: str | None = None) -> TesterLink:
        """Open a link, over which nothing was said, and make it the present one. Raises AuthError, HubUnavailable."""
        socket = await self.address.connect(self.token if token is None else token, heartbeat=None, proxy=None)
        link = TesterLink(socket, f"{self.name} {len(self.links) + 1}")
        link.on_frame = self._note_delivery
        self.links.append(link)
        self.unacked.clear()
        return link

    async def connect(self) -> Frame:
        """Open a link and say hello. Returns the welcome. Raises RuleBroken."""
        try:
            link = await self.dial()
        except NetworkError as error:
            raise RuleBroken(f"{self.name} is not let in: {error.message}") from None
        await link.send({"kind": "hello", "version": 1})
        return await link.expect("a welcome", lambda frame: frame["kind"] == "welcome", self.options.timeout)

    async def join(self, *, resume: Frame | None = None, **rule: Any) -> None:
        """Register, over the present link if there is one. `rule`: what differs from the default rule."""
        if not self.links or self.link.closed:
            await self.connect()
        found = await self.ask("register", passport={"name": self.name}, resume=resume or {}, rule=rule)
        self.agent_id = found["agent_id"]

    async def rejoin(self, **rule: Any) -> None:
        """Lose the link, and register over a new one."""
        await self.drop()
        await self.join(**rule)

    async def drop(self) -> None:
        """Lose the link."""
        if self.links:
            await self.link.close()

    async def ping(self) -> None:
        """Return once the hub has taken what was sent before. Raises RuleBroken."""
        mark = self.link.mark()
        await self.link.send({"kind": "ping"})
        await self.link.expect("a pong", lambda frame: frame["kind"] == "pong", self.options.timeout, mark)

    # ---------------------------------------------------------------- asking and saying

    async def start(self, frame: Frame) -> str:
        """Send a frame that has an answer; return its request_id, for `answer`."""
        request_id = self.next_id()
        await self.link.send({**frame, "request_id": request_id})
        return request_id

    def next_id(self) -> str:
        """Return an id that no request has had."""
        return f"{self.name}-{next(self._numbers)}"

    async def answer(self, request_id: str, what: str) -> Any:
        """Return a response's result, or the id of an accepted envelope. Raises Refused, RuleBroken."""
        frame = await self.link.expect(
            f"an answer to {what}",
            lambda frame: frame["kind"] in _ANSWERS and frame.get("request_id") == request_id,
            self.options.timeout,
        )
        if frame["kind"] == "error":
            raise Refused(what, frame)
        return frame.get("result") if frame["kind"] == "response" else frame["envelope_id"]

    async def ask(self, op: str, **params: Any) -> Any:
        """Ask for something. Raises as `answer`."""
        return await self.answer(await self.start(request(op, **params)), op)

    async def ask_own(self, op: str, **params: Any) -> Any:
        """Ask in its own name."""
        return await self.ask(op, agent_id=self.agent_id, **params)

    async def say(self, session_id: str, text: str, event_type: str = NOTE, **fields: Any) -> str:
        """Send an envelope; return its id. Raises as `answer`."""
        return await self.answer(await self.start(self.note(session_id, text, event_type, **fields)), f"send {text!r}")

    def note(self, session_id: str, text: str, event_type: str = NOTE, **fields: Any) -> Frame:
        """The frame that sends an envelope, without its request_id."""
        envelope = {
            "session_id": session_id,
            "sender_id": self.agent_id,
            "event_type": event_type,
            "event_data": {"text": text},
            **fields,
        }
        return {"kind": "send", "envelope": envelope}

    async def read_log(self, session_id: str, limit: int = 100) -> list[Frame]:
        """The whole log, as far as it may read it. Raises as `answer`."""
        found: list[Frame] = []
        after = 0
        while after is not None:
            page = await self.ask_own("read_log", session_id=session_id, after=after, limit=limit)
            found += page["envelopes"]
            if len(page["envelopes"]) > limit or (page["next"] is not None and page["next"] <= after):
                raise RuleBroken(f"a page after {after} has {len(page['envelopes'])} of {limit}, next {page['next']}")
            after = page["next"]
        return found

    # ---------------------------------------------------------------- what is delivered

    def deliveries(self, session_id: str, since: int = 0) -> list[Frame]:
        """What was delivered of a session over the present link."""
        return [one for one in self.link.frames[since:] if is_delivery(one, session_id)]

    async def delivery(self, session_id: str, what: str, since: int = 0) -> Frame:
        """Return the delivery of an envelope of this text, event type or id. Raises RuleBroken."""

        def fits(frame: Frame) -> bool:
            return is_delivery(frame, session_id) and what in (
                text_of(frame["envelope"]),
                frame["envelope"]["event_type"],
                frame["envelope"]["envelope_id"],
            )

        return await self.link.expect(f"{what} for {self.name}", fits, self.options.timeout, since)

    async def take(self, session_id: str, what: str, since: int = 0) -> Frame:
        """Return a delivery as `delivery` does, acknowledged."""
        found = await self.delivery(session_id, what, since)
        await self.ack(found)
        return found

    async def take_end(self, session_id: str, event_type: str, reason: str) -> None:
        """Take the end of a session. Raises RuleBroken if it does not come, or with another reason."""
        end = await self.take(session_id, event_type)
        if (data := end["envelope"]["event_data"]).get("reason") != reason:
            raise RuleBroken(f"{event_type} says {data}, not {reason}")

    async def invitation(self, opening: str) -> Frame:
        """Return the invitation that `TesterAgents.start_open` has caused. Raises RuleBroken."""

        def fits(frame: Frame) -> bool:
            if not is_delivery(frame) or frame["envelope"]["event_type"] != EV_SESSION_INVITE:
                return False
            return frame["envelope"]["event_data"].get("labels") == {"opening": opening}

        return await self.link.expect(f"an invitation for {self.name}", fits, self.options.timeout)

    async def accept(self, invitation: Frame) -> None:
        """Accept an invitation."""
        await self.say(invitation["envelope"]["session_id"], "", EV_SESSION_INVITE_ACK)
        await self.ack(invitation)

    async def ack(self, *deliveries: Frame, **fields: Any) -> None:
        """Acknowledge deliveries, in this order. `fields`: further ones of the receipts."""
        for one in deliveries:
            self.unacked.pop(one["envelope"]["envelope_id"], None)
            await self.link.send({**self.receipt(one), **fields})

    async def nack(self, delivery: Frame) -> None:
        """Refuse a delivery, so that it comes again."""
        await self.link.send({**self.receipt(delivery), "status": "nack", "reason": "the tester tries it"})

    def receipt(self, delivery: Frame) -> Frame:
        """The frame that acknowledges a delivery."""
        envelope = delivery["envelope"]
        return {
            "kind": "receipt",
            "envelope_id": envelope["envelope_id"],
            "session_id": envelope["session_id"],
            "recipient_id": self.agent_id,
        }

    async def ack_all(self) -> None:
        """Acknowledge all that has come."""
        await self.ack(*self.unacked.values())

    def _note_delivery(self, frame: Frame) -> None:
        if is_delivery(frame):
            self.unacked[frame["envelope"]["envelope_id"]] = frame


def request(op: str, **params: Any) -> Frame:
    """The frame of a request, without its request_id."""
    return {"kind": "request", "op": op, "params": params}


def is_delivery(frame: Frame, session_id: str | None = None) -> bool:
    """Whether a frame brings an envelope, of that session unless None, that is to be acknowledged."""
    if frame["kind"] != "notify" or frame.get("subscription_id"):
        return False
    return session_id in (None, frame["envelope"]["session_id"])


def text_of(envelope: Frame) -> str:
    """The text of an envelope of the tester; empty: it has none."""
    data: Frame = envelope.get("event_data") or {}
    found = data.get("text")
    return found if isinstance(found, str) else ""


async def expect_refusal(what: str, asked: Coroutine[Any, Any, Any], *codes: str) -> Refused:
    """Return the refusal of what is asked, with one of the codes. Raises RuleBroken."""
    try:
        found = await asked
    except Refused as refusal:
        if codes and refusal.code not in codes:
            raise RuleBroken(f"{what}: refused with {refusal.code!r} in place of {' or '.join(codes)}") from None
        return refusal
    raise RuleBroken(f"{what}: it was done ({str(found)[:80]})")
