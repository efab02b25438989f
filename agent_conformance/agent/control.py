"""Rules for agents: the extensions. They apply to agents that offer them."""

from __future__ import annotations

import asyncio
import base64
from itertools import pairwise
from typing import Any

from agent_common.protocol.work import encode, new_challenge, payload_hash
from agent_testing.channel import Frame, brief, is_ack, is_ctl, is_result, is_signal, now

from ..host import TesterHost, TesterSession
from ..rules import ConformanceRules, NotApplicable, RuleBroken

CONTROL: ConformanceRules[TesterHost] = ConformanceRules()
DRAIN: ConformanceRules[TesterHost] = ConformanceRules()
"""Rules that are tried last: an agent that has drained need not come back."""
HEARTBEAT = 0.4


@CONTROL.rule("A40", "3", "A challenge is answered with attach and the right MAC, and then there is work.")
async def answers_challenge(host: TesterHost) -> str:
    if host.options.key is None:
        raise NotApplicable("needs the workspace's key: give it with --key-file")
    challenge = new_challenge()
    session = await _negotiated_session(host, challenge=challenge)
    if session.attach is None:
        raise RuleBroken("no attach came")
    if not host.has_valid_proof(session, challenge):
        raise RuleBroken("the sid or the MAC is wrong")
    await host.run_request(session.link, host.new_request())
    return "attached"


@CONTROL.rule("A41", "3", "Nothing is sent between welcome with a challenge and attach.")
async def attaches_before_other_frames(host: TesterHost) -> str:
    if host.options.key is None:
        raise NotApplicable("needs the workspace's key: give it with --key-file")
    session = await _negotiated_session(host, challenge=new_challenge())
    after = session.link.frames[len(session.before_ready) + 1 :]
    if session.attach is None:
        await host.drop()
        raise NotApplicable("no attach came: see A40")
    first = next(frame for frame in after if not is_ack(frame))
    if not is_ctl(first, "attach"):
        raise RuleBroken(f"{brief(first)} came first")
    return "attach came first"


@CONTROL.rule("A52", "3", "An agent with a key leaves a host that has not proved that it has the key, too.")
async def wants_the_hosts_proof(host: TesterHost) -> str:
    if host.options.key is None:
        raise NotApplicable("needs the workspace's key: give it with --key-file")
    session = await _negotiated_session(host, mac="0" * 64)
    host.agent_resumes = True
    await host.drop()
    if session.resume is not None:
        raise RuleBroken("a welcome with a wrong MAC was taken")
    return f"left ({session.link.peer_ended or 'no resume'})"


@CONTROL.rule("A42", "2.3", "A ping is answered with a pong of the same number.")
async def answers_ping(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    request = host.new_request()
    mark = link.mark()
    await link.send_bytes(encode({"ctl": "ping", "n": 4711}) + encode(request))  # two frames in one piece
    await link.expect(
        "a pong with n=4711", lambda frame: is_ctl(frame, "pong") and frame.get("n") == 4711, host.options.timeout, mark
    )
    await host.expect_result(link, request, mark, host.options.timeout * 3)
    return "pong"


@CONTROL.rule("A43", "2.8", "A host that has been silent for three heartbeats is left.")
async def closes_silent_connection(host: TesterHost) -> str:
    session = await _negotiated_session(host, heartbeat_s=HEARTBEAT)
    if await session.link.wait_for_end(HEARTBEAT * 5) is not None:
        raise RuleBroken("a host that answers its pings was left, too")
    host.send_pongs = False
    try:
        if await session.link.wait_for_end(HEARTBEAT * 3 + host.options.timeout) is None:
            raise RuleBroken(
                f"the connection is open {HEARTBEAT * 3 + host.options.timeout:g} s after the last word of the host"
            )
    finally:
        host.send_pongs = True
    return "closed"


@CONTROL.rule("A35", "2.3", "Control frames that the agent does not know, and fields in known ones, are ignored.")
async def unknown_control(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    await link.send(*({"ctl": "teleport", "to": number} for number in range(12)))
    await link.send({"ctl": "ping", "n": 1, "colour": "blue"})
    await host.run_request(link, host.new_request())
    return "12 unknown frames, then a result"


@CONTROL.rule("A44", "2.7", "Results that were never acknowledged are named in resume.")
async def resume_names_unacked(host: TesterHost) -> str:
    request, _ = await _unacked_result(host)
    session = await _negotiated_session(host)
    if session.resume is None:
        raise RuleBroken("no resume came")
    if request["request_id"] not in session.resume.get("unacked", ()):
        raise RuleBroken(f"resume names {session.resume.get('unacked')}")
    return "named"


@CONTROL.rule("A45", "2.7", "A result that was never acknowledged is sent again when the host wants it.")
async def resends(host: TesterHost) -> str:
    request, result = await _unacked_result(host)
    with host.with_verdicts(request, "resend", "resend"):
        session = await _negotiated_session(host)
    if session.resume is None or request["request_id"] not in session.resume.get("unacked", ()):
        raise NotApplicable("resume does not name it: see A44")
    again = await host.expect_result(session.link, request, 0)
    if {**again, "audit_ref": ""} != {**result, "audit_ref": ""}:
        raise RuleBroken(f"another result came: {brief(again)}")
    return "the same result"


@CONTROL.rule("A46", "2.7", "A result that was acknowledged is not sent again.")
async def drops_acked_result(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    request = host.new_request()
    mark = link.mark()
    await host.run_request(link, request)
    await link.send({"ctl": "ping", "n": 1})
    await link.wait_for(
        lambda frame: is_ctl(frame, "pong"), host.options.quiet_seconds, mark
    )  # the agent has read the ack by then
    session = await _negotiated_session(host)
    if session.resume is not None and request["request_id"] in session.resume.get("unacked", ()):
        raise RuleBroken("resume names it")
    if await session.link.wait_for(lambda frame: is_result(frame, request["request_id"]), host.options.quiet_seconds):
        raise RuleBroken("it was sent again")
    return "forgotten"


@CONTROL.rule("A50", "2.7", "A result that the host wants forgotten is not sent.")
async def drops_forgotten_result(host: TesterHost) -> str:
    request, _ = await _unacked_result(host)
    session = await _negotiated_session(host)  # says `forget`
    if session.resume is None:
        raise NotApplicable("no resume came: see A44")
    if await session.link.wait_for(lambda frame: is_result(frame, request["request_id"]), host.options.quiet_seconds):
        raise RuleBroken("it was sent")
    return "not sent"


@CONTROL.rule("A47", "2.3", "A request that is cancelled ends soon, with a result that is not completed.")
async def cancels(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    request, mark = await host.start_slow_request(link)
    await link.send({"ctl": "cancel", "request_id": request["request_id"], "reason": "a test"})
    result = await host.expect_result(link, request, mark)
    await link.wait_for(
        lambda frame: is_signal(frame, "completed", request["request_id"]), host.options.quiet_seconds, mark
    )
    if result.get("status") != "failed":
        raise RuleBroken(f"came: {brief(result)}")
    return brief(result)


@CONTROL.rule("A51", "2.7", "Work that the host wants cancelled after a break stops.")
async def cancels_after_break(host: TesterHost) -> str:
    session = await host.ensure_session(ctl=True)
    request, _ = await host.start_slow_request(session.link)
    session = await _negotiated_session(host)  # says `cancel` to what runs
    if session.resume is None or request["request_id"] not in session.resume.get("running", ()):
        raise NotApplicable("resume does not name it as running")
    done = await session.link.wait_for(
        lambda frame: is_result(frame, request["request_id"]) and frame.get("status") == "completed",
        host.options.timeout,
    )
    if done:
        raise RuleBroken("it was completed")
    return "stopped"


@CONTROL.rule("A49", "2.3", "The numbers of progress frames grow.")
async def progress_numbers_grow(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    request = host.new_request(host.options.slow)
    mark = link.mark()
    name = request["request_id"]
    await link.send(request)
    await host.expect_result(link, request, mark, host.options.timeout * 3)
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
async def acks_pushed_constraints(host: TesterHost) -> str:
    session = await host.ensure_session(ctl=True)
    link = session.link
    version = host.constraints_version + 1
    mark = session.link.mark()
    ack = await _push_constraints(host, session, version, payload_hash(host.options.payload))
    if ack is None:
        refused = next((frame for frame in link.frames[mark:] if is_ctl(frame, "nack")), None)
        if refused:
            raise NotApplicable(f"the agent refuses this payload: {brief(refused)}; give one with --constraints")
        raise RuleBroken("no ConstraintAck came")
    if ack.get("hash") != payload_hash(host.options.payload):
        raise RuleBroken(f"the hash is {ack.get('hash')!r}, that of the bytes {payload_hash(host.options.payload)!r}")
    host.constraints_version = version
    await host.run_request(link, host.new_request())
    return f"version {version}"


@CONTROL.rule("A54", "2.4", "Constraints with a hash that is not that of their bytes are never acknowledged.")
async def rejects_wrong_hash(host: TesterHost) -> str:
    session = await host.ensure_session(ctl=True)
    if await _push_constraints(
        host, session, host.constraints_version + 1, payload_hash(b"something else"), host.options.quiet_seconds
    ):
        host.constraints_version += 1
        raise RuleBroken("they were acknowledged")
    return "not acknowledged"


@DRAIN.rule("A70", "2.3", "While it drains, the agent takes no new work, and ends what it has.")
async def drains(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    slow, mark = await host.start_slow_request(link)
    await link.send({"ctl": "drain", "deadline_s": 60}, another := host.new_request())
    await host.expect_result(link, slow, mark, host.options.timeout * 3)
    if any(is_signal(frame, "accepting", another["request_id"]) for frame in link.frames[mark:]):
        raise RuleBroken("the new request was accepted")
    host.drained_link = link
    return ", ".join(map(brief, host.frames_about(link, another, mark))) or "the new request was not answered"


@DRAIN.rule("A71", "2.3", "An agent that has drained closes the connection.")
async def closes_after_drain(host: TesterHost) -> str:
    link = host.drained_link
    if link is None:
        link = (await host.ensure_session(ctl=True)).link
        await link.send({"ctl": "drain", "deadline_s": 1})
    if await link.wait_for_end(host.options.timeout + 1) is None:
        raise RuleBroken("the connection is still open")
    return f"closed ({link.peer_ended})"


async def _negotiated_session(host: TesterHost, **welcome: Any) -> TesterSession:
    session = await host.new_session(**welcome)
    if not session.negotiated:
        raise NotApplicable("the agent offers no extensions")
    return session


async def _unacked_result(host: TesterHost) -> tuple[Frame, Frame]:
    """Return a completed request and its result, which was not acknowledged before the connection ended."""
    session = await host.ensure_session(ctl=True)
    request = host.new_request()
    host.send_acks = False
    try:
        result = await host.run_request(session.link, request)
    finally:
        host.send_acks = True
    await host.drop()
    return request, result


async def _push_constraints(
    host: TesterHost, session: TesterSession, version: int, claimed_hash: str, seconds: float | None = None
) -> Frame | None:
    link = session.link
    mark = session.link.mark()
    payload = base64.b64encode(host.options.payload).decode()
    await link.send(
        {"ctl": "constraints_payload", "version": version, "b64": payload, "severity": "LOW"},
        {
            "version": version,
            "hash": claimed_hash,
            "effective_at": now(),
            "payload_ref": "inline",
        },
    )
    await asyncio.sleep(0)
    return await link.wait_for(
        lambda frame: (is_ack(frame) and frame.get("version") == version) or is_ctl(frame, "nack"),
        host.options.timeout if seconds is None else seconds,
        mark,
    ) and next((frame for frame in link.frames[mark:] if is_ack(frame)), None)
