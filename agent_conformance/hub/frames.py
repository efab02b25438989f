"""Rules for hubs: the first frames, what is no frame, and requests."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import to_json

from agent_common.protocol.hub import MAX_ENVELOPE, MAX_FRAME, NetworkError
from agent_testing.channel import Frame

from ..rules import ConformanceRules, RuleBroken
from .agent import NOTE, TesterAgent, expect_refusal, request, text_of
from .agents import TesterAgents

FRAMES: ConformanceRules[TesterAgents] = ConformanceRules()
GLOBAL: ConformanceRules[TesterAgents] = ConformanceRules()
_BIG = "x" * 1_000_000
_NO_JSON = ("this is no JSON", '{"kind": "ping"', "[1, 2]", "null", '"ping"', "")
_NO_FRAMES = (
    '{"kind": "teleport"}',
    '{"to": "nobody"}',
    '{"kind": ["ping"]}',
    '{"kind": "ping", "colour": "blue"}',
    '{"kind": "request", "request_id": 7, "op": "get_agent", "params": []}',
)


@FRAMES.rule("H01", "Frames", "Hello is answered with welcome.")
async def welcomes(agents: TesterAgents) -> str:
    await agents.wait_for_hub()
    await agents.check_unused()
    welcome = await agents.all[0].connect()
    return f"link {welcome['endpoint_id']}"


@FRAMES.rule("H02", "Frames", "A hello of another version is refused with protocol_error.")
async def other_version(agents: TesterAgents) -> str:
    agent = agents.all[0]
    await agent.drop()
    link = await agent.dial()
    await link.send({"kind": "hello", "version": 4711})
    answer = await link.wait_for(lambda _: True, agents.options.timeout)
    await link.close()
    if answer is not None and (answer["kind"], answer.get("code")) != ("error", "protocol_error"):
        raise RuleBroken(f"the answer is {answer}")
    return "refused"


@FRAMES.rule("H03", "Frames", "A ping is answered with pong.")
async def answers_ping(agents: TesterAgents) -> str:
    (agent,) = await agents.members(1)
    for _ in range(3):
        await agent.ping()
    return "three pongs"


@FRAMES.rule("H04", "Frames", "A message that is no JSON object is refused or ends its link, and no other.")
async def no_json(agents: TesterAgents) -> str:
    return await _check_bad_frames(agents, _NO_JSON)


@FRAMES.rule("H05", "Frames", "A frame of no known kind and shape is refused or ends its link, and no other.")
async def unknown_kind(agents: TesterAgents) -> str:
    return await _check_bad_frames(agents, _NO_FRAMES)


@FRAMES.rule("H06", "Frames", "A frame beyond 1 MiB and 64 KiB is refused or ends its link, and no other.")
async def oversize(agents: TesterAgents) -> str:
    return await _check_bad_frames(agents, [to_json({"kind": "ping", "more": "x" * MAX_FRAME}).decode()])


@FRAMES.rule("H07", "Frames", "A frame that is cut off has no effect, and ends no other link.")
async def cut(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    whole = to_json({**alice.note(session_id, "cut" * 1000), "request_id": alice.next_id()}).decode()
    await alice.link.send_cut(whole)
    await bob.ping()
    await alice.join()
    await alice.say(session_id, "whole")
    await bob.take(session_id, "whole")
    if len(texts := [text_of(one) for one in await bob.read_log(session_id) if one["event_type"] == NOTE]) != 1:
        raise RuleBroken(f"the log has {texts}")
    return "only what was whole is in the log"


@FRAMES.rule("H08", "Envelopes", "An envelope with an unknown field is refused, and nothing is stored.")
async def unknown_field(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    misspelt = alice.note(session_id, "for nobody else", audiense=[bob.agent_id])
    request_id = await alice.start(misspelt)
    await expect_refusal("an envelope with audiense", alice.answer(request_id, "send"), "protocol_error")
    if any(text_of(one) for one in await bob.read_log(session_id)):
        raise RuleBroken("it is in the log")
    return "protocol_error"


@FRAMES.rule("H09", "Envelopes", "An envelope may have 1 MiB; a larger one is refused, and the link goes on.")
async def large_envelope(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    await alice.say(session_id, _BIG)
    await bob.take(session_id, _BIG)
    await expect_refusal("a larger one", alice.say(session_id, "y" * (MAX_ENVELOPE + 1)), "protocol_error")
    await alice.ping()
    return f"{len(_BIG)} bytes were delivered"


@FRAMES.rule("H10", "Requests", "A request that is unknown or wrong is refused with its request_id; the link goes on.")
async def wrong_requests(agents: TesterAgents) -> str:
    (agent,) = await agents.members(1)
    for what in (request("teleport"), request("get_agent", nobody=7), request("open", agent_id=agent.agent_id)):
        name = f"{what['op']} {what['params']}"
        await expect_refusal(name, agent.answer(await agent.start(what), name), "protocol_error")
    await agent.ping()
    return "protocol_error"


@FRAMES.rule("H11", "Requests", "Requests of a link are answered side by side: one that waits holds up no other.")
async def side_by_side(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    opening = await agents.start_open(alice, bob)
    invitation = await bob.invitation(opening)
    await alice.ping()
    await alice.say(session_id, "meanwhile")
    await alice.ask("get_agent", name=bob.name)
    await bob.take(session_id, "meanwhile")
    await bob.accept(invitation)
    await alice.answer(opening, "open")
    return "others were answered while an invitation waited"


@FRAMES.rule("H12", "Links", "A link without a valid token is refused.")
async def wrong_token(agents: TesterAgents) -> str:
    agent = TesterAgent(agents.all[0].name, "", agents.address, agents.options)
    for token in ("", f"{agents.all[0].token}x"):
        try:
            await agent.dial(token)
            await agent.join()
        except (NetworkError, RuleBroken):
            continue
        finally:
            await agent.drop()
        raise RuleBroken("without a token an agent was registered" if not token else "any token will do")
    return "refused"


@GLOBAL.rule("H90", "Frames", "All that the hub sends is a frame that a hub may send.")
async def only_frames(agents: TesterAgents) -> str:
    links = [link for agent in agents.all for link in agent.links]
    for link in links:
        if link.faults:
            raise RuleBroken(f"{link.name}: {link.faults[0]}")
    return f"{sum(len(link.frames) for link in links)} frames"


async def _check_bad_frames(agents: TesterAgents, messages: Sequence[str]) -> str:
    """Each is refused or ends the link; the other agent's link and a new one work."""
    alice, bob = await agents.members(2)
    seen: set[str] = set()
    for message in messages:
        await alice.join()
        mark = alice.link.mark()
        await alice.link.send_text(message)
        answer = await alice.link.wait_for(_is_error, agents.options.timeout, mark)
        if answer is None and alice.link.peer_ended is None:
            raise RuleBroken(f"no answer to {message[:60]!r}, and the link goes on")
        if answer is not None:
            if answer["code"] != "protocol_error":
                raise RuleBroken(f"{message[:60]!r} is refused with {answer['code']!r}")
            await alice.ping()
        seen.add("refused" if answer is not None else f"the link ended ({alice.link.peer_ended})")
        await bob.ping()
    await alice.join()
    session_id = await agents.open(alice, bob)
    await alice.say(session_id, "after")
    await bob.take(session_id, "after")
    return f"{len(messages)} of them: {', '.join(sorted(seen))}"


def _is_error(frame: Frame) -> bool:
    return frame["kind"] == "error"
