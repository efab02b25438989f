"""Clients over a local link: waiting, handlers, order, and turns that ask others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from agent_client.hub import (
    AGENT_CLIENT_DEP,
    EV_SESSION_CLOSED,
    HUB_DEP,
    SESSION_DEP,
    AccessDeniedError,
    AgentClient,
    Envelope,
    Frame,
    HubClient,
    Inbox,
    InboxFull,
    LocalLink,
    Passport,
    ProtocolError,
    RequestFrame,
    ResponseFrame,
    Rule,
    Session,
    ViewPolicy,
    default_handler,
    read_wal_until,
)
from agent_common.hub_client.default_handler import MOST_BYTES
from agent_common.hub_client.links import LocalLinkClient
from agent_host.hub import Hub

from .agents import Scripted, echo, is_text, silent
from .conftest import Join


async def asked(client: AgentClient, target: str, text: str, seconds: float = 60) -> str:
    session = await client.open(type="consulting", target=target)
    await session.send(text)
    return (await client.wait_for_session_event(session.session_id, is_text, timeout=seconds)).text


@pytest.mark.parametrize("shared", [False, True])
async def test_an_agent_answers_with_its_reply(hub: Hub, join: Join, shared: bool) -> None:
    """Also when both are of one process and share one link."""
    client = HubClient(LocalLink(hub), hub=hub) if shared else None
    alice = await join("alice", client=client)
    bob = await join("bob", echo(), client=client)
    assert await asked(alice, "bob", "hello") == "you said hello"
    assert (alice.passport.name, bob.agent is not None) == ("alice", True)


@pytest.mark.parametrize("shared", [False, True])
async def test_a_turn_may_ask_another_agent_and_wait_for_it(hub: Hub, join: Join, shared: bool) -> None:
    """Also over the link over which the other one is asked and answers."""

    async def ask_carol(text: str, dependencies: Mapping[str, Any]) -> str:
        client: AgentClient = dependencies[AGENT_CLIENT_DEP]
        return f"carol says: {await asked(client, 'carol', text)}"

    client = HubClient(LocalLink(hub), hub=hub) if shared else None
    alice = await join("alice", client=client)
    await join("bob", Scripted(ask_carol), client=client)
    await join("carol", echo(), client=client)
    assert await asked(alice, "bob", "well?") == "carol says: you said well?"


async def test_agents_that_would_wait_for_each_other_are_told(join: Join) -> None:
    async def ask_back(text: str, dependencies: Mapping[str, Any]) -> str:
        try:
            return await asked(dependencies[AGENT_CLIENT_DEP], "alice", text)
        except ProtocolError as error:
            return error.message

    alice = await join("alice", echo())
    await join("bob", Scripted(ask_back))
    assert "alice waits for this turn, and would wait for itself" in await asked(alice, "bob", "?")


async def test_a_turn_sees_the_session_its_client_and_the_hub(hub: Hub, join: Join) -> None:
    seen: list[Mapping[str, Any]] = []

    async def answer(_text: str, dependencies: Mapping[str, Any]) -> str:
        seen.append(dependencies)
        return "x"

    alice = await join("alice")
    bob = await join("bob", Scripted(answer))
    session = await alice.open(type="consulting", target="bob")
    await session.send("?")
    await alice.wait_for_session_event(session.session_id, is_text, timeout=60)
    assert seen[0][SESSION_DEP].session_id == session.session_id
    assert (seen[0][AGENT_CLIENT_DEP], seen[0][HUB_DEP]) == (bob, hub)


async def test_a_discussion_goes_round_with_views_of_its_own(join: Join) -> None:
    agents = [Scripted(_numbered(name)) for name in ("bob", "carol")]
    alice = await join("alice")
    for name, agent in zip(("bob", "carol"), agents, strict=True):
        await join(name, agent)
    session = await alice.open(type="discussion", target=["bob", "carol"])
    for turn in range(3):
        await session.send(f"round {turn}")
        await alice.wait_for_session_event(session.session_id, lambda event: event.text.startswith("carol"), timeout=60)
    assert agents[1].asked == [f"[alice]: round {turn}\n\n[bob]: bob {turn}" for turn in range(3)]
    assert agents[1].histories[1] == ["[alice]: round 0\n\n[bob]: bob 0", "carol 0"]


def _numbered(name: str) -> Any:
    count = -1

    async def answer(_text: str, _dependencies: Mapping[str, Any]) -> str:
        nonlocal count
        count += 1
        return f"{name} {count}"

    return answer


# ---------------------------------------------------------------- waits


async def test_a_late_waiter_sees_what_came_first_and_each_event_once(hub: Hub, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob", attach_plugin=False)
    bob.on_envelope(lambda envelope: default_handler(bob, envelope))
    session = await alice.open(type="conversation", target="bob")
    theirs = bob.session(session.session_id)
    for text in ("one", "two", "three"):
        await theirs.send(text)
    got = [(await alice.wait_for_session_event(session.session_id, is_text, timeout=60)).text for _ in range(3)]
    assert got == ["one", "two", "three"]
    with pytest.raises(TimeoutError):
        await alice.wait_for_session_event(session.session_id, is_text, timeout=0.05)
    assert not hub.delivery.is_watched(session.session_id)


async def test_several_wait_for_one_session(join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    session = await alice.open(type="conversation", target="bob")
    waits = [
        asyncio.create_task(
            alice.wait_for_session_event(session.session_id, lambda event, n=n: event.text == str(n), timeout=60)
        )
        for n in range(5)
    ]
    for number in range(5):
        await bob.session(session.session_id).send(str(number))
    assert [one.text for one in await asyncio.gather(*waits)] == list("01234")


async def test_who_may_not_read_cannot_wait(join: Join) -> None:
    alice, _, eve = await join("alice"), await join("bob"), await join("eve")
    session = await alice.open(type="conversation", target="bob")
    with pytest.raises(AccessDeniedError):
        await eve.wait_for_session_event(session.session_id, is_text, timeout=60)


class SlowToRegister:
    """A link over which registrations wait while `registers` is not set."""

    def __init__(self, hub: Hub) -> None:
        self._link = LocalLink(hub).client()
        self.registers, self.is_waiting = asyncio.Event(), asyncio.Event()
        self.registers.set()

    async def open(self) -> None:
        await self._link.open()

    async def send_frame(self, frame: Frame) -> None:
        if isinstance(frame, RequestFrame) and frame.op == "register" and not self.registers.is_set():
            self.is_waiting.set()
            await self.registers.wait()
        await self._link.send_frame(frame)

    def frames(self) -> AsyncIterator[Frame]:
        return self._link.frames()

    async def close(self) -> None:
        await self._link.close()


async def test_a_wait_that_begins_before_a_new_link_knows_its_agent_goes_on(hub: Hub, join: Join) -> None:
    link = SlowToRegister(hub)
    alice, bob = await join("alice", client=HubClient(link)), await join("bob")
    session = await alice.open(type="conversation", target="bob")
    link.registers.clear()
    await link.close()
    async with asyncio.timeout(60):
        await link.is_waiting.wait()
    waiting = asyncio.create_task(alice.wait_for_session_event(session.session_id, is_text, timeout=60))
    await asyncio.wait([waiting], timeout=0.05)
    link.registers.set()
    await bob.session(session.session_id).send("hello")
    assert (await waiting).text == "hello"


class LosesAnAnswer(LocalLinkClient):
    """A link that breaks before the answer to one operation is read."""

    def __init__(self, hub: Hub, op: str) -> None:
        super().__init__(hub)
        self._op, self._number = op, ""

    async def send_frame(self, frame: Frame) -> None:
        if isinstance(frame, RequestFrame) and frame.op == self._op:
            self._op, self._number = "", frame.request_id
        await super().send_frame(frame)

    async def frames(self) -> AsyncIterator[Frame]:
        async for frame in super().frames():
            if isinstance(frame, ResponseFrame) and frame.request_id == self._number:
                self._number = ""
                await self.close()
            else:
                yield frame


async def test_an_agent_leaves_once_though_the_answer_is_lost(hub: Hub, join: Join) -> None:
    client = HubClient(LosesAnAnswer(hub, "unregister"))
    alice, bob = await join("alice", client=client), await join("bob", client=client)
    await client.unregister(alice.agent_id)
    assert [one["passport"]["name"] for one in await bob.list_agents()] == ["bob"]
    with pytest.raises(AccessDeniedError):
        await client.unregister(alice.agent_id)
    assert client.is_connected


# ---------------------------------------------------------------- handlers


async def test_what_a_handler_refuses_comes_again_before_what_follows(join: Join) -> None:
    alice, bob = await join("alice"), await join("bob", attach_plugin=False)
    seen: list[str] = []
    done = asyncio.Event()

    async def handle(envelope: Envelope) -> None:
        if not is_text(envelope):
            await default_handler(bob, envelope)
            return
        seen.append(envelope.text)
        if seen.count("1") == 1 and envelope.text == "1":
            raise ValueError("not yet")
        if envelope.text == "4":
            done.set()

    bob.on_envelope(handle)
    session = await alice.open(type="conversation", target="bob")
    await asyncio.gather(*(session.send(str(number)) for number in range(5)))
    async with asyncio.timeout(60):
        await done.wait()
    assert seen == ["0", "1", "1", "2", "3", "4"]


async def test_an_envelope_that_is_always_refused_holds_up_nothing(hub: Hub, join: Join) -> None:
    async def answer(text: str, _dependencies: Mapping[str, Any]) -> str:
        if text.endswith("bad"):
            raise ValueError("cannot")
        return text

    alice, agent = await join("alice"), Scripted(answer)
    await join("bob", agent)
    session = await alice.open(type="conversation", target="bob")
    await session.send("bad")
    await session.send("good")
    assert "good" in (await alice.wait_for_session_event(session.session_id, is_text, timeout=60)).text
    assert agent.asked.count("bad") == 5
    ((_, letter),) = await hub.store.dead_letters(0, 9)
    assert letter.reason == "ValueError: cannot"


async def test_an_answered_envelope_is_not_answered_again(hub: Hub, join: Join) -> None:
    """The process of an agent ends after its reply is in the log and before it has acknowledged."""
    alice, agent = await join("alice"), echo()
    first = HubClient(LocalLink(hub), hub=hub)
    bob = await first.register(agent, Passport(name="bob"), attach_plugin=False)
    replied = asyncio.Event()

    async def die(envelope: Envelope) -> None:
        await default_handler(bob, envelope)
        if is_text(envelope):
            replied.set()
            await asyncio.Event().wait()

    bob.on_envelope(die)
    session = await alice.open(type="conversation", target="bob")
    await session.send("once")
    async with asyncio.timeout(60):
        await replied.wait()
    await first.close()
    again = await join("bob", agent)
    assert again.agent_id == bob.agent_id
    await session.send("twice")
    wanted = "you said twice"
    await alice.wait_for_session_event(session.session_id, lambda event: event.text == wanted, timeout=60)
    assert agent.asked == ["once", "twice"]


async def test_a_silent_turn_is_recorded(hub: Hub, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob", silent())
    session = await alice.open(type="conversation", target="bob")
    await session.send("anything?")
    asked_at = next(one for one in await _log(hub, session.session_id) if is_text(one))
    async with asyncio.timeout(60):
        while (outcome := (await bob.turn_before(asked_at))[1]) is None:
            await asyncio.sleep(0)
    assert outcome == "silent"


async def _log(hub: Hub, session_id: str) -> list[Envelope]:
    return list((await hub.queries.log(None, session_id, 0, 500)).envelopes)


# ---------------------------------------------------------------- limits and ends


async def test_a_full_inbox_has_its_own_error(join: Join) -> None:
    alice = await join("alice")
    bob = await join("bob", attach_plugin=False, rule=Rule(inbox=Inbox(max_pending=2)))
    hold = asyncio.Event()

    async def handle(envelope: Envelope) -> None:
        await default_handler(bob, envelope)
        if is_text(envelope):
            await hold.wait()

    bob.on_envelope(handle)
    session = await alice.open(type="conversation", target="bob")
    await session.send("1")
    await session.send("2")
    with pytest.raises(InboxFull) as caught:
        await session.send("3")
    assert caught.value.retry_after == 1.0
    hold.set()


async def test_waits_empty_the_inbox_of_an_agent_without_a_handler(hub: Hub, join: Join) -> None:
    """Also of what they pass over while they look for something else."""
    bob = await join("bob")
    alice = await join("alice", attach_plugin=False, rule=Rule(inbox=Inbox(max_pending=2)))
    session = await alice.open(type="conversation", target="bob")
    for number in range(3):
        sending = asyncio.create_task(_send_all(bob.session(session.session_id), [f"{number} {at}" for at in range(5)]))
        for wanted in (f"{number} 0", f"{number} 4"):
            await alice.wait_for_session_event(
                session.session_id, lambda event, wanted=wanted: event.text == wanted, timeout=60
            )
        await sending
    handled: list[str] = []
    done = asyncio.Event()

    async def handle(envelope: Envelope) -> None:
        handled.append(envelope.text)
        done.set()

    alice.on_envelope(handle)
    await _send_all(bob.session(session.session_id), ["for the handler"])
    async with asyncio.timeout(60):
        await done.wait()
    assert handled == ["for the handler"]


async def _send_all(session: Session, texts: list[str]) -> None:
    """Send each as soon as the inbox of the other one has space."""
    for text in texts:
        async with asyncio.timeout(60):
            while not await _is_sent(session, text):
                await asyncio.sleep(0.01)


async def _is_sent(session: Session, text: str) -> bool:
    try:
        await session.send(text)
    except InboxFull:
        return False
    return True


async def test_audiences_are_named_and_ends_are_seen(join: Join) -> None:
    alice, bob, carol = await join("alice"), await join("bob"), await join("carol")
    session = await alice.open(type="discussion", target=["bob", "carol"])
    await session.send("for bob", audience=["bob"])
    got = await bob.wait_for_session_event(session.session_id, is_text, timeout=60)
    assert got.audience == (bob.agent_id,)
    await session.close("enough")
    over = await carol.wait_for_session_event(
        session.session_id, lambda event: event.event_type == EV_SESSION_CLOSED, timeout=60
    )
    assert over.event_data == {"reason": "enough"}
    assert (await session.info()).close_reason == "enough"


async def test_a_process_reads_what_its_agents_may_read(hub: Hub, join: Join) -> None:
    alice = await join("alice")
    client = HubClient(LocalLink(hub), hub=hub)
    bob, carol = [await join(name, client=client) for name in ("bob", "carol")]
    session = await alice.open(type="discussion", target=["bob", "carol"])
    await session.send("for bob", audience=["bob"])
    assert [one.text for one in await client.read_wal(session.session_id) if is_text(one)] == ["for bob"]
    assert await client.can_send(session.session_id, bob.agent_id)
    assert not await client.can_send(session.session_id, carol.agent_id)
    assert (await client.default_view_policy(session.session_id, bob.agent_id)).name == "named_windowed_summary(6)"
    await client.unregister(carol.agent_id)
    assert [one["passport"]["name"] for one in await client.list_agents()] == ["alice", "bob"]


@pytest.mark.parametrize("letter", ["x", "中"])
async def test_a_long_log_is_read_in_pages_that_fit_a_frame(hub: Hub, join: Join, letter: str) -> None:
    client = HubClient(LocalLink(hub))
    alice = await join("alice", client=client)
    await join("bob")
    session = await alice.open(type="conversation", target="bob")
    for number in range(12):
        await session.send(f"{number}".ljust(100_000, letter))
    page = await hub.queries.log([alice.agent_id], session.session_id, 0, 500)
    assert sum(len(one.model_dump_json().encode()) for one in page.envelopes) <= hub.limits.page_bytes
    assert page.next == page.envelopes[-1].sequence
    assert [one.text.strip(letter) for one in await client.read_wal(session.session_id) if one.text] == [
        str(number) for number in range(12)
    ]


async def test_what_comes_before_there_is_a_handler_waits_for_it(join: Join) -> None:
    alice, worker = await join("alice"), await join("worker", attach_plugin=False)
    opening = asyncio.create_task(alice.open(type="conversation", target="worker"))
    async with asyncio.timeout(60):
        while not (found := await worker.sessions()):
            await asyncio.sleep(0)
    with pytest.raises(TimeoutError):  # a wait that passes over the invitation leaves it to the handler
        await worker.wait_for_session_event(found[0]["session_id"], is_text, timeout=0.05)
    assert not opening.done()
    worker.on_envelope(lambda envelope: default_handler(worker, envelope))
    async with asyncio.timeout(60):
        await opening


LARGE = "x" * 200_000


@pytest.mark.parametrize(
    ("kind", "data", "policy", "kept"),
    [
        ("x.noise", {"text": LARGE}, ViewPolicy(), 0),
        ("x.noise", {"text": LARGE}, None, MOST_BYTES),
        ("ag2.msg.text", {"text": LARGE}, ViewPolicy(), MOST_BYTES),
        ("ag2.msg.text", {"text": "x", "more": LARGE}, ViewPolicy(), MOST_BYTES),
    ],
)
async def test_what_others_say_does_not_decide_how_much_is_read(
    join: Join, kind: str, data: dict[str, str], policy: ViewPolicy | None, kept: int
) -> None:
    alice, bob = await join("alice"), await join("bob", silent())
    session = await alice.open(type="conversation", target="bob")
    envelope = Envelope(session_id=session.session_id, event_type=kind, event_data=data)
    for _ in range(4 * MOST_BYTES // len(LARGE)):
        await alice.send_envelope(envelope)
    last = Envelope(session_id=session.session_id, event_type="x.last", sequence=1000)
    found = await read_wal_until(bob, last, policy)
    size = sum(len(text) for one in found if one.event_type == kind for text in one.event_data.values())
    assert kept <= size <= kept + 32 * (len(LARGE) + 1) * (kept > 0)
