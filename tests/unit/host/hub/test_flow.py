"""What waits for a client that does not keep up: a little in memory, the rest in the log."""

from __future__ import annotations

import asyncio

import pytest

from agent_common.backoff import Backoff
from agent_common.net import ShareCounter
from agent_common.protocol.hub import EV_TEXT, Envelope, NotifyFrame, SubscribeFrame, decode_frame
from agent_host.hub import Hub, HubLimits
from agent_host.hub.delivery.inbox import MOST_LOADED
from agent_host.hub.links.outbox import FULL, MOST, Outbox
from agent_host.hub.store import MemoryStore
from agent_host.hub.store.rows import PAGE_BYTES
from agent_testing import ManualClock

from .raw_link import DEADLINE, RawLink, join, open_session, opened

TEXT = "x" * 100_000
COUNT = 40


class SlowLink(RawLink):
    """A link whose client reads when the test says so."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self.outbox = Outbox()
        self.link = hub.connect(self.outbox.put, flow=self.outbox)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (data := await self.outbox.take()) is not None:
            self._take(decode_frame(data))
            if self.outbox.sent():
                self.link.pump()

    def stop(self) -> None:
        self._reading.cancel()

    def go_on(self) -> None:
        self._reading = asyncio.create_task(self._read())

    @property
    def waiting_bytes(self) -> int:
        return sum(map(len, self.outbox._frames))


async def slow_join(hub: Hub, name: str) -> SlowLink:
    link = SlowLink(hub)
    link.agent_id = (await link.ask("register", passport={"name": name}))["agent_id"]
    return link


async def test_deliveries_wait_for_a_client_that_does_not_read(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await slow_join(hub, "bob")
        session_id = await open_session(alice, "bob")
        bob.stop()
        for number in range(COUNT):
            await alice.send(session_id, f"{number} {TEXT}")
        assert 0 < bob.waiting_bytes < FULL + 2 * len(TEXT)
        bob.go_on()
        for number in range(COUNT):
            frame = await bob.get_text()
            assert frame.envelope.text.split()[0] == str(number)
            bob.ack(frame)
        bob.stop()


def kept_in_memory(hub: Hub, agent_id: str) -> int:
    """Characters of the texts that the hub keeps for an agent, sent or waiting."""
    inbox = hub.delivery.inboxes.of(hub.agents.get(agent_id))
    waiting = [one for cursor in inbox.cursors.values() for one in (*cursor.in_flight.values(), *cursor.buffer)]
    return sum(len(envelope.text) for envelope in waiting)


async def test_large_envelopes_that_nobody_acknowledges_stay_in_the_log_and_come_again_whole(url: str) -> None:
    """However many may be in flight: they are sent from the log when they are refused."""
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"in_flight": 1000}})
        session_id = await open_session(alice, "bob")
        for number in range(COUNT):
            await alice.send(session_id, f"{number} {TEXT}")
        frames = [await bob.get_text() for _ in range(COUNT)]
        assert kept_in_memory(hub, bob.agent_id) == 0
        for frame in (frames[7], frames[3]):
            bob.nack(frame)
        again = [await bob.get_text() for _ in range(2)]
        assert [frame.envelope for frame in again] == [frames[3].envelope, frames[7].envelope]
        assert {frame.attempt for frame in again} == {2}
        for frame in frames:
            bob.ack(frame)
        await alice.send(session_id, "the last one")
        assert (await bob.get_text()).envelope.text == "the last one"


async def test_what_waits_in_many_sessions_of_an_agent_stays_in_the_log(url: str) -> None:
    """With a full window little of a few sessions is in memory; all of it comes, in the order of each session."""
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"inbox": {"in_flight": 1}})
        sessions = [await open_session(alice, "bob") for _ in range(MOST_LOADED + 10)]
        for number in range(3):
            for session_id in sessions:
                await alice.send(session_id, f"{number} {TEXT}")
        assert kept_in_memory(hub, bob.agent_id) <= MOST_LOADED * PAGE_BYTES
        seen: dict[str, list[str]] = {session_id: [] for session_id in sessions}
        for _ in range(3 * len(sessions)):
            frame = await bob.get_text()
            seen[frame.envelope.session_id].append(frame.envelope.text.split()[0])
            bob.ack(frame)
        assert all(numbers == ["0", "1", "2"] for numbers in seen.values())


async def test_a_subscription_falls_behind_and_goes_on_from_the_log(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await slow_join(hub, "bob")
        session_id = await open_session(alice, "bob")
        bob.link.receive(SubscribeFrame(subscription_id="s", session_id=session_id, agent_id=bob.agent_id))
        await alice.send(session_id, "live")
        bob.stop()
        for number in range(COUNT):  # a subscriber sees what is for others only as far as it may
            await alice.send(session_id, f"{number} {TEXT}", audience=[alice.agent_id] if number % 2 else None)
        assert bob.waiting_bytes < FULL + 2 * len(TEXT)
        bob.go_on()
        await alice.send(session_id, "last")
        texts: list[str] = []
        async with asyncio.timeout(DEADLINE):
            while not texts or texts[-1] != "last":
                frame = await bob.get()
                if frame.subscription_id and frame.envelope.event_type == EV_TEXT:
                    texts.append(frame.envelope.text.split()[0])
                elif not frame.subscription_id:
                    bob.ack(frame)
        assert texts == ["live", *(str(number) for number in range(0, COUNT, 2)), "last"]
        bob.stop()


class UnreadableStore(MemoryStore):
    """A store whose logs sometimes cannot be read."""

    is_broken = False
    failures = 0

    async def log(self, session_id: str, after: int, limit: int) -> list[Envelope]:
        if self.is_broken:
            self.failures += 1
            raise OSError("the database is away")
        return await super().log(session_id, after, limit)


async def test_what_could_not_be_read_is_delivered_once_it_can_be() -> None:
    """What waits for an agent that comes, what comes again, and what a subscription has to catch up with."""
    store = UnreadableStore()
    hub = await Hub.open_store(store, limits=HubLimits(retry=Backoff(0.01, 0.02)))
    alice, bob, carol = [await join(hub, name) for name in ("alice", "bob", "carol")]
    session_id = await open_session(alice, "bob", "carol", kind="discussion")
    await bob.link.close()
    await alice.send(session_id, TEXT)
    frame = await carol.get_text()
    store.is_broken = True
    carol.nack(frame)
    alice.subscribe(session_id)
    bob = await join(hub, "bob")
    async with asyncio.timeout(DEADLINE):
        while store.failures < 3:
            await asyncio.sleep(0)
    store.is_broken = False
    for link in (bob, carol, alice):
        assert (await link.get_text()).envelope.text == TEXT
    await hub.close()


@pytest.mark.parametrize("why", ["its agent comes", "its time is over"])
async def test_a_session_that_cannot_be_read_is_read_later(why: str) -> None:
    store, clock = UnreadableStore(), ManualClock()
    hub = await Hub.open_store(store, clock=clock)
    alice, bob = await join(hub, "alice"), await join(hub, "bob")
    session_id = await open_session(alice, "bob", ttl=60)
    await alice.send(session_id, "waits")
    await bob.link.close()
    hub.table.live.pop(session_id)  # as if the hub had not needed it since its start
    store.is_broken = True
    if why == "its agent comes":
        bob = await join(hub, "bob")
    else:
        clock.advance(60)
    async with asyncio.timeout(DEADLINE):
        while not store.failures or hub.table._loading:
            await asyncio.sleep(0)
    store.is_broken = False
    clock.advance(1)
    if why == "its agent comes":
        assert (await bob.get_text()).envelope.text == "waits"
    async with asyncio.timeout(DEADLINE):
        while why == "its time is over" and (await hub.queries.info(None, session_id)).state != "expired":
            await asyncio.sleep(0)
    await hub.close()


async def test_a_session_that_can_never_be_read_is_tried_less_and_less_often() -> None:
    store, clock = UnreadableStore(), ManualClock()
    hub = await Hub.open_store(store, clock=clock)
    alice, _ = await join(hub, "alice"), await join(hub, "bob")
    session_id = await open_session(alice, "bob", ttl=60)
    hub.table.live.pop(session_id)
    store.is_broken = True
    for _ in range(600):
        clock.advance(1)
        while hub.table._loading:
            await asyncio.sleep(0)
    assert 8 < store.failures < 20
    await hub.close()


def test_a_client_that_asks_and_never_reads_is_given_up() -> None:
    outbox = Outbox()
    envelope = Envelope(session_id="s", event_type="x", event_data={"text": TEXT})
    frame = NotifyFrame(envelope=envelope, recipient_id="x")
    count = 0
    while not outbox.is_given_up:
        outbox.put(frame)
        count += 1
    assert MOST // len(TEXT) - 50 < count <= MOST // len(TEXT) + 1
    outbox.put(frame)
    assert len(outbox._frames) == count


async def test_the_links_of_one_holder_share_what_waits() -> None:
    held = ShareCounter(10 * len(TEXT))
    first, second, other = Outbox(held, "a"), Outbox(held, "a"), Outbox(held, "b")
    frame = NotifyFrame(envelope=Envelope(session_id="s", event_type="x", event_data={"text": TEXT}), recipient_id="x")
    for _ in range(4):
        first.put(frame)
    second.put(frame)
    assert second.is_given_up, "half is the share of one holder"
    assert await second.take() is None
    other.put(frame)
    assert not other.is_given_up
    assert await first.take() is not None
    first.sent()
    assert held.held("a") == 3 * held.held("b")
    for outbox in (first, second, other):
        outbox.close()
    assert held.free == 10 * len(TEXT)
