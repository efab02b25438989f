"""What a hub knows again after its process has ended."""

from __future__ import annotations

import pytest

from agent_common.backoff import Backoff
from agent_common.protocol.hub import SESSION_TYPES, InboxFull, ProtocolError
from agent_host.hub import HubLimits
from agent_testing import ManualClock

from .raw_link import join, open_session, opened


async def test_a_restart_reads_the_tail_of_a_log_only(file_url: str) -> None:
    limits = HubLimits(snapshot_every=8, page=8)
    async with opened(file_url, limits=limits) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob", kind="discussion")
        for _ in range(25):
            await alice.send(session)
            bob.ack(await bob.get_text())
            await bob.send(session)
            alice.ack(await alice.get_text())
    async with opened(file_url, limits=limits) as hub:
        await join(hub, "bob")
        alice = await join(hub, "alice")
        await alice.send(session, "goes on")
        assert hub.store.envelopes_read < 8 + 2  # the tail, and what is delivered
        with pytest.raises(ProtocolError, match="it is not the turn of"):
            await alice.send(session)


async def test_a_restart_reads_the_tail_only_also_for_who_speaks_all_the_time(file_url: str) -> None:
    limits = HubLimits(snapshot_every=8, page=8)
    async with opened(file_url, limits=limits) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        alice.ack(await alice.get())
        for _ in range(50):
            await alice.send(session)
            bob.ack(await bob.get_text())
    async with opened(file_url, limits=limits) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        await bob.send(session, "goes on")
        assert (await alice.get_text()).envelope.text == "goes on"  # after all that she is not sent
        assert hub.store.envelopes_read < 2 * 8 + 2


async def test_deliveries_go_on_where_they_were(file_url: str) -> None:
    limits = HubLimits(max_attempts=3, retry=Backoff(1.0, 60.0))
    clock = ManualClock()
    async with opened(file_url, clock=clock, limits=limits) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        for text in ("one", "two", "three", "four"):
            await alice.send(session, text)
        frames = [await bob.get_text(), await bob.get(), await bob.get(), await bob.get()]
        bob.ack(frames[0])
        bob.ack(frames[2])
        bob.nack(frames[1])
    async with opened(file_url, clock=clock, limits=limits) as hub:
        bob = await join(hub, "bob")
        again = [await bob.get_text(), await bob.get()]
        assert [(one.envelope.text, one.attempt) for one in again] == [("two", 2), ("four", 2)]
        bob.nack(again[0])
        clock.advance(5)
        bob.nack(await bob.get())
        assert (await bob.others.get()).kind == "error"  # the third time: a dead letter


async def test_inboxes_limits_and_deadlines_hold_after_a_restart(file_url: str) -> None:
    clock = ManualClock()
    rule = {"inbox": {"max_pending": 2}}
    async with opened(file_url, clock=clock) as hub:
        alice, bob = await join(hub, "alice", rule={"max_concurrent_sessions": 1}), await join(hub, "bob", rule=rule)
        session = await open_session(alice, "bob", ttl=100)
        await alice.send(session)
        await alice.send(session)
        bob.ack(await bob.get_text())
    async with opened(file_url, clock=clock) as hub:
        alice = await join(hub, "alice", rule={"max_concurrent_sessions": 1})
        assert len(hub.agents.get("alice").opened) == 1
        await alice.send(session)
        with pytest.raises(InboxFull):
            await alice.send(session)
        clock.advance(100)
        info = await hub.queries.info(None, session)
        assert (info.state, info.close_reason) == ("expired", "ttl_expired")


async def test_the_oldest_is_that_of_all_sessions_also_after_a_restart(file_url: str) -> None:
    rule = {"inbox": {"max_pending": 4, "overflow": "drop_oldest"}}
    async with opened(file_url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule=rule)
        sessions = [await open_session(alice, "bob") for _ in range(2)]
        await bob.link.close()
        for number in range(4):
            await alice.send(sessions[number % 2], str(number))
    async with opened(file_url) as hub:
        alice = await join(hub, "alice")
        for number in (4, 5):
            await alice.send(sessions[0], str(number))
        bob = await join(hub, "bob", rule=rule)
        assert {(await bob.get_text()).envelope.text for _ in range(4)} == {"2", "3", "4", "5"}


async def test_what_the_log_asks_for_is_done_after_a_crash(file_url: str) -> None:
    """The answer of a consultation is on disk, and the hub has died before it closed the session."""
    async with opened(file_url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob", kind="consulting")
        await alice.send(session)
        live = await hub.table.get(session)
        hub.lifecycle.deadlines.close()
        hub.posting.on_appended = lambda _session: None  # the hub dies here
        await bob.send(session)
        assert live.folded.info.state == "active"
    async with opened(file_url) as hub:
        await hub.store.flush()
        info = await hub.queries.info(None, session)
        assert (info.state, info.close_reason) == ("closed", "consulting_complete")


async def test_a_session_that_cannot_be_read_stops_no_other(file_url: str) -> None:
    """It is of a type that only another program knows."""
    types = {**SESSION_TYPES, "party": SESSION_TYPES["conversation"]}
    bounded = {"inbox": {"max_pending": 9}}
    async with opened(file_url, types=types) as hub:
        alice, _ = await join(hub, "alice"), await join(hub, "bob", rule=bounded)
        unknown, known = await open_session(alice, "bob", kind="party"), await open_session(alice, "bob")
        await alice.send(unknown, "lost here")
        await alice.send(known, "kept")
    async with opened(file_url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule=bounded)
        assert (await bob.get_text()).envelope.text == "kept"
        await alice.send(known)
        with pytest.raises(ProtocolError, match="does not know the type party"):
            await alice.send(unknown)
        await bob.ask_own("unregister")
        assert hub.agents.find("bob") is None


async def test_a_repeated_send_is_known_after_a_restart_although_the_session_is_over(file_url: str) -> None:
    async with opened(file_url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob", kind="consulting")
        first = await alice.send(session, "why", idempotency_key="q")
        await bob.send(session, "because")
    async with opened(file_url) as hub:
        alice = await join(hub, "alice")
        assert await alice.send(session, "why", idempotency_key="q") == first
        with pytest.raises(ProtocolError, match="is closed"):
            await alice.send(session, "why", idempotency_key="other")


async def test_agents_and_their_rules_are_kept(url: str) -> None:
    async with opened(url) as hub:
        first = await join(hub, "alice", resume={"summary": "Adds numbers.", "claimed_capabilities": ["sum"]})
        await join(hub, "bob")
        with pytest.raises(ProtocolError, match="alice is registered and connected; choose another"):
            await join(hub, "alice")
        with pytest.raises(ProtocolError, match="hub is the hub itself"):
            await join(hub, "hub")
        assert [one["passport"]["name"] for one in await first.ask("list_agents")] == ["alice", "bob"]
        assert [one["passport"]["name"] for one in await first.ask("list_agents", capability="sum")] == ["alice"]
        assert [one["passport"]["name"] for one in await first.ask("list_agents", text="NUMBERS")] == ["alice"]
        assert [one["passport"]["name"] for one in await first.ask("list_agents", after="alice")] == ["bob"]
        await first.link.close()
        assert (await join(hub, "alice")).agent_id == first.agent_id


async def test_an_agent_that_is_unregistered_leaves_its_sessions(url: str) -> None:
    async with opened(url) as hub:
        alice, bob, carol = [await join(hub, name) for name in ("alice", "bob", "carol")]
        pair = await open_session(alice, "bob")
        three = await open_session(alice, "bob", "carol", kind="discussion")
        await bob.ask_own("unregister")
        await hub.store.flush()
        assert (await hub.queries.info(None, pair)).close_reason == "participant_unregistered"
        await alice.send(three, "without bob")
        assert (await carol.get_text()).envelope.text == "without bob"
        assert await alice.ask("can_send", session_id=three, agent_id=carol.agent_id)
        assert (await join(hub, "bob")).agent_id != bob.agent_id
        kinds = [row.kind for _, row in await hub.store.audit(0, 99)]
        assert {"agent_registered", "agent_unregistered", "session_created", "session_closed"} <= set(kinds)


async def test_a_link_of_one_identity_speaks_for_nobody_else() -> None:
    async with opened() as hub:
        first = await join(hub, "alice", identity="alice")
        with pytest.raises(Exception, match="this link is of alice, and cannot register bob"):
            await first.ask("register", passport={"name": "bob"})
        again = await join(hub, "alice", identity="alice")  # a reconnect takes over
        assert again.agent_id == first.agent_id
