"""Rules for agents: the extensions. They apply to agents that offer them."""

from __future__ import annotations

import asyncio
import base64
from itertools import pairwise
from typing import Any

from agent_common.protocol.work import encode, payload_hash, stamp

from ..host import TesterHost, TesterSession, fresh_challenge
from ..link import Frame, brief, is_ack, is_ctl, is_result, is_signal
from ..rules import ConformanceRules, NotApplicable, RuleBroken

CONTROL: ConformanceRules[TesterHost] = ConformanceRules()
DRAIN: ConformanceRules[TesterHost] = ConformanceRules()
"""Come last: an agent that has drained need not come back."""
HEARTBEAT = 0.4


@CONTROL.rule("A40", "3", "A challenge is answered with attach and the right MAC, and then there is work.")
async def proves_itself(host: TesterHost) -> str:
    if host.options.key is None:
        raise NotApplicable("needs the workspace's key: give it with --key-file")
    challenge = fresh_challenge()
    session = await _fresh(host, challenge=challenge)
    if session.attach is None:
        raise RuleBroken("no attach came")
    if not host.proves(session, challenge):
        raise RuleBroken("the sid or the MAC is wrong")
    await host.done(session.link, host.request())
    return "attached"


@CONTROL.rule("A41", "3", "Nothing is sent between welcome with a challenge and attach.")
async def proves_first(host: TesterHost) -> str:
    if host.options.key is None:
        raise NotApplicable("needs the workspace's key: give it with --key-file")
    session = await _fresh(host, challenge=fresh_challenge())
    after = session.link.frames[len(session.before) + 1 :]
    if session.attach is None:
        await host.drop()
        raise NotApplicable("no attach came: see A40")
    first = next(frame for frame in after if not is_ack(frame))
    if not is_ctl(first, "attach"):
        raise RuleBroken(f"{brief(first)} came first")
    return "attach came first"


@CONTROL.rule("A42", "2.3", "A ping is answered with a pong of the same number.")
async def pong(host: TesterHost) -> str:
    link, request = (await host.session(ctl=True)).link, host.request()
    mark = link.mark()
    await link.send_bytes(encode({"ctl": "ping", "n": 4711}) + encode(request))  # two frames in one piece
    await link.expect(
        "a pong with n=4711", lambda frame: is_ctl(frame, "pong") and frame.get("n") == 4711, host.options.timeout, mark
    )
    await host.result(link, request, mark, host.options.timeout * 3)
    return "pong"


@CONTROL.rule("A43", "2.8", "A host that has been silent for three heartbeats is left.")
async def leaves_the_dead(host: TesterHost) -> str:
    session = await _fresh(host, heartbeat_s=HEARTBEAT)
    if await session.link.ended(HEARTBEAT * 5) is not None:
        raise RuleBroken("a host that answers its pings was left, too")
    host.pongs = False
    try:
        if await session.link.ended(HEARTBEAT * 3 + host.options.timeout) is None:
            raise RuleBroken(
                f"the connection is open {HEARTBEAT * 3 + host.options.timeout:g} s after the last word of the host"
            )
    finally:
        host.pongs = True
    return "closed"


@CONTROL.rule("A35", "2.3", "Control frames that the agent does not know, and fields in known ones, are ignored.")
async def unknown_control(host: TesterHost) -> str:
    link = (await host.session(ctl=True)).link
    await link.send(*({"ctl": "teleport", "to": number} for number in range(12)))
    await link.send({"ctl": "ping", "n": 1, "colour": "blue"})
    await host.done(link, host.request())
    return "12 unknown frames, then a result"


@CONTROL.rule("A44", "2.7", "Results that were never acknowledged are named in resume.")
async def resumes(host: TesterHost) -> str:
    request, _ = await _unacked(host)
    session = await _fresh(host)
    if session.resume is None:
        raise RuleBroken("no resume came")
    if request["request_id"] not in session.resume.get("unacked", ()):
        raise RuleBroken(f"resume names {session.resume.get('unacked')}")
    return "named"


@CONTROL.rule("A45", "2.7", "A result that was never acknowledged is sent again when the host wants it.")
async def resends(host: TesterHost) -> str:
    request, result = await _unacked(host)
    with host.wanting(request, "resend", "resend"):
        session = await _fresh(host)
    if session.resume is None or request["request_id"] not in session.resume.get("unacked", ()):
        raise NotApplicable("resume does not name it: see A44")
    again = await host.result(session.link, request, 0)
    if {**again, "audit_ref": ""} != {**result, "audit_ref": ""}:
        raise RuleBroken(f"another result came: {brief(again)}")
    return "the same result"


@CONTROL.rule("A46", "2.7", "A result that was acknowledged is not sent again.")
async def prunes(host: TesterHost) -> str:
    link, request = (await host.session(ctl=True)).link, host.request()
    mark = link.mark()
    await host.done(link, request)
    await link.send({"ctl": "ping", "n": 1})
    await link.find(lambda frame: is_ctl(frame, "pong"), host.options.quiet, mark)  # the ack has been read by then
    session = await _fresh(host)
    if session.resume is not None and request["request_id"] in session.resume.get("unacked", ()):
        raise RuleBroken("resume names it")
    if await session.link.find(lambda frame: is_result(frame, request["request_id"]), host.options.quiet):
        raise RuleBroken("it was sent again")
    return "forgotten"


@CONTROL.rule("A50", "2.7", "A result that the host wants forgotten is not sent.")
async def forgets(host: TesterHost) -> str:
    request, _ = await _unacked(host)
    session = await _fresh(host)  # says `forget`
    if session.resume is None:
        raise NotApplicable("no resume came: see A44")
    if await session.link.find(lambda frame: is_result(frame, request["request_id"]), host.options.quiet):
        raise RuleBroken("it was sent")
    return "not sent"


@CONTROL.rule("A47", "2.3", "A request that is cancelled ends soon, with a result that is not completed.")
async def cancels(host: TesterHost) -> str:
    link = (await host.session(ctl=True)).link
    request, mark = await host.started_slowly(link)
    await link.send({"ctl": "cancel", "request_id": request["request_id"], "reason": "a test"})
    result = await host.result(link, request, mark)
    await link.find(lambda frame: is_signal(frame, "completed", request["request_id"]), host.options.quiet, mark)
    if result.get("status") != "failed":
        raise RuleBroken(f"came: {brief(result)}")
    return brief(result)


@CONTROL.rule("A51", "2.7", "Work that the host wants cancelled after a break stops.")
async def cancels_after_break(host: TesterHost) -> str:
    session = await host.session(ctl=True)
    request, _ = await host.started_slowly(session.link)
    session = await _fresh(host)  # says `cancel` to what runs
    if session.resume is None or request["request_id"] not in session.resume.get("running", ()):
        raise NotApplicable("resume does not name it as running")
    done = await session.link.find(
        lambda frame: is_result(frame, request["request_id"]) and frame.get("status") == "completed",
        host.options.timeout,
    )
    if done:
        raise RuleBroken("it was completed")
    return "stopped"


@CONTROL.rule("A49", "2.3", "The numbers of progress frames grow.")
async def progress(host: TesterHost) -> str:
    link, request = (await host.session(ctl=True)).link, host.request(host.options.slow)
    mark, name = link.mark(), request["request_id"]
    await link.send(request)
    await host.result(link, request, mark, host.options.timeout * 3)
    numbers = [
        int(frame["seq"])
        for frame in link.frames[mark:]
        if is_ctl(frame, "progress") and frame.get("request_id") == name
    ]
    if not numbers:
        raise NotApplicable("no progress came")
    if any(one >= other for one, other in pairwise(numbers)):
        raise RuleBroken(f"came: {numbers[:20]}")
    return f"{len(numbers)} frames"


@CONTROL.rule(
    "A53", "2.4", "Constraints that are pushed are acknowledged with the hash of the raw bytes, and hold then."
)
async def push(host: TesterHost) -> str:
    session = await host.session(ctl=True)
    link, version, mark = session.link, host.version + 1, session.link.mark()
    ack = await _push(host, session, version, payload_hash(host.options.payload))
    if ack is None:
        refused = next((frame for frame in link.frames[mark:] if is_ctl(frame, "nack")), None)
        if refused:
            raise NotApplicable(f"the agent refuses this payload: {brief(refused)}; give one with --constraints")
        raise RuleBroken("no ConstraintAck came")
    if ack.get("hash") != payload_hash(host.options.payload):
        raise RuleBroken(f"the hash is {ack.get('hash')!r}, that of the bytes {payload_hash(host.options.payload)!r}")
    host.version = version
    await host.done(link, host.request())
    return f"version {version}"


@CONTROL.rule("A54", "2.4", "Constraints with a hash that is not that of their bytes are never acknowledged.")
async def push_of_a_lie(host: TesterHost) -> str:
    session = await host.session(ctl=True)
    if await _push(host, session, host.version + 1, payload_hash(b"something else"), host.options.quiet):
        host.version += 1
        raise RuleBroken("they were acknowledged")
    return "not acknowledged"


@DRAIN.rule("A70", "2.3", "While it drains, the agent takes no new work, and ends what it has.")
async def drains(host: TesterHost) -> str:
    link = (await host.session(ctl=True)).link
    slow, mark = await host.started_slowly(link)
    await link.send({"ctl": "drain", "deadline_s": 60}, another := host.request())
    await host.result(link, slow, mark, host.options.timeout * 3)
    if any(is_signal(frame, "accepting", another["request_id"]) for frame in link.frames[mark:]):
        raise RuleBroken("the new request was accepted")
    host.drained = link
    return ", ".join(map(brief, host.of(link, another, mark))) or "the new request was not answered"


@DRAIN.rule("A71", "2.3", "An agent that has drained closes the connection.")
async def closes(host: TesterHost) -> str:
    link = host.drained
    if link is None:
        link = (await host.session(ctl=True)).link
        await link.send({"ctl": "drain", "deadline_s": 1})
    if await link.ended(host.options.timeout + 1) is None:
        raise RuleBroken("the connection is still open")
    return f"closed ({link.left})"


async def _fresh(host: TesterHost, **welcome: Any) -> TesterSession:
    session = await host.fresh(**welcome)
    if not session.negotiated:
        raise NotApplicable("the agent offers no extensions")
    return session


async def _unacked(host: TesterHost) -> tuple[Frame, Frame]:
    """A request that is done, and its result, which was not acknowledged before the connection ended."""
    session = await host.session(ctl=True)
    request, host.acks = host.request(), False
    try:
        result = await host.done(session.link, request)
    finally:
        host.acks = True
    await host.drop()
    return request, result


async def _push(
    host: TesterHost, session: TesterSession, version: int, told: str, seconds: float | None = None
) -> Frame | None:
    link, mark = session.link, session.link.mark()
    payload = base64.b64encode(host.options.payload).decode()
    await link.send(
        {"ctl": "constraints_payload", "version": version, "b64": payload, "severity": "LOW"},
        {"version": version, "hash": told, "effective_at": stamp(host.clock.now_ms()), "payload_ref": "inline"},
    )
    await asyncio.sleep(0)
    return await link.find(
        lambda frame: (is_ack(frame) and frame.get("version") == version) or is_ctl(frame, "nack"),
        host.options.timeout if seconds is None else seconds,
        mark,
    ) and next((frame for frame in link.frames[mark:] if is_ack(frame)), None)
