"""Rules for hubs: envelopes are delivered in order, at least once, and until each is acknowledged."""

from __future__ import annotations

import asyncio
from functools import partial

from agent_testing.channel import Frame

from ..rules import ConformanceRules, RuleBroken
from .agent import NOTE, TesterAgent, is_delivery, text_of
from .agents import TesterAgents

DELIVERY: ConformanceRules[TesterAgents] = ConformanceRules()
_MANY = 20
_TTL = 0.3


@DELIVERY.rule("H62", "Delivery", "What is said is delivered to each other participant, in the order of the log.")
async def order(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    asked = [await alice.start(alice.note(session_id, f"{number}")) for number in range(_MANY)]
    sent = [await alice.answer(one, "send") for one in asked]
    for one in sent:
        await bob.delivery(session_id, one)
    found = [one["envelope"]["envelope_id"] for one in bob.deliveries(session_id) if _is_note(one)]
    await bob.ack_all()
    if found != sent:
        raise RuleBroken(f"the order is {[sent.index(one) for one in found if one in sent]}")
    if any(_is_note(one) for one in alice.deliveries(session_id)):
        raise RuleBroken("the sender gets its own")
    return f"{_MANY} in order"


@DELIVERY.rule("H63", "Delivery", "What is not acknowledged comes again over the next link.")
async def again_after_a_break(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "not acknowledged")
    await bob.delivery(session_id, "not acknowledged")
    await bob.rejoin()
    await bob.take(session_id, "not acknowledged")
    return "it came again"


@DELIVERY.rule("H64", "Delivery", "What was said while an agent was away is delivered when it comes back, in order.")
async def while_away(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await bob.drop()
    sent = [await alice.say(session_id, f"{number}") for number in range(3)]
    await bob.join()
    for one in sent:
        await bob.delivery(session_id, one)
    found = [one["envelope"]["envelope_id"] for one in bob.deliveries(session_id) if _is_note(one)]
    await bob.ack_all()
    if found != sent:
        raise RuleBroken(f"the order is {[sent.index(one) for one in found]}")
    return f"{len(sent)} in order"


@DELIVERY.rule("H65", "Delivery", "A nack brings an envelope again after a pause, with the number of the attempt.")
async def again_after_nack(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "nacked")
    delivered = await bob.delivery(session_id, "nacked")
    mark = bob.link.mark()
    await bob.nack(delivered)
    again = await bob.delivery(session_id, "nacked", mark)
    await bob.ack(again)
    if again["attempt"] != 2:
        raise RuleBroken(f"the attempt is {again['attempt']}")
    return "attempt 2"


@DELIVERY.rule("H66", "Delivery", "A nacked envelope is not overtaken by later ones of its session.")
async def nacked_comes_first(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "first")
    delivered = await bob.delivery(session_id, "first")
    mark = bob.link.mark()
    await bob.nack(delivered)
    await bob.ping()
    await alice.say(session_id, "second")
    await bob.take(session_id, "first", mark)
    await bob.take(session_id, "second", mark)
    found = _texts(bob, session_id, mark)
    if found != ["first", "second"]:
        raise RuleBroken(f"the order is {found}")
    return "first, second"


@DELIVERY.rule("H67", "Delivery", "What is acknowledged does not come again.")
async def acknowledged_is_done(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "acknowledged")
    delivered = await bob.delivery(session_id, "acknowledged")
    mark = bob.link.mark()
    await bob.ack(delivered)
    await bob.ping()
    wrong = partial(_is_note_of, session_id=session_id, text="acknowledged")
    if await bob.link.wait_for(wrong, agents.options.quiet_seconds, mark):
        raise RuleBroken("it came again")
    return "it came once"


@DELIVERY.rule("H68", "Delivery", "What is acknowledged does not come again over the next link either.")
async def acknowledged_is_kept(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "acknowledged")
    await bob.take(session_id, "acknowledged")
    await bob.ping()
    await bob.rejoin()
    await alice.say(session_id, "the next")
    await bob.take(session_id, "the next")
    if "acknowledged" in _texts(bob, session_id):
        raise RuleBroken("it came again")
    return "it came once"


@DELIVERY.rule("H69", "Delivery", "Each envelope is acknowledged by itself: a later one says nothing of those before.")
async def set_of_acks(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    for text in ("one", "two", "three"):
        await alice.say(session_id, text)
    for text in ("three", "two"):
        await bob.take(session_id, text)
    await bob.ping()
    await bob.rejoin()
    await bob.take(session_id, "one")
    await alice.say(session_id, "four")
    await bob.take(session_id, "four")
    found = _texts(bob, session_id)
    if found != ["one", "four"]:
        raise RuleBroken(f"after two and three were acknowledged, there came {found}")
    return "the first came again, the others did not"


@DELIVERY.rule("H70", "Delivery", "Only the agent that got an envelope can acknowledge it.")
async def forged_receipt(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "for bob")
    await alice.link.send(bob.receipt(await bob.delivery(session_id, "for bob")))
    await alice.ping()
    await bob.rejoin()
    await bob.take(session_id, "for bob")
    return "it came again to the one that it is for"


@DELIVERY.rule("H71", "Delivery", "A receipt for what was not delivered has no effect.")
async def unknown_receipt(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "delivered")
    delivered = await bob.delivery(session_id, "delivered")
    for fields in ({"envelope_id": "env_ffff"}, {"session_id": "hs_none"}):
        await bob.link.send({**bob.receipt(delivered), **fields})
    await bob.ping()
    await bob.rejoin()
    await bob.take(session_id, "delivered")
    return "the link goes on, and nothing is acknowledged"


@DELIVERY.rule(
    "H72", "Delivery", "An envelope that is older than its ttl_seconds is not delivered, and stays in the log."
)
async def too_old(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await bob.drop()
    await alice.say(session_id, "short-lived", ttl_seconds=_TTL)
    await alice.say(session_id, "lasting")
    await asyncio.sleep(_TTL * 2)
    await bob.join()
    await bob.take(session_id, "lasting")
    if "short-lived" in _texts(bob, session_id):
        raise RuleBroken("it was delivered")
    if "short-lived" not in [text_of(one) for one in await bob.read_log(session_id)]:
        raise RuleBroken("it is not in the log")
    return f"not delivered after {_TTL * 2:g} s"


@DELIVERY.rule("H73", "Delivery", "The outcome in a receipt is kept, and so is which envelope answers which.")
async def outcome(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    asked = await alice.say(session_id, "question")
    delivered = await bob.delivery(session_id, "question")
    reply = await bob.say(session_id, "answer", causation_id=asked)
    await bob.ack(delivered, outcome="replied")
    await bob.ping()
    envelope = delivered["envelope"]
    known = {"session_id": session_id, "envelope_id": asked, "sequence": envelope["sequence"]}
    if (turn := await bob.ask_own("turn", **known)) != {"reply": reply, "outcome": "replied"}:
        raise RuleBroken(f"turn gives {turn}")
    await alice.ack_all()
    return "replied"


def _is_note(delivery: Frame) -> bool:
    return delivery["envelope"]["event_type"] == NOTE


def _is_note_of(frame: Frame, *, session_id: str, text: str) -> bool:
    return is_delivery(frame, session_id) and text_of(frame["envelope"]) == text


def _texts(agent: TesterAgent, session_id: str, since: int = 0) -> list[str]:
    """What was delivered, in the order in which it came first: that it comes too often is for another rule."""
    notes = [one for one in agent.deliveries(session_id, since) if _is_note(one)]
    return list(dict.fromkeys(text_of(one["envelope"]) for one in notes))
