"""The way into the log: once for each key, in one order, whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent_common.backoff import Backoff
from agent_common.protocol.hub import (
    EV_SESSION_CLOSED,
    EV_TEXT,
    AccessDeniedError,
    Conversation,
    Envelope,
    HubUnavailable,
    NetworkError,
    ProtocolError,
    RateLimited,
)
from agent_host.hub import Hub, HubLimits
from agent_host.hub.store import AgentRemoval, MemoryStore, Submission
from agent_testing import ManualClock

from .raw_link import RawLink, join, open_session, opened


async def texts(hub: Hub, session: str) -> list[str]:
    page = await hub.queries.log(None, session, 0, 500)
    assert [one.sequence for one in page.envelopes] == list(range(1, len(page.envelopes) + 1))
    return [one.text for one in page.envelopes if one.text]


async def test_a_key_is_stored_once_and_gives_the_first_id(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob", kind="consulting")
        question: dict[str, Any] = {"idempotency_key": "q", "event_data": {"text": "why", "now": True}}
        first, second = [await one for one in [alice.start_send(session, **question, trace_id=t) for t in "ab"]]
        assert first == second == await alice.start_send(session, **question)
        for other in ({"text": "why not", "now": True}, {"text": "why", "now": 1}):
            with pytest.raises(ProtocolError, match="idempotency_key: another envelope of yours"):
                await alice.start_send(session, idempotency_key="q", event_data=other)
        await bob.send(session, "because", idempotency_key="q")  # another sender's key
        assert await alice.start_send(session, **question) == first  # although the session is over
        assert await texts(hub, session) == ["why", "because"]


async def test_a_key_that_was_stored_long_ago_is_found(url: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        first = await alice.send(session, "first", idempotency_key="k")
        await asyncio.gather(*(alice.start_send(session, idempotency_key=f"k{n}") for n in range(300)))
        again = [alice.start_send(session, event_data={"text": text}) for text in ("before", "after")]
        repeated = alice.start_send(session, event_data={"text": "first"}, idempotency_key="k")
        assert await repeated == first
        await asyncio.gather(*again)
        assert await texts(hub, session) == ["first", "before", "after"]


async def test_a_repeated_key_gives_the_first_id_whatever_the_rate(url: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice", rule={"rate": {"per_minute": 1, "burst": 2}})
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        sends = [alice.start_send(session, idempotency_key="k", trace_id=one) for one in "abc"]
        first = await sends[0]
        assert {await one for one in sends} == {first}
        with pytest.raises(RateLimited):
            await alice.send(session, "another", idempotency_key="l")
        hub.table.live[session].keys.clear()  # as after many others
        assert await alice.start_send(session, idempotency_key="k") == first


class ForgetfulStore(MemoryStore):
    """A store whose keys cannot be read."""

    async def find_key(self, session_id: str, sender_id: str, key: str) -> Envelope | None:
        raise OSError("the database is away")


async def test_who_repeats_a_key_that_cannot_be_looked_up_is_told() -> None:
    hub = await Hub.open_store(ForgetfulStore())
    alice, _ = await join(hub, "alice"), await join(hub, "bob")
    session = await open_session(alice, "bob", kind="discussion")
    await alice.send(session, "first", idempotency_key="k")
    with pytest.raises(HubUnavailable) as caught:
        await alice.send(session, "out of turn", idempotency_key="l")
    assert caught.value.retry_after == 1.0
    await hub.close()


@pytest.mark.parametrize(
    ("fields", "kind", "fault"),
    [
        ({"event_data": {"text": "x" * (1 << 20)}}, ProtocolError, "event_data: an envelope may have 1048576 bytes"),
        ({"audience": ["nobody"]}, ProtocolError, "audience: nobody does not take part"),
        ({"event_type": "ag2.session.closed"}, ProtocolError, "only the hub sends"),
        ({"idempotency_key": "a\0"}, ProtocolError, "idempotency_key: may not contain the character NUL"),
        ({"causation_id": "\0"}, ProtocolError, "causation_id: may not contain the character NUL"),
    ],
)
async def test_what_is_not_stored(url: str, fields: dict[str, Any], kind: type[Exception], fault: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        with pytest.raises(kind, match=fault):
            await alice.start_send(session, **fields)
        assert await texts(hub, session) == []


async def test_what_is_no_json_is_refused() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        with pytest.raises(ProtocolError, match="event_data: is not JSON"):
            await alice.start_send(session, event_data={"text": object()})


class Brittle(Conversation):
    """A type that fails at some texts."""

    def validate_send(self, state: Any, envelope: Envelope) -> None:
        assert envelope.text != "not allowed"

    def fold(self, state: Any, envelope: Envelope) -> Any:
        assert envelope.text != "not folded"
        return super().fold(state, envelope)


async def test_what_the_type_of_a_session_fails_at_is_refused_and_counts_nowhere() -> None:
    async with opened(types={"conversation": Brittle()}) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"max_pending": 1}})
        session = await open_session(alice, "bob")
        for text in ("not folded", "not folded", "not allowed"):
            with pytest.raises(NetworkError, match="the session's type cannot take this"):
                await alice.send(session, text)
        await alice.send(session, "fine")
        assert (await bob.get_text()).envelope.text == "fine"
        assert await texts(hub, session) == ["fine"]


async def test_two_hubs_on_one_database_append_to_one_log(file_url: str) -> None:
    """Each believes that it knows the log; what it appends must fit the log as it is, and nothing comes twice."""
    async with opened(file_url) as one, opened(file_url) as other:
        alice = await join(one, "alice")
        await join(one, "bob")
        session = await open_session(alice, "bob")
        await one.store.flush()
        await other.registry.load()
        bob = await join(other, "bob")
        sends = [
            link.start_send(session, event_data={"text": f"{n} of {link.agent_id}"})
            for n in range(20)
            for link in (alice, bob)
        ]
        ids = await asyncio.gather(*sends)
        assert len(set(ids)) == 40
        found = await texts(one, session)
        for link in (alice, bob):
            mine = [text for text in found if text.endswith(link.agent_id)]
            assert mine == [f"{n} of {link.agent_id}" for n in range(20)]


async def test_what_follows_a_lost_race_follows_in_the_log_too(file_url: str) -> None:
    """The first of five has lost its place to another hub: the log has no gap, and the five keep their order."""
    async with opened(file_url) as one, opened(file_url) as other:
        alice = await join(one, "alice")
        await join(one, "bob")
        session = await open_session(alice, "bob")
        await one.store.flush()
        await other.registry.load()
        bob = await join(other, "bob")
        await other.table.get(session)
        await alice.send(session, "first")
        await asyncio.gather(*(bob.start_send(session, event_data={"text": str(n)}) for n in range(5)))
        assert await texts(one, session) == ["first", *map(str, range(5))]


async def test_a_turn_that_another_hub_has_taken_is_refused(file_url: str) -> None:
    async with opened(file_url) as one, opened(file_url) as other:
        alice = await join(one, "alice")
        await join(one, "bob")
        session = await open_session(alice, "bob", kind="discussion")
        await one.store.flush()
        await other.registry.load()
        twin = await join(other, "alice")
        await other.table.get(session)
        results = await asyncio.gather(
            alice.start_send(session, event_data={"text": "mine"}),
            twin.start_send(session, event_data={"text": "mine too"}),
            return_exceptions=True,
        )
        assert sorted(type(one).__name__ for one in results) == ["ProtocolError", "str"]
        assert len(await texts(one, session)) == 1


class FailingStore(MemoryStore):
    """A store whose disk may be full."""

    is_full = False

    def submit(self, submission: Submission) -> None:
        if not self.is_full:
            super().submit(submission)
        elif submission.on_written is not None:
            asyncio.get_running_loop().call_soon(submission.on_written, OSError("disk full"))


async def test_a_write_that_fails_leaves_no_trace() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"max_pending": 2}})
    session = await open_session(alice, "bob", kind="discussion")
    store.is_full = True
    for _ in range(3):
        with pytest.raises(HubUnavailable, match="cannot store") as caught:
            await alice.send(session, "lost")
        assert caught.value.retry_after == 1.0
    store.is_full = False
    await alice.send(session, "kept")
    assert (await bob.get_text()).envelope.text == "kept"
    assert await texts(hub, session) == ["kept"]
    await hub.close()


class UnreadableStore(FailingStore):
    """A full disk whose log cannot be read for a while."""

    failures = 0

    async def log(self, session_id: str, after: int, limit: int) -> list[Envelope]:
        if self.failures > 0:
            self.failures -= 1
            raise OSError("the database is away")
        return await super().log(session_id, after, limit)


async def test_a_session_that_cannot_be_read_is_read_again_after_pauses_that_grow() -> None:
    store = UnreadableStore()
    longest: list[float] = []

    def draw(least: float, most: float) -> float:
        longest.append(most)
        return 0.0

    hub = await Hub.open_store(store, limits=HubLimits(reread=Backoff(1.0, 15.0, draw=draw)))
    alice, bob = await join(hub, "alice"), await join(hub, "bob")
    session = await open_session(alice, "bob")
    store.is_full = True
    store.failures = 6
    with pytest.raises(HubUnavailable):
        await alice.send(session, "lost")
    store.is_full = False
    await alice.send(session, "kept")
    assert (await bob.get_text()).envelope.text == "kept"
    assert longest == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    await hub.close()


async def test_what_was_dropped_in_a_write_that_failed_takes_the_number_of_nothing() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    rule = {"inbox": {"max_pending": 1, "overflow": "drop_newest"}}
    alice, bob = await join(hub, "alice"), await join(hub, "bob", rule=rule)
    session = await open_session(alice, "bob")
    await alice.send(session, "first")
    store.is_full = True
    with pytest.raises(HubUnavailable):
        await alice.send(session, "dropped, and not stored")
    store.is_full = False
    bob.ack(await bob.get_text())
    await alice.send(session, "second")
    frame = await bob.get_text()
    assert frame.envelope.text == "second"
    bob.ack(frame)
    assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 0
    await hub.close()


async def test_a_write_that_fails_drops_nothing_that_was_there_before() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    rule = {"inbox": {"max_pending": 2, "overflow": "drop_oldest", "in_flight": 1}}
    alice, bob = await join(hub, "alice"), await join(hub, "bob", rule=rule)
    session = await open_session(alice, "bob")
    await alice.send(session, "in flight")
    await alice.send(session, "1")
    store.is_full = True
    with pytest.raises(HubUnavailable):
        await alice.send(session, "lost")
    store.is_full = False
    bob.ack(await bob.get_text())
    await alice.send(session, "2")
    for text in ("1", "2"):
        frame = await bob.get_text()
        assert frame.envelope.text == text
        bob.ack(frame)
    assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 0
    await hub.close()


class CursorStore(FailingStore):
    """A store that writes how far agents have come, before it refuses an envelope and after that."""

    save_all: Callable[[], None]

    def submit(self, submission: Submission) -> None:
        if submission.on_written is None:
            MemoryStore.submit(self, submission)
            return
        if self.is_full:
            self.save_all()
        super().submit(submission)


async def test_nor_if_it_is_on_disk_and_the_hub_dies() -> None:
    store = CursorStore()
    hub = await Hub.open_store(store)
    rule = {"inbox": {"max_pending": 1, "overflow": "drop_newest"}}
    alice, _ = await join(hub, "alice"), await join(hub, "bob", rule=rule)
    session = await open_session(alice, "bob")
    await alice.send(session, "first")
    store.save_all, store.is_full = hub.delivery.inboxes.save_all, True
    with pytest.raises(HubUnavailable):
        await alice.send(session, "dropped, and not stored")
    store.is_full = False
    hub.delivery.inboxes.save_all()
    again = await Hub.open_store(store)
    alice, bob = await join(again, "alice"), await join(again, "bob", rule=rule)
    bob.ack(await bob.get_text())
    async with asyncio.timeout(60):
        while again.delivery.inboxes.of(again.agents.get("bob")).pending:
            await asyncio.sleep(0)
    await alice.send(session, "second")
    assert (await bob.get_text()).envelope.text == "second"
    for one in (hub, again):
        await one.close()


async def test_a_session_that_cannot_be_stored_is_not_opened() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    alice, _ = await join(hub, "alice", rule={"max_concurrent_sessions": 1}), await join(hub, "bob")
    store.is_full = True
    openings = [asyncio.create_task(open_session(alice, "bob", key="k")) for _ in range(2)]
    for opening in openings:
        with pytest.raises(HubUnavailable, match="cannot store") as caught:
            await opening
        assert caught.value.retry_after == 1.0
    store.is_full = False
    creator = hub.agents.get("alice")
    assert (len(creator.opened), creator.opened.total_bytes, hub.table.live) == (0, 0, {})
    session = await open_session(alice, "bob", key="k")
    await alice.send(session, "kept")
    assert await texts(hub, session) == ["kept"]
    await hub.close()


async def test_a_session_that_cannot_be_closed_stays_open() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    alice, bob = await join(hub, "alice"), await join(hub, "bob")
    session = await open_session(alice, "bob")
    store.is_full = True
    for closing in (alice.ask_own("close", session_id=session), bob.ask_own("unregister")):
        with pytest.raises(HubUnavailable, match="cannot store"):
            await closing
    store.is_full = False
    assert not (await hub.queries.info(None, session)).is_over
    await asyncio.gather(*(alice.ask_own("close", session_id=session, reason=reason) for reason in ("done", "later")))
    assert (await hub.queries.info(None, session)).close_reason == "done"
    await hub.close()


async def test_a_session_is_closed_although_another_hub_has_gone_on(file_url: str) -> None:
    async with opened(file_url) as one, opened(file_url) as other:
        alice = await join(one, "alice")
        await join(one, "bob")
        session = await open_session(alice, "bob")
        await one.store.flush()
        await other.registry.load()
        stale = await other.table.get(session)
        await alice.send(session, "first")
        await other.lifecycle.close(stale, "by the operator", None)
        log = (await one.queries.log(None, session, 0, 500)).envelopes
        assert [envelope.event_type for envelope in log][-2:] == [EV_TEXT, EV_SESSION_CLOSED]


async def test_an_agent_that_could_not_leave_gets_what_is_said_and_leaves_later() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    alice, bob = await join(hub, "alice"), await join(hub, "bob")
    session = await open_session(alice, "bob")
    store.is_full = True
    with pytest.raises(HubUnavailable):
        await bob.ask_own("unregister")
    store.is_full = False
    await alice.send(session, "still there?")
    assert (await bob.get_text()).envelope.text == "still there?"
    await bob.ask_own("unregister")
    await bob.ask("register", passport={"name": "carol"})
    assert await bob.ask("sessions", agent_id="") == []
    await hub.close()


async def test_an_agent_that_could_not_be_removed_is_still_registered_and_is_removed_later() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    alice, bob = await join(hub, "alice"), await join(hub, "bob")
    store.is_full = True
    with pytest.raises(HubUnavailable, match="cannot store"):
        await bob.ask_own("unregister")
    store.is_full = False
    session = await open_session(alice, "bob")
    await alice.send(session, "still there?")
    assert (await bob.get_text()).envelope.text == "still there?"
    await bob.ask_own("unregister")
    await join(hub, "bob")
    assert len(await store.agents()) == 2
    await hub.close()


class SlowStore(MemoryStore):
    """A store that says late that an agent is removed."""

    removed: Submission | None = None

    def submit(self, submission: Submission) -> None:
        if any(isinstance(row, AgentRemoval) for row in submission.rows):
            self.removed, submission = submission, Submission(submission.rows)
        super().submit(submission)


async def test_an_agent_that_is_being_removed_is_not_stored_again() -> None:
    store = SlowStore()
    hub = await Hub.open_store(store)
    alice = await join(hub, "alice")
    leaving = asyncio.create_task(alice.ask_own("unregister"))
    async with asyncio.timeout(60):
        while store.removed is None:
            await asyncio.sleep(0)
    for asking in (alice.ask_own("set_rule", rule={}), alice.ask_own("set_resume", resume={}), join(hub, "alice")):
        with pytest.raises(HubUnavailable, match="alice is being unregistered") as caught:
            await asking
        assert caught.value.retry_after == 1.0
    assert store.removed.on_written is not None
    store.removed.on_written(None)
    await leaving
    assert await store.agents() == []
    await hub.close()


async def test_an_agent_that_cannot_be_stored_is_not_registered() -> None:
    store = FailingStore()
    hub = await Hub.open_store(store)
    store.is_full = True
    with pytest.raises(HubUnavailable, match="the hub cannot store this: disk full"):
        await join(hub, "alice")
    store.is_full = False
    assert hub.agents.find("alice") is None
    await join(hub, "alice")
    await hub.close()


async def test_an_agent_whose_link_breaks_while_it_is_stored_may_register_again(url: str) -> None:
    async with opened(url) as hub:
        link = RawLink(hub)
        asking = asyncio.create_task(link.ask("register", passport={"name": "alice"}))
        async with asyncio.timeout(60):
            while hub.agents.find("alice") is None:
                await asyncio.sleep(0)
        await link.link.close()
        asking.cancel()
        await hub.store.flush()
        alice = await join(hub, "alice")
        assert [one.agent_id for one in await hub.store.agents()] == [alice.agent_id]


async def test_ids_rise_when_the_clock_goes_back_and_after_a_restart(file_url: str) -> None:
    clock = ManualClock()
    async with opened(file_url, clock=clock) as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        ids = [await alice.send(session)]
        clock.set_wall(clock.now_ms() - 3_600_000)
        ids.append(await alice.send(session))
    async with opened(file_url, clock=clock) as hub:
        alice = await join(hub, "alice")
        ids.append(await alice.send(session))
    assert ids == sorted(set(ids))


async def test_the_hub_can_be_used_without_a_link() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        stored = await hub.post(alice.agent_id, Envelope(session_id=session, event_type="app.note"))
        page = await hub.queries.log(None, session, 0, 500)
        assert page.envelopes[-1].envelope_id == stored
        with pytest.raises(AccessDeniedError):
            await hub.post((await join(hub, "eve")).agent_id, Envelope(session_id=session, event_type="app.note"))
