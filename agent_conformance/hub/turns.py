"""Rules for hubs: who has the turn in a session, and who has the next one."""

from __future__ import annotations

from typing import Any

from agent_common.protocol.hub import EV_FINISH, EV_HANDOFF, EV_SESSION_CLOSED, EV_TEXT

from ..rules import ConformanceRules, RuleBroken
from .agent import TesterAgent, expect_refusal
from .agents import TesterAgents

TURNS: ConformanceRules[TesterAgents] = ConformanceRules()


@TURNS.rule("H39", "Types of sessions", "In a consulting session each has one turn, the creator first.")
async def consulting(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    session_id = await agents.open(alice, bob, type="consulting")
    await expect_refusal("the other one's text first", bob.say(session_id, "first", EV_TEXT), "protocol_error")
    await alice.say(session_id, "question", EV_TEXT)
    await expect_refusal("a second text", alice.say(session_id, "again", EV_TEXT), "protocol_error")
    await bob.take(session_id, "question")
    await bob.say(session_id, "answer", EV_TEXT)
    await alice.take_end(session_id, EV_SESSION_CLOSED, "consulting_complete")
    return "question, answer, closed"


@TURNS.rule(
    "H43", "Types of sessions", "In a discussion the turn goes round from its creator, as the others were named."
)
async def discussion(agents: TesterAgents) -> str:
    alice, bob, carol = await agents.members(3)
    session_id = await agents.open(alice, carol, bob, type="discussion")
    for _ in range(2):
        await _take_turn(session_id, alice, bob, carol)
        await _take_turn(session_id, carol, alice, bob)
        await _take_turn(session_id, bob, alice, carol)
    return f"{alice.name}, {carol.name}, {bob.name}, twice"


@TURNS.rule(
    "H44", "Types of sessions", "In a workflow a handoff gives the turn to whom it names, and a finish ends it."
)
async def workflow(agents: TesterAgents) -> str:
    alice, bob, carol = await agents.members(3)
    graph = {"default_target": {"kind": "round_robin"}}
    session_id = await agents.open(alice, bob, carol, type="workflow", knobs={"graph": graph})
    await _take_turn(session_id, alice, bob, carol)
    await _take_turn(session_id, bob, alice, carol, event_type=EV_HANDOFF, target=alice.name)
    await _take_turn(session_id, alice, bob, carol, event_type=EV_HANDOFF, target=carol.agent_id)
    asked = carol.say(session_id, "", EV_HANDOFF, event_data={"target": f"{carol.name}-not"})
    await expect_refusal("a handoff to somebody who takes no part", asked, "protocol_error")
    await _take_turn(session_id, carol, alice, bob, event_type=EV_FINISH)
    await bob.take(session_id, EV_SESSION_CLOSED)
    return "by name, by id, closed"


async def _take_turn(
    session_id: str, speaker: TesterAgent, *others: TesterAgent, event_type: str = EV_TEXT, **data: Any
) -> None:
    """Take a turn that only the speaker may take. Raises RuleBroken."""
    for one in others:
        await one.say(session_id, "this is no turn")
        await expect_refusal(f"a turn of {one.name}", one.say(session_id, "out of turn", EV_TEXT), "protocol_error")
    may = [one.name for one in (speaker, *others) if await one.ask_own("can_send", session_id=session_id)]
    if may != [speaker.name]:
        raise RuleBroken(f"it is the turn of {speaker.name}, and can_send says that {may} may speak")
    await speaker.say(session_id, "", event_type, event_data={"text": "a turn", **data})
