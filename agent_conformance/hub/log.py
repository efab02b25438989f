"""Rules for hubs: the log of a session, and who reads what of it."""

from __future__ import annotations

from itertools import pairwise

from agent_testing.channel import Frame

from ..rules import ConformanceRules, RuleBroken
from .agent import NOTE, TesterAgent, expect_refusal, text_of
from .agents import TesterAgents

LOG: ConformanceRules[TesterAgents] = ConformanceRules()
_MANY = 25


@LOG.rule("H50", "Envelopes", "An envelope has the content that was sent, its true sender, and the hub's time.")
async def content(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    sent: Frame = {
        "event_data": {"text": "as sent", "more": [1, {"a": None}]},
        "causation_id": "env_0",
        "trace_id": "t",
    }
    envelope_id = await alice.say(session_id, "as sent", **sent)
    came = await bob.delivery(session_id, "as sent")
    await bob.ack(came)
    wanted = {**sent, "sender_id": alice.agent_id, "envelope_id": envelope_id, "event_type": NOTE}
    differs = {key: came["envelope"].get(key) for key in wanted if came["envelope"].get(key) != wanted[key]}
    if differs or came["recipient_id"] != bob.agent_id or not came["envelope"].get("created_at"):
        raise RuleBroken(f"it came with {differs or came}")
    return envelope_id


@LOG.rule("H51", "Envelopes", "The envelopes of a session are numbered from 1 without gaps.")
async def sequences(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    log = await _read_busy_log(agents, alice, bob)
    found = [one["sequence"] for one in log]
    if found != list(range(1, len(log) + 1)):
        raise RuleBroken(f"the numbers are {found}")
    return f"1 to {len(log)}"


@LOG.rule("H52", "Envelopes", "Each envelope has an id of its own, and ids rise in the order of the log.")
async def ids(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    logs = [await _read_busy_log(agents, alice, bob), await _read_busy_log(agents, bob, alice)]
    every = [one["envelope_id"] for log in logs for one in log]
    if len(set(every)) < len(every):
        raise RuleBroken("two envelopes have the same id")
    for log in logs:
        for one, other in pairwise(log):
            if one["envelope_id"] >= other["envelope_id"]:
                raise RuleBroken(f"{other['envelope_id']} comes after {one['envelope_id']}")
    return f"{len(every)} ids"


@LOG.rule("H53", "Envelopes", "The same idempotency key is stored once, and a repeated send returns the first id.")
async def idempotency_key(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    found = [await alice.say(session_id, "once", idempotency_key="k") for _ in range(2)]
    await alice.rejoin()
    found.append(await alice.say(session_id, "once", idempotency_key="k"))
    if len(set(found)) > 1:
        raise RuleBroken(f"the ids are {found}")
    if (count := [text_of(one) for one in await bob.read_log(session_id)].count("once")) != 1:
        raise RuleBroken(f"the log has it {count} times")
    return "once, also over a new link"


@LOG.rule("H54", "Envelopes", "Other content under an idempotency key that was used is refused.")
async def key_of_other_content(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "first", idempotency_key="k")
    asked = alice.say(session_id, "second", idempotency_key="k")
    await expect_refusal("other content", asked, "protocol_error")
    await bob.say(session_id, "third", idempotency_key="k")  # another sender's key is another key
    return "protocol_error"


@LOG.rule("H55", "Requests", "A log is read in pages, which have all of it once.")
async def pages(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    sent = [await alice.say(session_id, f"{number}") for number in range(_MANY)]
    await bob.delivery(session_id, sent[-1])
    await bob.ack_all()
    for limit in (500, 7, 1):
        found = [one["envelope_id"] for one in await bob.read_log(session_id, limit) if one["event_type"] == NOTE]
        if found != sent:
            missing = [sent.index(one) for one in sent if one not in found]
            raise RuleBroken(f"with pages of {limit}: {len(found)} of {_MANY} envelopes, without {missing}")
    return f"{_MANY} envelopes in pages of 500, 7 and 1"


@LOG.rule("H56", "Envelopes", "An envelope is the same in its delivery, in a subscription and in the log.")
async def same_everywhere(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "one", audience=[bob.agent_id], priority="urgent", task_id="t")
    last = await alice.say(session_id, "two")
    await bob.delivery(session_id, last)
    watched = await _watch(bob, session_id, "two")
    log = {one["envelope_id"]: one for one in await bob.read_log(session_id)}
    for delivered in bob.deliveries(session_id):
        envelope = delivered["envelope"]
        if not envelope == log.get(envelope["envelope_id"]) == watched.get(envelope["envelope_id"]):
            raise RuleBroken(f"{envelope['event_type']} {envelope['sequence']} differs")
    await bob.ack_all()
    return f"{len(bob.deliveries(session_id))} envelopes"


@LOG.rule("H57", "Requests", "A subscription has what is in the log after a number, then what is said, until it ends.")
async def subscription(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, "left out")
    after = (await bob.delivery(session_id, "left out"))["envelope"]["sequence"]
    await alice.say(session_id, "from the log")
    watching = await _subscribe(bob, session_id, after)
    await _watched(bob, watching, "from the log")
    await alice.say(session_id, "live")
    await _watched(bob, watching, "live")
    await bob.link.send({"kind": "unsubscribe", "subscription_id": watching})
    await bob.ping()
    await alice.say(session_id, "after its end")
    await bob.delivery(session_id, "after its end")
    await bob.ack_all()
    await bob.ping()
    if (found := [text_of(one) for one in _seen(bob, watching)]) != ["from the log", "live"]:
        raise RuleBroken(f"it has {found}")
    return "from the log, then live"


@LOG.rule("H58", "Envelopes", "An envelope is delivered to its audience alone.")
async def audience_of_deliveries(agents: TesterAgents) -> str:
    bob, carol, session_id = await _say_privately(agents)
    for one in (bob, carol):
        await one.delivery(session_id, "for all")
    got = {one.name: [text_of(found["envelope"]) for found in one.deliveries(session_id)] for one in (bob, carol)}
    if "for bob" in got[carol.name] or "for bob" not in got[bob.name]:
        raise RuleBroken(f"the one was sent {got[bob.name]}, the other {got[carol.name]}")
    return "not delivered to the third"


@LOG.rule("H59", "Envelopes", "A log shows an envelope to its sender and its audience alone.")
async def audience_of_reads(agents: TesterAgents) -> str:
    bob, carol, session_id = await _say_privately(agents)
    for one, may in ((agents.all[0], True), (bob, True), (carol, False)):
        found = [text_of(envelope) for envelope in await one.read_log(session_id)]
        if ("for bob" in found) is not may or "for all" not in found:
            raise RuleBroken(f"{one.name} reads {found}")
    return "not shown to the third"


@LOG.rule("H60", "Envelopes", "A subscription shows an envelope to its audience alone.")
async def audience_of_subscriptions(agents: TesterAgents) -> str:
    bob, carol, session_id = await _say_privately(agents)
    watching = await _subscribe(carol, session_id)
    await _watched(carol, watching, "for all")
    await agents.all[0].say(session_id, "for bob again", audience=[bob.agent_id])
    await agents.all[0].say(session_id, "the last")
    await _watched(carol, watching, "the last")
    if any(text_of(one).startswith("for bob") for one in _seen(carol, watching)):
        raise RuleBroken("the third one sees it")
    return "not shown to the third"


@LOG.rule("H61", "Envelopes", "Only participants are in an audience.")
async def audience_of_participants(agents: TesterAgents) -> str:
    alice, bob, carol = await agents.members(3)
    session_id = await agents.open(alice, bob)
    asked = alice.say(session_id, "for an outsider", audience=[bob.agent_id, carol.agent_id])
    await expect_refusal("an outsider in the audience", asked, "protocol_error", "access_denied")
    return "refused"


async def _read_busy_log(agents: TesterAgents, alice: TesterAgent, bob: TesterAgent) -> list[Frame]:
    """The log of a new session in which both have spoken at once, as the one who is invited reads it."""
    session_id = await agents.open(alice, bob)
    asked = [(one, await one.start(one.note(session_id, f"{n}"))) for n in range(_MANY) for one in (alice, bob)]
    for one, request_id in asked:
        await one.answer(request_id, "send")
    log = await bob.read_log(session_id)
    for one in (alice, bob):
        await one.ack_all()
    return log


async def _say_privately(agents: TesterAgents) -> tuple[TesterAgent, TesterAgent, str]:
    """Have the first agent speak to the second one alone, then to all. Returns the other two, and the session."""
    alice, bob, carol = await agents.members(3)
    session_id = await agents.open(alice, bob, carol)
    await alice.say(session_id, "for bob", audience=[bob.agent_id])
    await alice.say(session_id, "for all")
    return bob, carol, session_id


async def _subscribe(agent: TesterAgent, session_id: str, after: int = 0) -> str:
    watching = agent.next_id()
    subscribe = {"kind": "subscribe", "subscription_id": watching, "session_id": session_id, "after": after}
    await agent.link.send({**subscribe, "agent_id": agent.agent_id})
    return watching


async def _watch(agent: TesterAgent, session_id: str, until: str) -> dict[str, Frame]:
    """The envelopes of a subscription up to a text, by id."""
    watching = await _subscribe(agent, session_id)
    await _watched(agent, watching, until)
    return {one["envelope_id"]: one for one in _seen(agent, watching)}


async def _watched(agent: TesterAgent, watching: str, text: str) -> None:
    """Wait until a subscription has a text. Raises RuleBroken."""
    await agent.link.expect(
        f"{text!r} in a subscription",
        lambda frame: frame.get("subscription_id") == watching and text_of(frame["envelope"]) == text,
        agent.options.timeout,
    )


def _seen(agent: TesterAgent, watching: str) -> list[Frame]:
    return [one["envelope"] for one in agent.link.frames if one.get("subscription_id") == watching]
