"""Rules for hubs: who an agent is, and in whose name it may speak and ask."""

from __future__ import annotations

from agent_common.protocol.hub import EV_SESSION_CLOSED, HUB_ID

from ..rules import ConformanceRules, RuleBroken
from .agent import TesterAgent, expect_refusal, text_of
from .agents import TesterAgents

IDENTITY: ConformanceRules[TesterAgents] = ConformanceRules()
LEAVING: ConformanceRules[TesterAgents] = ConformanceRules()


@IDENTITY.rule("H20", "Links", "A token is of one agent: over its link no other name is registered.")
async def one_name(agents: TesterAgents) -> str:
    (agent,) = await agents.members(1)
    other = f"{agent.name}-other"
    await expect_refusal(f"to register {other}", agent.ask("register", passport={"name": other}), "access_denied")
    return "access_denied"


@IDENTITY.rule("H21", "Links", "An agent that registers again keeps its id, and goes on where it was.")
async def same_id(agents: TesterAgents) -> str:
    (agent,) = await agents.members(1)
    before = agent.agent_id
    await agent.rejoin()
    if agent.agent_id != before:
        raise RuleBroken(f"it was {before}, and is {agent.agent_id}")
    return before


@IDENTITY.rule("H22", "Links", "A newer link of an agent takes over from one that has not ended.")
async def newer_link(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    elder = bob.link
    await bob.connect()
    await bob.join()
    mark = elder.mark()
    await alice.say(session_id, "for the newer link")
    await bob.take(session_id, "for the newer link")
    await elder.send({"kind": "ping"})
    await elder.wait_for(lambda frame: frame["kind"] == "pong", agents.options.timeout, mark)  # unless it was ended
    notified = [one["envelope"] for one in elder.frames[mark:] if one["kind"] == "notify"]
    came = [one for one in notified if text_of(one) == "for the newer link"]
    await elder.close()
    if came:
        raise RuleBroken("the older link gets what is delivered")
    return "the newer link gets what is delivered"


@IDENTITY.rule("H23", "Requests", "An agent is found by its name, and by what it says that it can do.")
async def found(agents: TesterAgents) -> str:
    alice, bob = await agents.members(2)
    claimed = f"conformance-{bob.next_id()}"
    await bob.ask_own("set_resume", resume={"summary": "is tested", "claimed_capabilities": [claimed]})
    by_name = await alice.ask("get_agent", name=bob.name)
    if (by_name["agent_id"], by_name["resume"]["summary"]) != (bob.agent_id, "is tested"):
        raise RuleBroken(f"get_agent gives {by_name}")
    by_claim = [one["passport"]["name"] for one in await alice.ask("list_agents", capability=claimed)]
    if by_claim != [bob.name]:
        raise RuleBroken(f"those that claim it are {by_claim}")
    await expect_refusal("an agent that there is not", alice.ask("get_agent", name=f"{bob.name}-not"), "not_found")
    return bob.agent_id


@IDENTITY.rule("H24", "Links", "An agent sends in its own name only, not in that of another agent or of the hub.")
async def forged_sender(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    for sender in (alice.agent_id, HUB_ID):
        asked = bob.say(session_id, "forged", sender_id=sender)
        await expect_refusal(f"an envelope of {sender}", asked, "access_denied", "protocol_error")
    forged = [one["sender_id"] for one in await alice.read_log(session_id) if text_of(one) == "forged"]
    if forged:
        raise RuleBroken(f"the log has it, of {forged}")
    return "refused"


@IDENTITY.rule("H25", "Links", "Nobody asks in the name of another.")
async def forged_request(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    for op in ("close", "read_log", "sessions", "unregister"):
        params = {"session_id": session_id} if op in ("close", "read_log") else {}
        await expect_refusal(op, bob.ask(op, agent_id=alice.agent_id, **params), "access_denied")
    if (info := await alice.ask_own("info", session_id=session_id))["state"] != "active":
        raise RuleBroken(f"the session is {info['state']}")
    return "access_denied"


@IDENTITY.rule("H26", "Sessions", "Only the hub sends events about sessions.")
async def hub_events(agents: TesterAgents) -> str:
    alice, _, session_id = await agents.open_pair()
    asked = alice.say(session_id, "", EV_SESSION_CLOSED)
    await expect_refusal(f"to send {EV_SESSION_CLOSED}", asked, "protocol_error", "access_denied")
    return "refused"


@LEAVING.rule("H80", "Requests", "An agent that is unregistered leaves its sessions, and may do nothing more.")
async def unregister(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await bob.ask_own("unregister")
    await alice.take(session_id, EV_SESSION_CLOSED)
    await expect_refusal("to speak then", bob.say(session_id, "still here"), "access_denied")
    await _check_free(alice, bob)
    return "the session is closed"


async def _check_free(alice: TesterAgent, bob: TesterAgent) -> None:
    """Raise RuleBroken unless the name is free: who takes it is another agent."""
    await expect_refusal("to find it then", alice.ask("get_agent", name=bob.name), "not_found")
    before = bob.agent_id
    await bob.join()
    if bob.agent_id == before:
        raise RuleBroken("who takes the name has the id of the one before")
