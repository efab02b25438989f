"""Clients of a live host's hub over WebSockets, which survive the death of the host and broken links."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_client.hub import (
    AgentClient,
    AuthError,
    Envelope,
    HubClient,
    HubUnavailable,
    HubWatcher,
    Inbox,
    InboxFull,
    MemoryStream,
    Passport,
    ProtocolError,
    Rule,
    WebSocketLink,
    default_handler,
)
from agent_testing.bridge import FakeBridge, Trip
from tests.ports import free_port

from .hub_link import url_of
from .live import OPERATOR, PATIENCE, Host

COUNT = 40


class Echo:
    """Answers with what it was asked, and counts how often it was asked each."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, text: str, *, stream: MemoryStream, dependencies: Mapping[str, Any]) -> str:
        self.asked.append(text)
        return f"you said {text}"


@asynccontextmanager
async def joined(
    url: str, name: str, agent: Echo | None = None, *, token: str = OPERATOR, rule: Rule | None = None,
    heartbeat: float = 15.0, attach_plugin: bool = True,
) -> AsyncGenerator[AgentClient]:  # fmt: skip
    client = HubClient(WebSocketLink(url, token=token, heartbeat=heartbeat), timeout=PATIENCE)
    try:
        yield await client.register(agent, Passport(name=name), rule=rule, attach_plugin=attach_plugin)
    finally:
        await client.close()


async def asked(client: AgentClient, target: str, text: str) -> str:
    session = await client.open(type="consulting", target=target)
    await session.send(text)
    found = await client.wait_for_session_event(session.session_id, lambda event: bool(event.text), timeout=PATIENCE)
    return found.text


async def test_an_agent_is_asked_over_the_wire(host: Host, token: str) -> None:
    async with joined(url_of(host), "wire-a") as alice, joined(url_of(host), "writer", Echo(), token=token):
        assert await asked(alice, "writer", "hello") == "you said hello"


async def test_errors_keep_their_type(host: Host) -> None:
    narrow = Rule(inbox=Inbox(max_pending=1))
    async with (
        joined(url_of(host), "type-a") as alice,
        joined(url_of(host), "type-b", attach_plugin=False, rule=narrow) as bob,
    ):
        bob.on_envelope(lambda envelope: _refuse_texts(bob, envelope))
        session = await alice.open(type="conversation", target="type-b")
        await session.send("one")
        with pytest.raises(InboxFull) as full:
            await session.send("two")
        assert full.value.retry_after is not None
        with pytest.raises(ProtocolError, match="a frame may have"):
            await session.send("x" * 2_000_000)
        with pytest.raises(ProtocolError, match="an envelope may have"):
            await session.send("x" * 1_090_000)
        assert (await session.info()).state == "active"


async def _refuse_texts(client: AgentClient, envelope: Envelope) -> Any:
    if envelope.text:
        raise RuntimeError("busy")
    return await default_handler(client, envelope)


async def test_who_is_not_let_in_is_told(host: Host) -> None:
    with pytest.raises(AuthError, match="unauthorized"):
        async with joined(url_of(host), "x", token="mesh_wrong"):
            pass
    with pytest.raises(HubUnavailable, match="cannot be reached"):
        async with joined(f"ws://127.0.0.1:{free_port()}/hub", "x"):
            pass
    with pytest.raises(HubUnavailable, match="answers 403: there is no hub at this path"):
        async with joined(f"{url_of(host)}s", "x"):
            pass
    with pytest.raises(ValueError, match="must begin with ws://"):
        WebSocketLink(host.url)


async def test_a_token_that_is_revoked_ends_its_client(host: Host) -> None:
    token = host.token("soon-gone")
    async with joined(url_of(host), "soon-gone", token=token) as gone, joined(url_of(host), "stays") as stays:
        session = await stays.open(type="conversation", target="soon-gone")
        waiting = asyncio.create_task(
            gone.wait_for_session_event(session.session_id, lambda event: bool(event.text), timeout=PATIENCE)
        )
        (known,) = [one for one in host.operator.get("/tokens").json()["tokens"] if one["owner"] == "soon-gone"]
        assert host.operator.delete(f"/tokens/{known['id']}").status_code == 204
        with pytest.raises(AuthError):
            await waiting
        with pytest.raises(AuthError):
            await gone.session_info(session.session_id)


@asynccontextmanager
async def pair(host: Host, **options: Any) -> AsyncGenerator[tuple[FakeBridge, AgentClient, list[str]]]:
    """Two agents behind a bridge; the second answers each text, and the list has those that it has handled."""
    handled: list[str] = []
    async with FakeBridge("tcp://127.0.0.1:0", host.url.replace("http://", "tcp://")) as bridge:
        url = bridge.url.replace("tcp://", "ws://") + "/hub"
        async with joined(url, "a", **options) as alice, joined(url, "b", attach_plugin=False, **options) as bob:

            async def answer(envelope: Envelope) -> Any:
                if not envelope.text:
                    return await default_handler(bob, envelope)
                handled.append(envelope.text)
                await bob.session(envelope.session_id).send(f"you said {envelope.text}")
                return None

            bob.on_envelope(answer)
            yield bridge, alice, handled


async def converse(alice: AgentClient, handled: list[str], disturb: Any) -> None:
    """Say many things while `disturb(number)` happens beside each; all are answered, once and in order."""
    session = await alice.open(type="conversation", target="b")
    for number in range(COUNT):
        await asyncio.gather(session.send(str(number)), disturb(number))
    texts: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(texts) < COUNT:
            event = await alice.wait_for_session_event(session.session_id, lambda event: bool(event.text), PATIENCE)
            texts.append(event.text)
    assert texts == [f"you said {number}" for number in range(COUNT)]
    assert handled == [str(number) for number in range(COUNT)]
    said = await read_texts(alice, session.session_id)
    assert sorted(said) == sorted([*map(str, range(COUNT)), *texts])
    assert [text for text in said if text.isdigit()] == [str(number) for number in range(COUNT)]


async def read_texts(client: AgentClient, session_id: str) -> list[str]:
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page, after = await client.read_log(session_id, after, 100)
        found += [envelope.text for envelope in page if envelope.text]
    return found


@pytest.mark.slow
async def test_a_host_that_is_killed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with Host(tmp_path, MESH_PROVIDER="demo") as host:
        async with pair(host) as (bridge, alice, handled):

            async def kill(number: int) -> None:
                if number in (10, 25):
                    host.process.kill9()
                    await asyncio.to_thread(host.start)
                    bridge.target = host.url.replace("http://", "tcp://")

            await converse(alice, handled, kill)


async def test_links_that_are_cut_in_the_middle_of_a_frame_lose_and_repeat_nothing(host: Host) -> None:
    async with pair(host) as (bridge, alice, handled):

        async def cut(number: int) -> None:
            link = bridge.links[number % len(bridge.links)] if bridge.links else None
            if link is not None and number % 3 == 0:
                bridge.trip("to_host" if number % 2 else "to_guest", Trip("rst", after=17 * number), link)

        await converse(alice, handled, cut)
        assert bridge.counts.breaks + bridge.counts.accepted > 5


@pytest.mark.slow
async def test_a_link_that_is_half_open_is_left_for_another(host: Host) -> None:
    """Nothing passes any more and nothing ends: both ends notice that by themselves, the client first."""
    async with pair(host, heartbeat=0.3) as (bridge, alice, handled):

        async def stall(number: int) -> None:
            if number in (5, 20):
                for link in bridge.links:
                    bridge.stall("both", link)

        await converse(alice, handled, stall)
        # Alice has three links, as she could not speak on without them; the other end may still be at its first stall.
        assert bridge.counts.accepted >= 5


async def test_an_operator_follows_all_sessions_over_a_broken_link(host: Host) -> None:
    """What was said meanwhile comes with the next envelope of its session."""
    async with (
        FakeBridge("tcp://127.0.0.1:0", host.url.replace("http://", "tcp://")) as bridge,
        joined(url_of(host), "seen-a") as alice,
        joined(url_of(host), "seen-b"),
        HubWatcher(WebSocketLink(bridge.url.replace("tcp://", "ws://") + "/hub", token=OPERATOR)) as watcher,
    ):
        session = await alice.open(type="conversation", target="seen-b")
        texts: list[int] = []
        changed = asyncio.Event()

        async def follow() -> None:
            async for envelope in watcher.follow():
                if envelope.session_id == session.session_id and envelope.text:
                    assert await watcher.name(envelope.sender_id) == "seen-a"
                    texts.append(int(envelope.text))
                    changed.set()

        numbers = itertools.count()

        async def say_until_seen() -> None:
            """Nothing tells when it has begun to follow."""
            changed.clear()
            while not changed.is_set():
                await session.send(str(next(numbers)))
                await asyncio.sleep(0.05)

        following = asyncio.create_task(follow())
        async with asyncio.timeout(PATIENCE):
            await say_until_seen()
            bridge.sever()
            for _ in range(5):
                await session.send(str(next(numbers)))
            bridge.restore()
            await say_until_seen()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert texts == list(range(texts[0], texts[-1] + 1))
        assert len(texts) > 6
