"""Delivery: order, acknowledgements, refusals, inboxes, priority and time to live."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_common.backoff import Backoff
from agent_common.protocol.hub import DEAD_LETTER, EV_TEXT, Envelope, ErrorFrame, InboxFull, RateLimited
from agent_host.hub import Hub, HubLimits
from agent_host.hub.store import MemoryStore
from agent_testing import ManualClock

from .raw_link import RawLink, join, open_session, opened

LIMITS = HubLimits(max_attempts=3, retry=Backoff(1.0, 60.0))


async def settle(link: RawLink, count: int) -> list[str]:
    """The texts that have come, once there are so many."""
    async with asyncio.timeout(60):
        while len(link.waiting()) < count:
            await asyncio.sleep(0)
    return link.waiting()


async def test_envelopes_come_in_order_and_a_consumer_that_only_acknowledges_is_never_locked_out(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"max_pending": 10}})
        session = await open_session(alice, "bob")
        for number in range(60):
            await alice.send(session, str(number))
            frame = await bob.get_text()
            assert (frame.envelope.text, frame.attempt) == (str(number), 1)
            bob.ack(frame)


async def test_a_nacked_envelope_comes_again_and_nothing_overtakes_it(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock, limits=LIMITS) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await alice.send(session, "one")
        bob.nack(await bob.get_text())
        await alice.send(session, "two")
        assert bob.waiting() == []
        clock.advance(0.99)
        assert bob.waiting() == []
        clock.advance(0.02)
        assert await settle(bob, 2) == ["one", "two"]
        frame = await bob.get()
        assert frame.attempt == 2
        bob.ack(frame)


async def test_sessions_of_an_agent_do_not_wait_for_each_other() -> None:
    async with opened(clock=ManualClock(), limits=LIMITS) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        first, second = await open_session(alice, "bob"), await open_session(alice, "bob")
        await alice.send(first, "refused")
        bob.nack(await bob.get_text())
        await alice.send(second, "other")
        assert (await bob.get_text()).envelope.text == "other"


async def test_an_envelope_that_is_refused_too_often_is_a_dead_letter(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock, limits=LIMITS) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        refused = await alice.send(session, "bad")
        await alice.send(session, "good")
        for attempt in (1, 2, 3):
            frame = await bob.get_text()
            assert (frame.envelope.text, frame.attempt) == ("bad", attempt)
            while bob.waiting():
                await bob.get()  # `good` is in flight
            bob.nack(frame, "cannot read it\0")
            clock.advance(5)
        told = await asyncio.wait_for(bob.others.get(), 60)
        assert isinstance(told, ErrorFrame)
        assert (told.code, told.envelope_id) == (DEAD_LETTER, refused)
        await hub.store.flush()
        ((_, letter),) = await hub.store.dead_letters(0, 9)
        assert (letter.envelope_id, letter.attempts, letter.reason) == (refused, 3, "cannot read it\ufffd")
        assert await hub.queries.outcome(bob.agent_id, session, frame.envelope.sequence) == "failed"


async def test_acknowledgements_are_a_set(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        for text in ("one", "two", "three"):
            await alice.send(session, text)
        frames = [await bob.get_text(), await bob.get(), await bob.get()]
        bob.ack(frames[1])
        await bob.link.close()
        again = await join(hub, "bob")
        assert again.agent_id == bob.agent_id
        assert await settle(again, 2) == ["one", "three"]
        assert (await again.get()).attempt == 2


async def test_an_agent_that_was_away_gets_what_it_missed_and_the_end(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await bob.link.close()
        for number in range(100):
            await alice.send(session, str(number))
        await alice.ask_own("close", session_id=session)
        assert session not in hub.table.live or alice.waiting()
        again = await join(hub, "bob", rule={"inbox": {"in_flight": 7}})
        got: list[str] = []
        while (frame := await again.get()).envelope.event_type != "ag2.session.closed":
            got += [frame.envelope.text] if frame.envelope.event_type == EV_TEXT else []
            again.ack(frame)
        assert got == [str(number) for number in range(100)]


async def test_a_window_bounds_what_is_in_flight_and_the_more_urgent_goes_first() -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"in_flight": 1}})
        sessions = [await open_session(alice, "bob") for _ in range(4)]
        await alice.send(sessions[0], "first")
        frame = await bob.get_text()
        for session, text, priority in zip(
            sessions[1:], ("later", "soon", "now"), ("background", "normal", "urgent"), strict=True
        ):
            await alice.send(session, text, priority=priority)
        got: list[str] = []
        while len(got) < 3:
            assert bob.waiting() == []
            bob.ack(frame)
            frame = await bob.get_text()
            got.append(frame.envelope.text)
        assert got == ["now", "soon", "later"]


async def test_what_is_too_old_is_not_delivered() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await bob.link.close()
        await alice.send(session, "old", ttl_seconds=10)
        await alice.send(session, "lasting")
        clock.advance(10)
        again = await join(hub, "bob")
        assert (await again.get_text()).envelope.text == "lasting"
        kinds = [row.kind for _, row in await hub.store.audit(0, 99)]
        assert kinds.count("envelope_expired") == 1


@pytest.mark.parametrize("size", [1, 100_000])
async def test_what_has_become_too_old_does_not_come_again(url: str, size: int) -> None:
    """However large it is; what waits with it comes in its order."""
    clock = ManualClock()
    async with opened(url, clock=clock, limits=LIMITS) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"in_flight": 2}})
        session = await open_session(alice, "bob")
        old = await alice.send(session, "o" * size, ttl_seconds=0.5)
        await alice.send(session, "refused" * size)
        frames = [await bob.get_text(), await bob.get_text()]
        await alice.send(session, "next")
        for frame in frames:
            bob.nack(frame)
        clock.advance(5)
        told = await asyncio.wait_for(bob.others.get(), 60)
        assert isinstance(told, ErrorFrame)
        assert (told.code, told.envelope_id) == (DEAD_LETTER, old)
        assert await settle(bob, 2) == ["refused" * size, "next"]
        await hub.store.flush()
        kinds = [row.kind for _, row in await hub.store.audit(0, 99)]
        assert kinds.count("envelope_expired") == 1


@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop_oldest", ["in flight", "3", "4"]), ("drop_newest", ["in flight", "1", "2"])]
)
async def test_a_full_inbox_drops_as_its_rule_says(url: str, overflow: str, kept: list[str]) -> None:
    rule = {"inbox": {"max_pending": 3, "overflow": overflow, "in_flight": 1}}
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule=rule)
        session = await open_session(alice, "bob")
        bob.ack(await bob.get())  # that it is open
        await alice.send(session, "in flight")
        for number in (1, 2, 3, 4):
            await alice.send(session, str(number))
        got: list[str] = []
        while len(got) < 3:
            frame = await bob.get_text()
            got.append(frame.envelope.text)
            bob.ack(frame)
        assert got == kept
        assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 0


@pytest.mark.parametrize("overflow", ["reject", "drop_oldest"])
async def test_what_one_full_inbox_refuses_drops_nothing_of_another(url: str, overflow: str) -> None:
    """Also if its rule drops what waits, and nothing does: all of it was sent."""
    async with opened(url) as hub:
        alice, dave = await join(hub, "alice"), await join(hub, "dave")
        bob = await join(hub, "bob", rule={"inbox": {"max_pending": 2, "overflow": "drop_oldest", "in_flight": 1}})
        carol = await join(hub, "carol", rule={"inbox": {"max_pending": 2, "overflow": overflow}})
        session = await open_session(alice, "bob", "carol", "dave", kind="discussion")
        await alice.send(session, "first")
        await bob.send(session, "second")
        await carol.send(session, "third")
        with pytest.raises(InboxFull, match="carol has 2 unacknowledged"):
            await dave.send(session, "fourth")
        bob.ack(await bob.get_text())
        assert (await bob.get_text()).envelope.text == "third"


async def test_a_full_inbox_refuses_with_its_own_error_until_something_is_acknowledged(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"max_pending": 2}})
        session = await open_session(alice, "bob")
        await alice.send(session)
        await alice.send(session)
        with pytest.raises(InboxFull, match="bob has 2 unacknowledged envelopes, and its rule allows 2") as caught:
            await alice.send(session)
        assert caught.value.retry_after == 1.0
        bob.ack(await bob.get_text())
        await alice.send(session)


async def test_what_has_become_too_old_fills_no_inbox(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"max_pending": 1}})
        session = await open_session(alice, "bob")
        await bob.link.close()
        await alice.send(session, "in time", ttl_seconds=5)
        with pytest.raises(InboxFull):
            await alice.send(session, "refused")
        clock.advance(5)
        await alice.send(session, "kept", ttl_seconds=3600)
        with pytest.raises(InboxFull):
            await alice.send(session, "refused")
        bob = await join(hub, "bob", rule={"inbox": {"max_pending": 1}})
        frame = await bob.get_text()
        assert frame.envelope.text == "kept"
        bob.ack(frame)
        assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 0


class SlowStore(MemoryStore):
    """A store whose logs are read when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def log(self, session_id: str, after: int, limit: int) -> list[Envelope]:
        await self.may_read.wait()
        return await super().log(session_id, after, limit)


async def test_an_inbox_that_is_counted_while_others_send_becomes_empty() -> None:
    store = SlowStore()
    hub = await Hub.open_store(store)
    alice, bob = await join(hub, "alice"), await join(hub, "bob")
    sessions = [await open_session(alice, "bob") for _ in range(2)]
    for session in sessions:
        for text in ("1", "2", "3"):
            await alice.send(session, text)
    frames = [await bob.get_text() for _ in range(6)]
    bob.ack(frames.pop(1))  # the one before it is still to come
    store.may_read.clear()
    setting = asyncio.create_task(bob.ask_own("set_rule", rule={"inbox": {"max_pending": 10}}))
    for session in sessions:
        await asyncio.sleep(0)
        await alice.send(session, "meanwhile")
    frames += [await bob.get_text() for _ in sessions]
    bob.ack(frames.pop())
    store.may_read.set()
    await setting
    inbox = hub.delivery.inboxes.of(hub.agents.get("bob"))
    assert inbox.pending == len(inbox.waiting) == len(frames)
    for frame in frames:
        bob.ack(frame)
    assert inbox.pending == len(inbox.waiting) == 0
    await hub.close()


async def test_what_waits_for_an_agent_that_is_removed_takes_no_place_in_its_inbox(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock) as hub:
        alice, _ = await join(hub, "alice"), await join(hub, "carol")
        bob = await join(hub, "bob", rule={"inbox": {"max_pending": 3, "in_flight": 1}})
        knobs = {"expectations": [{"name": "turn_within", "seconds": 60, "on_violation": "remove"}]}
        left = await open_session(alice, "bob", "carol", kind="discussion", knobs=knobs)
        other = await open_session(alice, "bob")
        await alice.send(left, "your turn, bob")
        frame = await bob.get_text()
        for _ in range(2):
            await alice.send(left, event_type="app.note")
        with pytest.raises(InboxFull):
            await alice.send(other, "no space")
        clock.advance(61)
        while not hub.table.live[left].folded.info.removed:
            await asyncio.sleep(0)
        await hub.store.flush()
        inbox = hub.delivery.inboxes.of(hub.agents.get("bob"))
        assert inbox.pending == len(inbox.waiting) == 0
        bob.ack(frame)
        await alice.send(other, "again")
        assert (await bob.get_text()).envelope.text == "again"
        assert inbox.pending == 1


async def test_a_rate_lets_a_burst_through_and_says_when_to_go_on() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice = await join(hub, "alice", rule={"rate": {"per_minute": 30, "burst": 2}})
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        await alice.send(session)
        await alice.send(session)
        with pytest.raises(RateLimited) as caught:
            await alice.send(session)
        assert caught.value.retry_after == 2.0
        clock.advance(2)
        await alice.send(session)


async def test_a_rate_holds_over_registrations_and_rules() -> None:
    rule: dict[str, Any] = {"rate": {"per_minute": 1, "burst": 1}}
    async with opened(clock=ManualClock()) as hub:
        alice, _ = await join(hub, "alice", rule=rule), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await alice.send(session)
        await alice.ask_own("set_rule", rule={**rule, "session_ttl": 60})
        with pytest.raises(RateLimited):
            await alice.send(session)
        await alice.link.close()
        alice = await join(hub, "alice", rule=rule)
        with pytest.raises(RateLimited):
            await alice.send(session)
        await alice.ask_own("set_rule", rule={"rate": {"per_minute": 1, "burst": 2}})
        await alice.send(session)


async def test_an_agent_that_has_used_up_its_rate_accepts_invitations() -> None:
    async with opened(clock=ManualClock()) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"rate": {"per_minute": 6, "burst": 1}})
        session = await open_session(alice, "bob")
        await bob.send(session)
        other = await open_session(alice, "bob")
        assert hub.table.live[other].folded.info.state == "active"
        with pytest.raises(RateLimited):
            await bob.send(other)


async def test_a_subscription_tells_what_was_and_what_is_said_and_needs_no_receipt(url: str) -> None:
    async with opened(url) as hub:
        alice, bob, carol = [await join(hub, name) for name in ("alice", "bob", "carol")]
        session = await open_session(alice, "bob", "carol", kind="discussion")
        await alice.send(session, "to all")
        await bob.send(session, "to alice", audience=[alice.agent_id])
        carol.subscribe(session)
        await carol.send(session, "live")
        told: list[str] = []
        while "live" not in told:
            frame = await carol.get()
            told += [frame.envelope.text] if frame.subscription_id and frame.envelope.text else []
        assert told == ["to all", "live"]


actions = st.lists(
    st.sampled_from(["send", "send", "ack", "ack_last", "nack", "again", "break", "pass"]), min_size=1, max_size=40
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions)
async def test_nothing_is_lost_or_out_of_order_whatever_an_agent_answers(taken: list[str]) -> None:
    """Whatever is acknowledged, refused, repeated or broken off: each envelope comes until it is acknowledged, and
    new ones in the order of the log."""
    clock = ManualClock()
    async with opened(clock=clock, limits=HubLimits(max_attempts=1000, retry=Backoff(1.0, 4.0))) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"in_flight": 3}})
        session, sent, held = await open_session(alice, "bob"), 0, list[Any]()
        acknowledged, first_seen = set[int](), list[int]()

        def take() -> None:
            while not bob.notifies.empty():
                frame = bob.notifies.get_nowait()
                if frame.envelope.event_type != EV_TEXT:
                    bob.ack(frame)
                    continue
                number = int(frame.envelope.text)
                assert number not in acknowledged
                first_seen.extend([number] if number not in first_seen else [])
                held.append(frame)

        for action in [*taken, "break", *["ack"] * 200]:
            take()
            if action == "send":
                await alice.send(session, str(sent))
                sent += 1
            elif action in ("ack", "ack_last") and held:
                frame = held.pop(0 if action == "ack" else -1)
                acknowledged.add(int(frame.envelope.text))
                held = [one for one in held if one.envelope.text != frame.envelope.text]
                bob.ack(frame)
            elif action == "again" and held:
                bob.ack(held[0])
                bob.ack(held[0])
                acknowledged.add(int(held[0].envelope.text))
                held = [one for one in held if one.envelope.text != held[0].envelope.text]
            elif action == "nack" and held:
                bob.nack(held.pop(0))
            elif action == "break":
                await bob.link.close()
                bob, held = await join(hub, "bob", rule={"inbox": {"in_flight": 3}}), []
            clock.advance(0.5)
            await asyncio.sleep(0)
        take()
        assert acknowledged == set(range(sent))
        assert first_seen == sorted(first_seen)
