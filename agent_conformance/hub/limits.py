"""Rules for hubs: what an agent's rule allows is enforced, and a refusal says when to try again."""

from __future__ import annotations

from typing import Any

from ..rules import ConformanceRules, RuleBroken
from .agent import Refused, TesterAgent, expect_refusal, is_delivery, text_of
from .agents import TesterAgents

LIMITS: ConformanceRules[TesterAgents] = ConformanceRules()


@LIMITS.rule("H74", "Rules", "A send to a full inbox is refused with inbox_full, which says when to try again.")
async def inbox_full(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    await bob.join(inbox={"max_pending": 2})
    session_id = await agents.open(alice, bob)
    for text in ("one", "two"):
        await alice.say(session_id, text)
    refusal = await expect_refusal("one more than max_pending", alice.say(session_id, "three"), "inbox_full")
    if not _is_time(refusal.retry_after):
        raise RuleBroken(f"retry_after is {refusal.retry_after!r}")
    await bob.take(session_id, "one")
    await bob.ping()
    await alice.say(session_id, "three")
    for text in ("two", "three"):
        await bob.take(session_id, text)
    return f"inbox_full, again in {refusal.retry_after:g} s"


@LIMITS.rule("H75", "Rules", "A full inbox may drop the newest instead, which stays in the log.")
async def drop_newest(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    await bob.join(inbox={"max_pending": 1, "overflow": "drop_newest"})
    session_id = await agents.open(alice, bob)
    for text in ("kept", "dropped"):
        await alice.say(session_id, text)
    await bob.take(session_id, "kept")
    await bob.ping()
    await alice.say(session_id, "the next")
    await bob.take(session_id, "the next")
    return await _check_dropped(bob, session_id)


@LIMITS.rule("H76", "Rules", "No more envelopes than in_flight are sent and not acknowledged.")
async def in_flight(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    await bob.join(inbox={"in_flight": 2})
    session_id = await agents.open(alice, bob)
    for text in ("one", "two", "three", "four"):
        await alice.say(session_id, text)
    first = await bob.delivery(session_id, "one")
    await bob.delivery(session_id, "two")
    await bob.ping()
    if (found := _texts(bob, session_id)) != ["one", "two"]:
        raise RuleBroken(f"with 2 in flight there came {found}")
    await bob.ack(first)
    for text in ("three", "four"):
        await bob.delivery(session_id, text)
        await bob.ack_all()
    return "2, then one for each that was acknowledged"


@LIMITS.rule("H77", "Envelopes", "Of the sessions that wait for an agent, the more urgent is delivered first.")
async def priority(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    await bob.join(inbox={"in_flight": 1})
    sessions = [await agents.open(alice, bob) for _ in range(2)]
    await alice.say(sessions[0], "first")
    first = await bob.delivery(sessions[0], "first")
    await alice.say(sessions[0], "normal")
    await alice.say(sessions[1], "urgent", priority="urgent")
    mark = bob.link.mark()
    await bob.ack(first)
    await bob.take(sessions[1], "urgent")
    await bob.take(sessions[0], "normal")
    texts = [text_of(one["envelope"]) for one in bob.link.frames[mark:] if is_delivery(one)]
    came = [one for one in dict.fromkeys(texts) if one in ("urgent", "normal")]
    if came != ["urgent", "normal"]:
        raise RuleBroken(f"the order is {came}")
    return "urgent, normal"


@LIMITS.rule("H78", "Rules", "Who sends faster than its rate gets rate_limited, which says when to try again.")
async def rate(agents: TesterAgents) -> str:
    alice, _, session_id = await agents.open_pair()
    await alice.join(rate={"per_minute": 1, "burst": 1})
    refusal = await _first_refusal(alice, session_id)
    if refusal.code != "rate_limited" or not _is_time(refusal.retry_after):
        raise RuleBroken(f"refused with {refusal.code!r}, retry_after {refusal.retry_after!r}")
    return f"rate_limited, again in {refusal.retry_after:g} s"


@LIMITS.rule("H79", "Rules", "Only whom an agent's rule lets may invite it, and to the types that it accepts.")
async def access(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    rules: tuple[dict[str, Any], ...] = (
        {"access": {"inbound_from": [f"{bob.name}-friend"]}},
        {"session_types": {"accept": ["workflow"]}},
    )
    for rule in rules:
        await bob.join(**rule)
        asked = alice.answer(await agents.start_open(alice, bob), "open")
        await expect_refusal(f"an invitation against {rule}", asked, "access_denied")
    return "access_denied"


@LIMITS.rule("H81", "Rules", "An agent has no more open sessions than its rule allows.")
async def concurrent_sessions(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    await alice.join(max_concurrent_sessions=1)
    session_id = await agents.open(alice, bob)
    asked = alice.answer(await agents.start_open(alice, bob), "open")
    await expect_refusal("a second session", asked, "rate_limited")
    await alice.ask_own("close", session_id=session_id)
    await agents.open(alice, bob)
    return "rate_limited, until one is closed"


@LIMITS.rule("H82", "Rules", "A full inbox may drop the oldest that was not sent yet instead, which stays in the log.")
async def drop_oldest(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    await bob.join(inbox={"max_pending": 2, "overflow": "drop_oldest", "in_flight": 1})
    session_id = await agents.open(alice, bob)
    await alice.say(session_id, "sent")
    sent = await bob.delivery(session_id, "sent")
    for text in ("dropped", "kept"):
        await alice.say(session_id, text)
    await bob.ack(sent)
    await bob.take(session_id, "kept")
    return await _check_dropped(bob, session_id)


async def _check_dropped(agent: TesterAgent, session_id: str) -> str:
    """Return what was seen of the envelope that the inbox had to drop. Raises RuleBroken."""
    if "dropped" in _texts(agent, session_id):
        raise RuleBroken("it was delivered")
    if "dropped" not in [text_of(one) for one in await agent.read_log(session_id)]:
        raise RuleBroken("it is not in the log")
    return "not delivered, and in the log"


async def _first_refusal(agent: TesterAgent, session_id: str) -> Refused:
    """Speak until that is refused. Raises RuleBroken."""
    for number in range(5):
        try:
            await agent.say(session_id, f"{number}")
        except Refused as refusal:
            return refusal
    raise RuleBroken("5 envelopes at once were accepted with a rate of 1 in a minute")


def _texts(agent: TesterAgent, session_id: str) -> list[str]:
    return [text for one in agent.deliveries(session_id) if (text := text_of(one["envelope"]))]


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
