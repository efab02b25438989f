"""What one agent can make the hub spend: time of all others, memory, or the writes of others."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from pydantic_core import from_json

from agent_common.protocol.hub import EV_CONTEXT_SET, MAX_ENVELOPE, NetworkError, ProtocolError, RateLimited
from agent_host.hub import Hub, HubLimits, LinkRights
from agent_host.hub.links import SocketLink
from agent_host.hub.links.connection import MOST_UNWRITTEN
from agent_host.hub.store import MemoryStore, Submission

from .raw_link import RawLink, join, open_session, opened

MOST_SECONDS = 20.0
"""Of the processor; without the bounds it would be minutes."""
HUGE = 10**300
NUMBERS: list[dict[str, Any]] = [
    {"ttl": float(HUGE)},
    {"ttl": 1e308},
    {"knobs": {"expectations": [{"name": "max_silence", "seconds": 1e300, "on_violation": "audit"}]}},
]


@pytest.mark.parametrize("params", NUMBERS)
async def test_times_beyond_all_bounds_are_refused_and_nobody_else_waits(file_url: str, params: dict[str, Any]) -> None:
    async with opened(file_url) as hub:
        evil, alice = await join(hub, "evil"), await join(hub, "alice")
        bob = await join(hub, "bob")
        session = await open_session(alice, "bob")
        opening = asyncio.create_task(open_session(evil, "bob", **params))
        posts = [alice.start_send(session, event_data={"text": str(n)}) for n in range(20)]
        with pytest.raises(ProtocolError, match="less than or equal"):
            await opening
        assert all(await asyncio.gather(*posts))
        assert await open_session(alice, "bob", ttl=3600), "the hub still looks at what is due"
        assert bob.agent_id


async def test_a_row_that_no_database_takes_fails_nobody_else(file_url: str) -> None:
    async with opened(file_url) as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        row = (await hub.store.agents())[0]._replace(registered_at=HUGE)
        hub.store.submit(Submission((row,)))  # nobody waits for it, so that it shares the next commit
        assert await alice.send(session, "mine")


@pytest.mark.parametrize("field", ["per_minute", "burst"])
async def test_rates_beyond_all_bounds_are_refused(field: str) -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        with pytest.raises(ProtocolError, match=field):
            await alice.ask_own("set_rule", rule={"rate": {"per_minute": 1, field: 10**400}})


async def test_patterns_of_a_rule_that_take_long_to_prepare_are_refused() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        with pytest.raises(ProtocolError, match=r"rule\.access\.inbound_from\.0: a pattern has at most"):
            await alice.ask_own("set_rule", rule={"access": {"inbound_from": ["a*" * 99]}})


async def workflow(hub: Hub) -> tuple[RawLink, str]:
    alice = await join(hub, "alice")
    await join(hub, "bob")
    return alice, await open_session(alice, "bob", kind="workflow")


async def test_variables_are_deleted_at_the_cost_of_their_number() -> None:
    async with opened() as hub:
        alice, session = await workflow(hub)
        names = [f"v{n}" for n in range(20_000)]
        await alice.send(session, event_type=EV_CONTEXT_SET, event_data={"set": dict.fromkeys(names, 0)})
        began = time.process_time()
        gone = [f"w{n}" for n in range(45_000)]
        await alice.send(session, event_type=EV_CONTEXT_SET, event_data={"delete": gone})
        assert time.process_time() - began < MOST_SECONDS


async def test_variables_of_a_workflow_do_not_grow_without_end() -> None:
    async with opened() as hub:
        alice, session = await workflow(hub)
        for n in range(3):
            await alice.send(session, event_type=EV_CONTEXT_SET, event_data={"set": {f"v{n}": "x" * 2**16}})
        with pytest.raises(ProtocolError, match="the variables may have"):
            await alice.send(session, event_type=EV_CONTEXT_SET, event_data={"set": {"last": "x" * 2**16}})


async def test_what_a_session_is_opened_with_is_bounded() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        with pytest.raises(ProtocolError, match="knobs: they and the labels may have"):
            await open_session(alice, "bob", knobs={"context_vars": {"a": "x" * 2**16}})


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_a_full_inbox_of_an_agent_that_is_away_stays_small_on_disk(overflow: str) -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"max_pending": 3}})
        await bob.ask_own("set_rule", rule={"inbox": {"max_pending": 3, "overflow": overflow}})
        session = await open_session(alice, "bob")
        await bob.link.close()
        for number in range(200):
            await alice.send(session, str(number))
        hub.delivery.inboxes.save_all()
        await hub.store.flush()
        stored = await hub.store.session(session)
        assert stored is not None
        [row] = [one for one in stored.cursors if one.agent_id == bob.agent_id]
        assert len(from_json(row.acked_above)) == 1


async def test_a_page_of_sessions_is_bounded_by_what_they_hold(url: str) -> None:
    async with opened(url) as hub:
        alice, _ = await join(hub, "alice"), await join(hub, "bob")
        made: list[str] = []
        for number in range(27):  # the last page is full, too
            labels = {"note": "x" * 60_000, "number": str(number)}
            made.append(await open_session(alice, "bob", labels=labels))
            await alice.ask_own("close", session_id=made[-1])
        pages, after = list[list[str]](), ""
        while after is not None:
            page, after = await hub.queries.infos(None, after, 500)
            pages.append([one.session_id for one in page])
        assert len(pages) > 2
        assert all(pages)
        assert [one for page in pages for one in page] == sorted(made)


async def test_open_sessions_of_one_agent_are_bounded_by_what_they_hold() -> None:
    async with opened(limits=HubLimits(opened_bytes=160_000)) as hub:
        alice, knobs = await join(hub, "alice"), {"context_vars": {"a": "x" * 2**15}}
        await join(hub, "bob")
        opens = [await open_session(alice, "bob", kind="workflow", knobs=knobs) for _ in range(2)]
        with pytest.raises(RateLimited, match="close some"):
            await open_session(alice, "bob", kind="workflow", knobs=knobs)
        for session in opens:
            await alice.ask_own("close", session_id=session)
        assert hub.agents.get("alice").opened.total_bytes == 0
        assert await open_session(alice, "bob", kind="workflow", knobs=knobs)


async def test_variables_of_open_sessions_are_bounded_together(file_url: str) -> None:
    """Whoever sets them, and also over a restart: else many small sessions would hold what a single one may not."""
    limits, long = HubLimits(opened_bytes=100_000), {"set": {"a": "x" * 2**15}}
    async with opened(file_url, limits=limits) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        first, second, last = [await open_session(alice, "bob", kind="workflow") for _ in range(3)]
        await alice.send(first, event_type=EV_CONTEXT_SET, event_data=long)
        await bob.send(second, event_type=EV_CONTEXT_SET, event_data=long)
        with pytest.raises(RateLimited, match="alice may hold 100000 bytes with their variables"):
            await bob.send(last, event_type=EV_CONTEXT_SET, event_data=long)
        await alice.send(last, "text takes nothing of it")
    async with opened(file_url, limits=limits) as hub:
        alice = await join(hub, "alice")
        with pytest.raises(RateLimited, match="close some, or delete variables"):
            await alice.send(last, event_type=EV_CONTEXT_SET, event_data=long)
        await alice.send(first, event_type=EV_CONTEXT_SET, event_data={"delete": ["a"]})
        await alice.send(last, event_type=EV_CONTEXT_SET, event_data=long)
        for session in (first, second, last):
            await alice.ask_own("close", session_id=session)
        assert hub.agents.get("alice").opened.total_bytes == 0


async def test_keys_that_are_remembered_do_not_hold_the_memory() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        first = await alice.send(session, "y" * 2**19, idempotency_key="first")
        for n in range(24):
            await alice.send(session, "x" * 2**19, idempotency_key=f"k{n}")
        held = sum(len(post.envelope.text) for post in hub.table.live[session].keys.values())
        assert held < 5 * 2**20
        assert await alice.send(session, "y" * 2**19, idempotency_key="first") == first


async def test_what_waits_for_an_agent_that_is_away_is_not_held_in_memory() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        bob = await join(hub, "bob", rule={"inbox": {"max_pending": 10**9}})
        session = await open_session(alice, "bob")
        await bob.link.close()
        await alice.send(session, "x" * 2**19)
        inbox = hub.delivery.inboxes.of(hub.agents.get("bob"))
        assert [envelope.text for _, envelope in inbox.waiting.values()] == [""]


async def test_an_envelope_is_measured_in_bytes(file_url: str) -> None:
    """One that is larger as a frame than a client takes would come again and again, and break its link each time."""
    async with opened(file_url) as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        session = await open_session(alice, "bob")
        with pytest.raises(ProtocolError, match="an envelope may have 1048576 bytes"):
            await alice.send(session, "\u20ac" * (MAX_ENVELOPE // 3 + 1))


async def test_a_refusal_does_not_repeat_all_that_was_sent() -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        with pytest.raises(NetworkError) as refused:
            await alice.ask("get_agent", name="x" * 2**20)
        assert len(refused.value.message) < 2000


class HeldStore(MemoryStore):
    """A disk that has stopped, once it is told so."""

    stopped = False

    def submit(self, submission: Submission) -> None:
        if not self.stopped:
            super().submit(submission)


class Flood:
    """A client that sends as fast as it is read, and does not wait for answers."""

    def __init__(self, frame: dict[str, Any]) -> None:
        self.text, self.taken = json.dumps(frame), 0
        self.scope: dict[str, Any] = {"type": "websocket", "state": {}}

    async def receive(self) -> dict[str, Any]:
        self.taken += 1
        if self.taken > 1000:
            return {"type": "websocket.disconnect"}
        await asyncio.sleep(0)
        return {"type": "websocket.receive", "text": self.text}

    async def send_text(self, _text: str) -> None:
        return


async def test_a_link_is_not_read_faster_than_the_disk_writes() -> None:
    store = HeldStore()
    hub = await Hub.open_store(store)
    alice = await join(hub, "alice", identity="alice")
    await join(hub, "bob")
    session = await open_session(alice, "bob")
    envelope = {"session_id": session, "event_type": "x.y", "event_data": {"text": "x" * 200_000}}
    flood = Flood({"kind": "send", "request_id": "r", "envelope": envelope})
    link = SocketLink(hub, flood, LinkRights("alice"))  # type: ignore[arg-type]
    link._connection._caller.agent_ids.add(alice.agent_id)  # pyright: ignore[reportPrivateUsage]
    store.stopped = True
    running = asyncio.create_task(link.run())
    for _ in range(5000):
        await asyncio.sleep(0)
    assert 1 < flood.taken <= MOST_UNWRITTEN // 200_000 + 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    store.stopped = False
    await hub.close()
