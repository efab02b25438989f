"""Rules for hubs: how sessions are opened and closed, and what is overdue."""

from __future__ import annotations

from contextlib import suppress

from agent_common.protocol.hub import (
    EV_EXPECTATION_VIOLATED,
    EV_SESSION_CLOSED,
    EV_SESSION_EXPIRED,
    EV_SESSION_INVITE_REJECT,
    EV_SESSION_OPENED,
)
from agent_testing.channel import Frame

from ..rules import ConformanceRules, RuleBroken
from .agent import Refused, expect_refusal
from .agents import TesterAgents

SESSIONS: ConformanceRules[TesterAgents] = ConformanceRules()
_SOON = 0.3
"""Seconds after which what the tester lets pass is overdue."""


@SESSIONS.rule("H30", "Sessions", "The hub invites each one whom the opener names, and says what to.")
async def invites(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    opening = await agents.start_open(alice, bob, knobs={})
    invitation = await bob.invitation(opening)
    data: Frame = invitation["envelope"]["event_data"]
    if (data.get("type"), data.get("creator_id")) != ("conversation", alice.agent_id):
        raise RuleBroken(f"the invitation says {data}")
    await bob.accept(invitation)
    await alice.answer(opening, "open")
    return "type and creator"


@SESSIONS.rule("H31", "Sessions", "A session is open when all have acknowledged, and not before.")
async def opens_when_all_have(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    opening = await agents.start_open(alice, bob)
    invitation = await bob.invitation(opening)
    session_id = invitation["envelope"]["session_id"]
    before = await bob.ask_own("info", session_id=session_id)
    await alice.ping()
    if before["state"] != "pending" or alice.deliveries(session_id):
        raise RuleBroken(f"it is {before['state']} before that")
    await bob.accept(invitation)
    info = await alice.answer(opening, "open")
    await bob.take(session_id, EV_SESSION_OPENED)
    if info["state"] != "active":
        raise RuleBroken(f"it is {info['state']} after that")
    return "pending, then active"


@SESSIONS.rule("H32", "Sessions", "When one rejects, the session is closed.")
async def rejected(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    opening = await agents.start_open(alice, bob)
    invitation = await bob.invitation(opening)
    session_id = invitation["envelope"]["session_id"]
    await bob.ack(invitation)
    await bob.say(session_id, "", EV_SESSION_INVITE_REJECT)
    await expect_refusal("to open it", alice.answer(opening, "open"), "protocol_error")
    await alice.take(session_id, EV_SESSION_CLOSED)
    return "closed"


@SESSIONS.rule("H33", "Sessions", "Nothing is said in a session that is not open yet.")
async def silent_while_pending(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    opening = await agents.start_open(alice, bob)
    invitation = await bob.invitation(opening)
    asked = alice.say(invitation["envelope"]["session_id"], "too early")
    await expect_refusal("an envelope before that", asked, "protocol_error")
    await bob.accept(invitation)
    await alice.answer(opening, "open")
    return "protocol_error"


@SESSIONS.rule("H34", "Sessions", "The same key of the same agent opens one session.")
async def opens_once(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    key = f"key-{alice.next_id()}"
    opening = await agents.start_open(alice, bob, key=key)
    await bob.accept(await bob.invitation(opening))
    first = await alice.answer(opening, "open")
    again = await agents.start_open(alice, bob, key=key, labels={"opening": opening})
    info = await alice.answer(again, "open")
    if info["session_id"] != first["session_id"]:
        raise RuleBroken(f"{first['session_id']}, then {info['session_id']}")
    return info["session_id"]


@SESSIONS.rule("H35", "Sessions", "Only its creator closes a session.")
async def creator_closes(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await expect_refusal("to close it", bob.ask_own("close", session_id=session_id), "access_denied")
    await alice.say(session_id, "it is open")
    await alice.ask_own("close", session_id=session_id, reason="the tester is done")
    closed = await bob.delivery(session_id, EV_SESSION_CLOSED)
    await bob.ack(closed)
    if closed["envelope"]["event_data"].get("reason") != "the tester is done":
        raise RuleBroken(f"the reason is {closed['envelope']['event_data']}")
    return "access_denied for the other"


@SESSIONS.rule("H36", "Sessions", "Nothing more is said in a session that is over.")
async def silent_when_over(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.ask_own("close", session_id=session_id)
    await bob.take(session_id, EV_SESSION_CLOSED)
    for one in (alice, bob):
        await expect_refusal(f"an envelope of {one.name}", one.say(session_id, "too late"), "protocol_error")
    if (last := (await bob.read_log(session_id))[-1]["event_type"]) != EV_SESSION_CLOSED:
        raise RuleBroken(f"the last envelope of the log is {last}")
    return "protocol_error"


@SESSIONS.rule("H37", "Sessions", "Only who takes part says something.")
async def participants_write(agents: TesterAgents) -> str:
    alice, bob, carol = await agents.members(3)
    session_id = await agents.open(alice, bob)
    await expect_refusal("an outsider's envelope", carol.say(session_id, "let me in"), "access_denied", "not_found")
    return "access_denied"


@SESSIONS.rule("H38", "Sessions", "Only who takes part reads.")
async def participants_read(agents: TesterAgents) -> str:
    alice, bob, carol = await agents.members(3)
    session_id = await agents.open(alice, bob)
    for op in ("info", "read_log", "can_send"):
        asked = carol.ask_own(op, session_id=session_id)
        await expect_refusal(f"{op} of an outsider", asked, "access_denied", "not_found")
    watch: Frame = {"kind": "subscribe", "subscription_id": carol.next_id(), "session_id": session_id}
    await carol.link.send({**watch, "agent_id": carol.agent_id})
    asked = carol.answer(watch["subscription_id"], "subscribe")
    await expect_refusal("a subscription of an outsider", asked, "access_denied", "not_found")
    if session_id in {one["session_id"] for one in await carol.ask_own("sessions", limit=500)}:
        raise RuleBroken("it is among the sessions of an outsider")
    return "access_denied"


@SESSIONS.rule("H40", "Sessions", "Who waits for a turn is not invited within it.")
async def no_circle(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    asked = bob.answer(await agents.start_open(bob, alice, parent=session_id), "open")
    await expect_refusal("to invite who waits", asked, "protocol_error", "access_denied")
    return "refused"


@SESSIONS.rule("H41", "Sessions", "A session expires when its time is over.")
async def expires(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    invitation = await bob.invitation(await agents.start_open(alice, bob, ttl=_SOON))
    session_id = invitation["envelope"]["session_id"]
    with suppress(Refused):  # on a slow machine its time may be over
        await bob.accept(invitation)
    await bob.take_end(session_id, EV_SESSION_EXPIRED, "ttl_expired")
    await expect_refusal("an envelope then", alice.say(session_id, "too late"), "protocol_error")
    return f"after {_SOON:g} s"


@SESSIONS.rule("H42", "Expectations", "What is expected and does not happen in time is acted upon.")
async def expectations(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    expected = [
        {"name": "max_silence", "seconds": _SOON, "on_violation": "notify_session"},
        {"name": "max_silence", "seconds": _SOON * 2, "on_violation": "auto_close"},
    ]
    session_id = await agents.open(alice, bob, knobs={"expectations": expected})
    violated = await bob.delivery(session_id, EV_EXPECTATION_VIOLATED)
    await bob.ack(violated)
    if (data := violated["envelope"]["event_data"]).get("expectation") != "max_silence":
        raise RuleBroken(f"it says {data}")
    await bob.take_end(session_id, EV_SESSION_CLOSED, "expectation:max_silence")
    return "all were told, then it was closed"
