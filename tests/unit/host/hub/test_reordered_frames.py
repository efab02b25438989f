"""Receipts and new links of an agent that reach the hub in any order, against a model of what it may deliver then."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_common.backoff import Backoff
from agent_common.protocol.hub import (
    EV_SESSION_INVITE,
    EV_SESSION_OPENED,
    EV_TEXT,
    Envelope,
    ErrorFrame,
    Frame,
    NotifyFrame,
)
from agent_host.hub import Hub, HubLimits
from agent_testing import ManualClock

from .raw_link import RawLink, join, open_session, opened

SESSIONS = 2
WINDOW = 3
MOST_ROUNDS = 40
"""After which Bob has got everything: there are fewer windows of envelopes."""
PAUSES = Backoff(1.0, 4.0)
LIMITS = HubLimits(max_attempts=3, retry=PAUSES)
REGISTRATION: dict[str, Any] = {"rule": {"inbox": {"in_flight": WINDOW}}, "key": "bobs"}
Status = Literal["ack", "nack"]


class BobsLink(RawLink):
    """One of his links, which shows the model what the hub sends at the moment when it does."""

    def __init__(self, hub: Hub, model: Model) -> None:
        super().__init__(hub)
        self._model = model

    def _take(self, frame: Frame) -> None:
        try:
            if isinstance(frame, NotifyFrame) and frame.envelope.event_type != EV_SESSION_INVITE:
                self._model.delivered(self, frame)
            elif isinstance(frame, ErrorFrame) and frame.envelope_id:
                self._model.given_up(self, frame.envelope_id)
            else:
                super()._take(frame)
        except AssertionError as fault:
            self._model.faults.append(fault)  # the hub survives what a link raises


@dataclass
class Sent:
    """An envelope that is in flight over the link that Bob has at the hub."""

    envelope: Envelope
    attempt: int
    nacks: int = 0
    waits_since: float | None = None
    """When it was nacked, if it has not come again yet."""


@dataclass
class Model:
    """What the hub has sent and been told."""

    clock: ManualClock
    link: BobsLink | None = None
    """Over which the hub delivers; None: there is none yet."""
    next_link: BobsLink | None = None
    """Whose registration is at the hub."""
    in_flight: dict[str, Sent] = field(default_factory=dict[str, Sent])
    done: set[str] = field(default_factory=set[str])
    """Acknowledged, or given up."""
    ever: dict[str, Envelope] = field(default_factory=dict[str, Envelope])
    nacks: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    """Over all links."""
    faults: list[AssertionError] = field(default_factory=list[AssertionError])
    held: list[tuple[BobsLink, NotifyFrame]] = field(default_factory=list[tuple[BobsLink, NotifyFrame]])
    """What has come to Bob; he may answer it late, twice and over another link."""

    def goes_over(self, link: BobsLink | None) -> None:
        """The hub delivers over another link from now on: what was in flight comes again."""
        self.link, self.next_link = link, None
        self.in_flight.clear()

    # ---------------------------------------------------------------- what the hub does

    def delivered(self, link: BobsLink, frame: NotifyFrame) -> None:
        if link is self.next_link:
            self.goes_over(link)
        assert link is self.link, "it goes over the newest link"
        envelope, name = frame.envelope, frame.envelope.envelope_id
        assert name not in self.done, "nothing comes after its acknowledgement"
        known = self.in_flight.get(name)
        if known is None:
            self._check_order(envelope)
            assert (frame.attempt > 1) == (name in self.ever)
            self.in_flight[name] = Sent(envelope, frame.attempt)
        else:
            assert known.waits_since is not None, "it comes again only if it was nacked"
            assert self.clock.monotonic() >= known.waits_since + PAUSES.pause(known.nacks)
            assert frame.attempt == known.attempt + 1
            known.attempt, known.waits_since = frame.attempt, None
        self.ever[name] = envelope
        self.held.append((link, frame))

    def _check_order(self, envelope: Envelope) -> None:
        of_session = [one for one in self.in_flight.values() if one.envelope.session_id == envelope.session_id]
        assert all(one.waits_since is None for one in of_session), "nothing overtakes what was nacked"
        assert all(one.envelope.sequence < envelope.sequence for one in of_session)
        before = [one for one in self.ever.values() if one.session_id == envelope.session_id]
        for one in before:
            is_earlier = one.sequence < envelope.sequence
            assert not is_earlier or one.envelope_id in self.done | self.in_flight.keys(), "none is left out"
        if envelope.event_type == EV_TEXT:
            assert sum(one.envelope.event_type == EV_TEXT for one in self.in_flight.values()) < WINDOW

    def given_up(self, link: BobsLink, name: str) -> None:
        assert link is self.link
        assert self.nacks[name] >= LIMITS.max_attempts
        del self.in_flight[name]
        self.done.add(name)

    # ---------------------------------------------------------------- what the hub is told

    def told(self, link: BobsLink, name: str, status: Status) -> None:
        """A receipt is about to reach the hub. It counts if that has sent the envelope over this very link."""
        sent = self.in_flight.get(name) if link is self.link else None
        if sent is None:
            return
        if status == "ack":
            del self.in_flight[name]
            self.done.add(name)
        elif sent.waits_since is None:
            sent.nacks += 1
            self.nacks[name] += 1
            sent.waits_since = self.clock.monotonic()

    def check_pauses(self) -> None:
        """What is due has come. A pause may be as long as the longest that another one of its session waits for."""
        for sent in self.in_flight.values():
            assert sent.nacks < LIMITS.max_attempts
            if sent.waits_since is not None:
                assert self.clock.monotonic() < sent.waits_since + PAUSES.pause(LIMITS.max_attempts - 1)


@dataclass(frozen=True)
class Receipt:
    """On its way to the hub."""

    link: BobsLink
    frame: NotifyFrame
    status: Status


class Play:
    """Alice speaks, Bob answers over links that come and go, and each frame reaches the hub when the test says so."""

    def __init__(self, hub: Hub, clock: ManualClock, alice: RawLink, sessions: list[str], model: Model) -> None:
        self.hub, self.clock, self.alice, self.sessions, self.model = hub, clock, alice, sessions, model
        self.under_way: list[Receipt | BobsLink] = []
        """What has not reached the hub yet: receipts, and links that are to be registered."""
        self.links: list[BobsLink] = [model.link] if model.link is not None else []

    async def send(self, number: int) -> None:
        await self.alice.send(self.sessions[number % SESSIONS], str(number))

    async def answer(self, number: int, *statuses: Status, over_newest: bool = False) -> None:
        """Answer something that has come, the newest first, in one way or several."""
        if self.model.held:
            link, frame = self.model.held[-1 - number % len(self.model.held)]
            over = self.links[-1] if over_newest else link
            self.under_way += [Receipt(over, frame, status) for status in statuses]

    async def resume(self, _number: int) -> None:
        link = BobsLink(self.hub, self.model)
        link.agent_id = self.hub.agents.get("bob").agent_id
        self.under_way.append(link)

    async def arrive(self, number: int) -> None:
        """Any one of the frames under way reaches the hub."""
        if self.under_way:
            await self._arrives(self.under_way.pop(number % len(self.under_way)))

    async def _arrives(self, what: Receipt | BobsLink) -> None:
        if isinstance(what, Receipt):
            self.model.told(what.link, what.frame.envelope.envelope_id, what.status)
            answer = what.link.nack if what.status == "nack" else what.link.ack
            answer(what.frame)
            return
        self.model.next_link = what
        await what.ask("register", passport={"name": "bob"}, **REGISTRATION)
        if self.model.next_link is what:
            self.model.goes_over(what)
        self.links.append(what)

    async def close(self, number: int) -> None:
        """The hub sees that a link has ended."""
        if self.links:
            link = self.links[number % len(self.links)]
            await link.link.close()
            if link is self.model.link:
                self.model.goes_over(None)

    async def wait(self, number: int) -> None:
        self.clock.advance(0.25 * (1 + number % 5))
        self.model.check_pauses()

    async def finish(self) -> None:
        """All that is under way arrives, the last first. Then Bob comes back and acknowledges what he gets."""
        while self.under_way:
            await self._arrives(self.under_way.pop())
        await self.resume(0)
        await self.arrive(0)
        for _ in range(MOST_ROUNDS):
            for name in tuple(self.model.in_flight):
                link, frame = next(one for one in reversed(self.model.held) if one[1].envelope.envelope_id == name)
                await self._arrives(Receipt(link, frame, "ack"))
            await self.settle()
        assert self.model.done == await self._for_bob(), "each comes until it is acknowledged or given up"
        assert self.hub.delivery.inboxes.of(self.hub.agents.get("bob")).pending == 0

    async def _for_bob(self) -> set[str]:
        logs = [one for session in self.sessions for one in await self.hub.store.log(session, 0, 999)]
        return {one.envelope_id for one in logs if one.event_type in (EV_SESSION_OPENED, EV_TEXT)}

    async def settle(self) -> None:
        """Let the hub do what it can do now."""
        for _ in range(5):
            await asyncio.sleep(0)
        for fault in self.model.faults:
            raise fault


ACTIONS: dict[str, tuple[str, dict[str, Any], tuple[Status, ...]]] = {
    "send": ("send", {}, ()),
    "ack": ("answer", {}, ("ack",)),
    "nack": ("answer", {}, ("nack",)),
    "ack twice": ("answer", {}, ("ack", "ack")),
    "nack twice": ("answer", {}, ("nack", "nack")),
    "both": ("answer", {}, ("nack", "ack")),
    "ack over the newest link": ("answer", {"over_newest": True}, ("ack",)),
    "nack over the newest link": ("answer", {"over_newest": True}, ("nack",)),
    "resume": ("resume", {}, ()),
    "close": ("close", {}, ()),
    "arrive": ("arrive", {}, ()),
    "wait": ("wait", {}, ()),
}
often = st.sampled_from(["send", "ack", "nack", "arrive", "arrive", "arrive", "wait"])
steps = st.lists(st.tuples(often | st.sampled_from(sorted(ACTIONS)), st.integers(0, 11)), min_size=20, max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
async def test_frames_in_any_order_lose_repeat_and_reorder_nothing(taken: list[tuple[str, int]]) -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=LIMITS) as hub:
        model = Model(clock)
        alice, bob = await join(hub, "alice"), BobsLink(hub, model)
        model.next_link = bob
        bob.agent_id = (await bob.ask("register", passport={"name": "bob"}, **REGISTRATION))["agent_id"]
        model.goes_over(bob)
        sessions = [await open_session(alice, "bob") for _ in range(SESSIONS)]
        play = Play(hub, clock, alice, sessions, model)
        for action, number in taken:
            name, options, statuses = ACTIONS[action]
            await getattr(play, name)(number, *statuses, **options)
            await play.settle()
        await play.finish()


async def test_each_nacked_envelope_has_a_pause_of_its_own() -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=LIMITS) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await alice.send(session, "early")
        await alice.send(session, "late")
        early, late = await bob.get_text(), await bob.get_text()
        bob.nack(early)
        clock.advance(0.75)
        bob.nack(late)
        await alice.send(session, "next")
        clock.advance(0.25)
        assert bob.waiting() == ["early"]
        clock.advance(0.5)
        assert bob.waiting() == ["early"]
        clock.advance(0.25)
        assert bob.waiting()[:2] == ["early", "late"]
        assert (await bob.get_text()).envelope.text == "early"
        assert (await bob.get_text()).attempt == 2
        assert (await bob.get_text()).envelope.text == "next"


async def test_a_nack_counts_after_a_break_too() -> None:
    """What was not acknowledged before the break comes a second time; once refused, a third time."""
    clock = ManualClock()
    async with opened(clock=clock, limits=LIMITS) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await alice.send(session)
        await bob.get_text()
        await bob.link.close()
        again = await join(hub, "bob")
        frame = await again.get_text()
        again.nack(frame)
        clock.advance(1)
        assert (frame.attempt, (await again.get_text()).attempt) == (2, 3)


async def test_a_receipt_over_a_link_that_has_ended_has_no_effect() -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await alice.send(session)
        frame = await bob.get_text()
        await bob.link.close()
        again = await join(hub, "bob")
        await again.get_text()
        bob.ack(frame)
        assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 1
        again.ack(frame)
        assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 0
