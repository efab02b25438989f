"""Subscriptions of a link: where they begin, and what the client asks before they have begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_common.protocol.hub import EV_SESSION_CLOSED, ErrorFrame, NotifyFrame, SubscribeFrame, UnsubscribeFrame
from agent_host.hub import Hub
from agent_host.hub.links.connection import MOST_SUBSCRIPTIONS

from .raw_link import DEADLINE, RawLink, join, open_session, opened


async def test_a_subscription_begins_after_a_sequence_that_is_yet_to_come(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session_id = await open_session(alice, "bob")
        alice.subscribe(session_id, after=hub.table.live[session_id].folded.sequence + 2)
        await _until(lambda: hub.delivery.is_watched(session_id))
        for text in ("one", "two", "three"):
            await bob.send(session_id, text)
        assert (await _event(alice)).envelope.text == "three"


async def test_what_a_client_ends_before_it_has_begun_does_not_begin(url: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        session_id = await _closed_session(hub, alice)
        for number in range(MOST_SUBSCRIPTIONS + 1):
            _subscribe(alice, str(number), session_id)
            alice.link.receive(UnsubscribeFrame(subscription_id=str(number)))
        _subscribe(alice, "last", session_id)
        assert (await _event(alice)).subscription_id == "last"
        assert alice.others.empty()
        alice.link.receive(UnsubscribeFrame(subscription_id="last"))
        assert not hub.delivery.is_watched(session_id)
        await _until(lambda: session_id not in hub.table.live)


async def test_a_subscription_that_has_not_begun_is_replaced_by_another_one(url: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        first, second = [await _closed_session(hub, alice) for _ in range(2)]
        for session_id in (first, second):
            _subscribe(alice, "s", session_id)
        assert (await _event(alice)).envelope.session_id == second
        assert not hub.delivery.is_watched(first)


async def test_subscriptions_that_have_not_begun_count(url: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        session_id = await _closed_session(hub, alice)
        for number in range(MOST_SUBSCRIPTIONS + 3):
            _subscribe(alice, str(number), session_id)
        async with asyncio.timeout(DEADLINE):
            refused = [await alice.others.get() for _ in range(3)]
        assert [(one.code, one.request_id) for one in refused if isinstance(one, ErrorFrame)] == [
            ("rate_limited", str(MOST_SUBSCRIPTIONS + number)) for number in range(3)
        ]


async def _closed_session(hub: Hub, creator: RawLink) -> str:
    """A session that is over, and not in memory."""
    other = await join(hub, f"other-{len(list(hub.agents))}")
    session_id = await open_session(creator, other.agent_id)
    await creator.ask_own("close", session_id=session_id)
    for link in (creator, other):
        while (frame := await link.get()).envelope.event_type != EV_SESSION_CLOSED:
            link.ack(frame)
        link.ack(frame)
    await _until(lambda: session_id not in hub.table.live)
    return session_id


def _subscribe(link: RawLink, name: str, session_id: str) -> None:
    link.link.receive(SubscribeFrame(subscription_id=name, session_id=session_id, agent_id=link.agent_id))


async def _event(link: RawLink) -> NotifyFrame:
    """The next envelope of a subscription."""
    while not (frame := await link.get()).subscription_id:
        link.ack(frame)
    return frame


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not is_so():
            await asyncio.sleep(0)
