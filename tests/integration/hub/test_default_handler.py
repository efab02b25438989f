"""When the default handler asks its agent, and what becomes of a reply that cannot be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from agent_client.hub import (
    EV_EXPECTATION_VIOLATED,
    EV_SESSION_INVITE,
    EV_TEXT,
    SESSION_DEP,
    AgentClient,
    Envelope,
    Inbox,
    Rate,
    Rule,
    default_handler,
)
from agent_common.protocol.hub import Access, TurnOutcome
from agent_host.hub import Hub

from .agents import Answer, Scripted, echo, is_text
from .conftest import Join

Hindrance = Literal["rule", "inbox", "rate"]


@pytest.mark.parametrize(("hindrance", "outcome"), [("rule", "failed"), ("inbox", "replied"), ("rate", "replied")])
async def test_an_agent_is_asked_once_for_a_reply_that_cannot_be_sent_now(
    hub: Hub, join: Join, hindrance: Hindrance, outcome: TurnOutcome
) -> None:
    """The inbox of the other one is full for a while, the agent has used up its rate, or a rule forbids the reply."""
    alice = await join("alice", attach_plugin=False, rule=Rule(inbox=Inbox(max_pending=1)))
    agent = Scripted(_hindered(alice, hindrance))
    rate = Rate(per_minute=60, burst=1) if hindrance == "rate" else None
    bob = await join("bob", agent, rule=Rule(rate=rate))

    async def read_slowly(envelope: Envelope) -> None:
        await asyncio.sleep(0.2 * is_text(envelope))

    alice.on_envelope(read_slowly)
    session = await alice.open(type="conversation", target="bob")
    await session.send("well?")
    (asked,) = [one for one in (await hub.queries.log(None, session.session_id, 0, 9)).envelopes if one.text == "well?"]
    async with asyncio.timeout(60):
        while (found := await bob.turn_before(asked))[1] is None:
            await asyncio.sleep(0.01)
    assert (agent.asked, found[1], found[0] is not None) == (["well?"], outcome, outcome == "replied")
    assert not await hub.store.dead_letters(0, 9)


def _hindered(alice: AgentClient, hindrance: Hindrance) -> Answer:
    """Bring about why the answer cannot be sent, and give it."""

    async def answer(_text: str, dependencies: Mapping[str, Any]) -> str:
        if hindrance == "rule":
            await alice.set_rule(Rule(access=Access(inbound_from=())))
        else:
            await dependencies[SESSION_DEP].send("one moment")
        return "done"

    return answer


@pytest.mark.parametrize("actions", [("hide",), ("remove",), ("warn", "hide")])
async def test_who_gets_the_turn_of_another_is_asked(hub: Hub, join: Join, actions: tuple[str, ...]) -> None:
    alice, bob, agent = await join("alice"), await join("bob"), echo()
    carol = await join("carol", agent, attach_plugin=False)
    has_read = _reads(carol, EV_TEXT)
    session = await alice.open(type="discussion", target=["bob", "carol"])
    await session.send("one")
    async with asyncio.timeout(60):
        await has_read.wait()
    for action in actions:
        _say_late(hub, session.session_id, bob, action)
    reply = await alice.wait_for_session_event(session.session_id, is_text, timeout=60)
    assert (reply.text, agent.asked) == ("you said [alice]: one", ["[alice]: one"])


async def test_where_there_are_no_turns_each_text_is_answered_and_nobody_is_late(hub: Hub, join: Join) -> None:
    alice, agent = await join("alice"), echo()
    bob = await join("bob", agent, attach_plugin=False)
    has_read = _reads(bob, EV_EXPECTATION_VIOLATED)
    session = await alice.open(type="conversation", target="bob")
    await asyncio.gather(session.send("one"), session.send("two"))
    _say_late(hub, session.session_id, alice, "hide")
    async with asyncio.timeout(60):
        await has_read.wait()
    assert agent.asked == ["one", "one\n\ntwo"]


async def test_who_comes_late_answers_the_last_turn_and_sees_those_before(hub: Hub, join: Join) -> None:
    alice, bob, agent = await join("alice"), await join("bob"), echo()
    carol = await join("carol", agent, attach_plugin=False)
    is_back = asyncio.Event()

    async def handle(envelope: Envelope) -> TurnOutcome | None:
        if envelope.event_type != EV_SESSION_INVITE:
            await is_back.wait()
        return await default_handler(carol, envelope)

    carol.on_envelope(handle)
    session = await alice.open(type="discussion", target=["bob", "carol"])
    await session.send("one")
    for late in (bob, carol):
        _say_late(hub, session.session_id, late, "hide")
    await session.send("two")
    await bob.session(session.session_id).send("three")
    is_back.set()
    wanted = "[alice]: one\n\n[alice]: two\n\n[bob]: three"
    await alice.wait_for_session_event(session.session_id, lambda event: event.text == f"you said {wanted}", timeout=60)
    assert agent.asked == [wanted]


def _reads(client: AgentClient, event_type: str) -> asyncio.Event:
    """Have the default handler handle what comes; the event is set when it has handled one of a type."""
    has_read = asyncio.Event()

    async def handle(envelope: Envelope) -> TurnOutcome | None:
        outcome = await default_handler(client, envelope)
        if envelope.event_type == event_type:
            has_read.set()
        return outcome

    client.on_envelope(handle)
    return has_read


def _say_late(hub: Hub, session_id: str, late: AgentClient, action: str) -> None:
    """Have the hub say that the turn of an agent is overdue."""
    violation = {"expectation": "turn_within", "violators": [late.agent_id], "action": action}
    hub.posting.say(hub.table.live[session_id], EV_EXPECTATION_VIOLATED, None, violation)
