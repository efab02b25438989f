"""Rules for listeners: connections, probes, and the first frames."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from agent_common.protocol.work import Constraints, FrameFault, UnknownControl, Welcome, WorkRequest, encode, read_frame
from agent_testing.channel import Frame, brief, is_ctl

from ..guest import SLOW_SECONDS, TesterGuest
from ..rules import ConformanceRules, NotApplicable, RuleBroken

HELLO: ConformanceRules[TesterGuest] = ConformanceRules()
GLOBAL: ConformanceRules[TesterGuest] = ConformanceRules()
PROBES = 50
SILENT_CONNECTIONS = 64
_STRICT = WorkRequest.model_fields.keys() - {"request_id", "principal", "content"}
_CONTROLS = {
    "welcome",
    "resume_ok",
    "ack",
    "task_ack",
    "cancel",
    "drain",
    "ping",
    "pong",
    "nack",
    "constraints_payload",
}


@HELLO.rule("L01", "2.4", "The listener is silent until the agent's first line.", loose=True)
async def silent_until_first_line(guest: TesterGuest) -> str:
    await guest.wait_for_listener()
    link = await guest.dial()
    await link.wait_for(lambda _: True, guest.options.quiet_seconds)
    received = len(link.frames) + len(link.faults) + link.blank_lines
    await link.close()
    if received:
        raise RuleBroken(f"it said {link.describe()}")
    return f"nothing in {guest.options.quiet_seconds:g} s"


@HELLO.rule("L02", "1.2", "Probes that connect and close, in any number, do no harm.", loose=True)
async def probes(guest: TesterGuest) -> str:
    for _ in range(PROBES):
        await (await guest.dial()).close()
    if guest.options.dialect == "loose":  # one that serves a single agent needs its session for the next rules
        return f"{PROBES} probes"
    await guest.run_request((await guest.ensure_attachment()).link)
    return f"{PROBES} probes, then a request"


@HELLO.rule("L05", "2.5", "A first line that comes slowly is waited for.", loose=True)
async def slow_line(guest: TesterGuest) -> str:
    await guest.drop()
    link = await guest.dial()
    guest.use_attachment(await guest.send_ready(link, slowly=True))
    guest.pending_request = await guest.next_request(link)
    return f"{SLOW_SECONDS:g} s for a line, then a request"


@HELLO.rule("L06", "2.1", "A request has the shape of the dialect.", loose=True)
async def request_shape(guest: TesterGuest) -> str:
    request = guest.pending_request or await guest.next_request((await guest.ensure_attachment()).link)
    guest.pending_request = request
    if guest.options.dialect == "loose":
        if not (isinstance(request.get("request_id"), str) and "content" in request):
            raise RuleBroken(f"request_id or content is missing in {brief(request)}")
        if not (isinstance(principal := request.get("principal"), str) and principal):
            raise RuleBroken(f"the principal is no plain string in {brief(request)}")
        if strict := _STRICT.intersection(request):
            raise RuleBroken(f"{', '.join(sorted(strict))} belongs to the strict dialect: {brief(request)}")
        return brief(request)
    try:
        read_frame(request)
    except FrameFault as fault:
        raise RuleBroken(str(fault)) from None
    return brief(request)


@HELLO.rule("L14", "2.2", "A result may come in any pieces.", loose=True)
async def dribbled_result(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    request = guest.pending_request or await guest.next_request(link)
    guest.pending_request = None
    about = {"request_id": request["request_id"]}
    frames = (guest.signal_frame("accepting", **about), guest.result_frame(request, "p\u00f6ng \U0001f600"))
    await link.send_byte_by_byte(b"".join(map(encode, frames)))
    if link.peer_ended is not None and guest.options.dialect == "strict":
        raise RuleBroken(f"the connection ended ({link.peer_ended})")
    await link.send(guest.signal_frame("completed", **about))
    await guest.expect_result_ack(link, request)
    if guest.options.dialect == "strict":
        await guest.run_request(link)
    return "byte by byte"


@HELLO.rule("L15", "2.3", "No control frame goes to an agent that has not offered the extensions.", loose=True)
async def no_welcome(guest: TesterGuest) -> str:
    if guest.options.dialect == "loose":
        frames = [frame for link in guest.links for frame in link.frames if "ctl" in frame]
        if frames:
            raise RuleBroken(f"came: {brief(frames[0])}")
        return "none"
    await guest.drop()
    link = await guest.dial()
    await guest.send_ready(link, offer=False)
    found = await link.wait_for(lambda frame: "ctl" in frame, guest.options.quiet_seconds)
    await link.close()
    if found:
        raise RuleBroken(f"came: {brief(found)}")
    return "none"


@HELLO.rule("L03", "1.2", "Probes that end with RST do no harm.")
async def reset_probes(guest: TesterGuest) -> str:
    await guest.drop()
    for _ in range(PROBES):
        await (await guest.dial()).close(reset=True)
    await guest.run_request((await guest.ensure_attachment()).link)
    return f"{PROBES} probes, then a request"


@HELLO.rule("L04", "2.8", "Probes do not disturb a session.")
async def probes_meanwhile(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    request = await guest.next_request(link)
    for number in range(PROBES):
        await (await guest.dial()).close(reset=number % 2 == 0)
    await asyncio.sleep(guest.options.quiet_seconds / 2)
    if link.peer_ended is not None:
        raise RuleBroken(f"the session was ended ({link.peer_ended})")
    await guest.finish(link, request)
    await guest.run_request(link)
    return f"{PROBES} probes during a request"


@HELLO.rule("L35", "2.8", "Connections on which nothing is said keep no agent out.")
async def silent_connections(guest: TesterGuest) -> str:
    await guest.drop()
    links = [await guest.dial() for _ in range(SILENT_CONNECTIONS)]
    try:
        await guest.run_request((await guest.ensure_attachment()).link)
    finally:
        for link in links:
            await link.close()
    return f"{SILENT_CONNECTIONS} silent connections, then a request"


@HELLO.rule("L07", "2.4", "Work comes only after ready.")
async def not_before_ready(guest: TesterGuest) -> str:
    await guest.drop()
    link = await guest.dial()
    await link.send(guest.signal_frame("mediation_broken", detail="the tester has broken it"))
    await guest.submit_work()
    try:
        await guest.expect_no_request(link)
    finally:
        await link.close()
    return "no request"


@HELLO.rule("L16", "2.3", "A welcome has its shape.")
async def welcome_shape(guest: TesterGuest) -> str:
    welcome = (await guest.ensure_attachment(ctl=True)).welcome
    try:
        assert isinstance(read_frame(welcome or {}), Welcome)  # noqa: S101
    except FrameFault as fault:
        raise RuleBroken(str(fault)) from None
    return f"workspace {(welcome or {})['workspace']}, epoch {(welcome or {})['epoch']}"


@GLOBAL.rule(
    "L45", "2.1", "All else is a Constraints or a control frame that a host may send, and no line is blank.", loose=True
)
async def shapes(guest: TesterGuest) -> str:
    count = 0
    for link in guest.links:
        if link.faults or link.blank_lines:
            raise RuleBroken(f"{link.name}: {link.faults[0] if link.faults else 'a blank line came'}")
        for frame in link.frames:
            count += 1
            if "principal" not in frame and not is_ctl(frame, "welcome"):  # those have rules of their own
                _check_frame(frame)
    return f"{count} frames"


@GLOBAL.rule("L23", "2.7", "Each attachment has a larger epoch than those before.")
async def epochs(guest: TesterGuest) -> str:
    if len(guest.epochs) < 2:
        raise NotApplicable("there were no two attachments with an epoch")
    if any(one >= other for one, other in pairwise(guest.epochs)):
        raise RuleBroken(f"they were {guest.epochs[:20]}")
    return f"{len(guest.epochs)} attachments"


def _check_frame(frame: Frame) -> None:
    try:
        found = read_frame(frame)
    except FrameFault as fault:
        raise RuleBroken(f"{brief(frame)}: {fault}") from None
    if not isinstance(found, Constraints | UnknownControl | WorkRequest) and frame.get("ctl") not in _CONTROLS:
        raise RuleBroken(f"{brief(frame)}: only an agent sends that")
