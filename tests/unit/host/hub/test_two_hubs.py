"""Hubs that share a database: one log, deliveries by lease, and one that dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import create_engine, text

from agent_common.backoff import Backoff
from agent_common.protocol.hub import EV_TEXT, InboxFull, NotifyFrame, ProtocolError
from agent_host.hub import Hub, HubLimits
from agent_testing import ManualClock
from tests.unit.host.postgresql import new_database, postgresql

from .raw_link import RawLink, join, open_session, opened

LIMITS = HubLimits(lease_seconds=3.0, poll_seconds=0.2, retry=Backoff(0.05, 0.2))
SLEEPY = HubLimits(lease_seconds=3600.0, poll_seconds=3600.0)
"""Of a hub that is not told anything: as if it stood still."""


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    return new_database(server, str(abs(hash(request.node.name)))[:20])


@asynccontextmanager
async def pair(url: str, first: HubLimits = LIMITS) -> AsyncGenerator[tuple[Hub, Hub]]:
    async with opened(url, limits=first) as one, opened(url, limits=LIMITS) as other:
        yield one, other


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.01)


async def make_deaf(hub: Hub) -> None:
    """The hub gives no sign of life any more, and hears nothing of the others."""
    assert hub.peers is not None
    await hub.peers.stop()


async def test_agents_on_two_hubs_talk(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(one, "alice"), await join(other, "bob")
        session = await open_session(alice, "bob")
        for number in range(10):
            await alice.send(session, f"a{number}")
            frame = await bob.get_text()
            assert (frame.envelope.text, frame.attempt) == (f"a{number}", 1)
            bob.ack(frame)
            await bob.send(session, f"b{number}")
            answer = await alice.get_text()
            assert answer.envelope.text == f"b{number}"
            assert answer.envelope.envelope_id > frame.envelope.envelope_id
            alice.ack(answer)
        assert (await alice.ask("get_agent", name="bob"))["connected"]
        bob.subscribe(session)
        await alice.send(session, "for those who watch")
        seen: list[tuple[str, str]] = []
        while sum(text == "for those who watch" for text, _ in seen) < 2:
            frame = await bob.get()
            seen.append((frame.envelope.text, frame.subscription_id))
        assert [text for text, name in seen if name and text.startswith("a")] == [f"a{n}" for n in range(10)]
        await alice.ask_own("close", session_id=session)
        while (await bob.get()).envelope.event_type != "ag2.session.closed":
            pass
        assert (await other.queries.info(None, session)).state == "closed"
        log = (await other.queries.log(None, session, 0, 500)).envelopes
        assert [envelope.sequence for envelope in log] == list(range(1, len(log) + 1))
        assert [envelope.envelope_id for envelope in log] == sorted({envelope.envelope_id for envelope in log})


async def test_both_append_to_one_session_at_once(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(one, "alice"), await join(other, "bob")
        session = await open_session(alice, "bob")
        sends = [
            link.start_send(session, event_data={"text": str(n)}, idempotency_key=str(n))
            for n in range(30)
            for link in (alice, bob)
        ]
        ids = await asyncio.gather(*sends)
        log = (await one.queries.log(None, session, 0, 500)).envelopes
        assert [envelope.sequence for envelope in log] == list(range(1, len(log) + 1))
        assert {envelope.envelope_id for envelope in log if envelope.event_type == EV_TEXT} == set(ids)
        for link in (alice, bob):
            assert [(await link.get_text()).envelope.text for _ in range(30)] == [str(n) for n in range(30)]


async def test_an_agent_that_comes_to_another_hub_goes_on_there_and_the_old_hub_cannot_acknowledge(url: str) -> None:
    async with pair(url, SLEEPY) as (one, other):
        alice, bob = await join(other, "alice"), await join(one, "bob", key="secret")
        opening = asyncio.create_task(open_session(alice, "bob"))
        await one.peers.read_changes()  # type: ignore[union-attr]
        session = await opening
        await alice.send(session, "first")
        await one.peers.read_changes()  # type: ignore[union-attr]
        old = await bob.get_text()
        with pytest.raises(ProtocolError, match="bob is registered and connected"):
            await join(other, "bob", key="wrong")
        again = await join(other, "bob", key="secret")
        assert again.agent_id == bob.agent_id
        frame = await again.get_text()
        assert (frame.envelope.text, frame.attempt) == ("first", 2)
        bob.ack(old)  # the old hub does not know yet that its lease has passed on
        one.delivery.inboxes.save_all()
        await one.store.flush()
        third = await join(other, "bob", key="secret")
        assert (await third.get_text()).envelope.text == "first"
        await one.peers.read_changes()  # type: ignore[union-attr]
        assert not one.agents.get("bob").is_held
        assert one.delivery.endpoint(one.agents.get("bob")) is None


async def test_a_hub_that_is_late_delivers_nothing_until_it_knows_its_leases(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(other, "alice"), await join(one, "bob")
        session = await open_session(alice, "bob")
        bob.ack(await bob.get())  # that it is open
        await make_deaf(one)
        assert one.peers is not None
        await until(lambda: _is(not one.peers.holds()))  # type: ignore[union-attr]
        await alice.send(session, "first")
        await one.peers.read_changes()
        await one.store.flush()
        assert bob.waiting() == []
        one.peers.start()
        frame = await bob.get_text()
        assert frame.envelope.text == "first"
        bob.ack(frame)
        await alice.send(session, "second")
        assert (await bob.get_text()).envelope.text == "second"


async def _is(value: bool) -> bool:
    return value


async def test_what_a_dead_hub_leaves_is_looked_after(url: str) -> None:
    clock = ManualClock()
    async with opened(url, limits=LIMITS, clock=clock) as other:
        one = await Hub.open(url, limits=LIMITS, clock=clock)
        try:
            alice = await join(one, "alice")
            await join(one, "bob")
            session = await open_session(alice, "bob", ttl=1000)
            await make_deaf(one)  # it dies without a word
            one.lifecycle.deadlines.close()
            again = await join(other, "alice")  # who has no key waits for the end of the lease
            assert again.agent_id == alice.agent_id
            await again.send(session, "still here")
            clock.advance(1000)
            await until(lambda: _is_over(other, session))
            assert (await other.queries.info(None, session)).close_reason == "ttl_expired"
        finally:
            await one.close()


async def _is_over(hub: Hub, session_id: str) -> bool:
    return (await hub.queries.info(None, session_id)).is_over


async def test_a_doorbell_that_is_broken_delays_and_loses_nothing(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(one, "alice"), await join(other, "bob")
        session = await open_session(alice, "bob")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        with engine.connect() as connection:
            assert len(connection.execute(text(query)).all()) == 2
        engine.dispose()
        for number in range(3):
            await alice.send(session, str(number))
            assert (await bob.get_text()).envelope.text == str(number)


async def test_an_inbox_on_another_hub_is_bounded(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(one, "alice"), await join(other, "bob", rule={"inbox": {"max_pending": 2}})
        session = await open_session(alice, "bob")
        await alice.send(session)
        await alice.send(session)
        with pytest.raises(InboxFull):
            await alice.send(session)
        bob.ack(await bob.get_text())
        bob.ack(await bob.get_text())
        await until(lambda: _accepts(alice, session))


async def _accepts(link: RawLink, session: str) -> bool:
    try:
        await link.send(session)
    except InboxFull:
        return False
    return True


async def test_one_of_them_acts_upon_what_is_overdue(url: str) -> None:
    expectations = [
        {"name": "max_silence", "seconds": 0.3, "on_violation": "audit"},
        {"name": "max_silence", "seconds": 0.6, "on_violation": "notify_session"},
        {"name": "max_silence", "seconds": 1.0, "on_violation": "auto_close"},
    ]
    async with pair(url) as (one, other):
        alice, _bob = await join(one, "alice"), await join(other, "bob")
        session = await open_session(alice, "bob", knobs={"expectations": expectations})
        await until(lambda: _is_over(one, session))
        await until(lambda: _is_over(other, session))
        await one.store.flush()
        await other.store.flush()
        rows = [row for _, row in await one.store.audit(0, 99) if row.session_id == session]
        assert sorted(row.kind for row in rows) == [*["expectation_violated"] * 3, "session_closed", "session_created"]
        log = (await one.queries.log(None, session, 0, 500)).envelopes
        assert [one.event_type for one in log][-2:] == ["ag2.expectation.violated", "ag2.session.closed"]
        assert [one.sequence for one in log] == list(range(1, 6))


async def test_an_agent_that_is_taken_off_one_hub_is_known_to_no_other(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(one, "alice"), await join(other, "bob")
        session = await open_session(alice, "bob")
        await one.forget("bob")
        while (frame := await alice.get()).envelope.event_type != "ag2.session.closed":
            pass
        assert frame.envelope.event_data == {"reason": "participant_unregistered"}
        await until(lambda: _is(other.agents.find("bob") is None))
        with pytest.raises(ProtocolError):
            await alice.send(session)
        again = await join(other, "bob")
        assert again.agent_id != bob.agent_id
        assert not [one for one in list(again.others._queue) if isinstance(one, NotifyFrame)]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- tasks


async def test_tasks_are_the_same_on_all_hubs(url: str) -> None:
    async with pair(url) as (one, other):
        alice, bob = await join(one, "alice"), await join(other, "bob")
        session = await open_session(alice, "bob")
        for name in ("t", "u"):
            await alice.ask_own("observe_task", task_id=name, session_id=session)
        asked = await bob.ask_own("cancel_task", task_id="t", reason="enough")
        assert asked["cancel_requested_by"] == [bob.agent_id]
        assert (await alice.ask_own("get_task", task_id="t")) == asked
        changes = [
            change
            for n in range(5)
            for change in (
                alice.ask_own("update_task", task_id="u", progress=n),
                other.tasks.cancel(None, "u", "stop"),
            )
        ]
        await asyncio.gather(*changes, return_exceptions=True)
        assert (await alice.ask_own("get_task", task_id="u"))["state"] == "cancelled"
        await alice.ask_own("close", session_id=session)
        async with asyncio.timeout(60):
            while (await bob.ask_own("get_task", task_id="t"))["state"] != "expired":
                await asyncio.sleep(0.05)
        with pytest.raises(ProtocolError):
            await bob.ask_own("observe_task", task_id="late", session_id=session)
