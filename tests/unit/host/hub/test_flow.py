"""What waits for a client that does not keep up: a little in memory, the rest in the log."""

from __future__ import annotations

import asyncio

from agent_common.protocol.hub import EV_TEXT, Envelope, NotifyFrame, SubscribeFrame, decode_frame
from agent_host.hub import Hub
from agent_host.hub.links.outbox import FULL, MOST, Outbox

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
        while True:
            self._take(decode_frame(await self.outbox.take()))
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
