"""Rules for listeners: connections, probes, and the first words."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from agent_common.protocol.work import Constraints, FrameFault, UnknownControl, Welcome, WorkRequest, encode, read_frame

from ..guest import SLOW_SECONDS, TesterGuest
from ..link import Frame, brief, is_ctl
from ..rules import ConformanceRules, NotApplicable, RuleBroken

HELLO: ConformanceRules[TesterGuest] = ConformanceRules()
GLOBAL: ConformanceRules[TesterGuest] = ConformanceRules()
PROBES = 50
CROWD = 64
_STRICT = WorkRequest.model_fields.keys() - {"request_id", "principal", "content"}
_CONTROLS = {"welcome", "resume_ok", "ack", "cancel", "drain", "ping", "pong", "nack", "constraints_payload"}


@HELLO.rule("L01", "2.4", "The listener is silent until the agent's first line.", loose=True)
async def silent(guest: TesterGuest) -> str:
    await guest.first()
    link = await guest.dial()
    await link.find(lambda _: True, guest.options.quiet)
    said = len(link.frames) + len(link.faults) + link.blanks
    await link.close()
    if said:
        raise RuleBroken(f"it said {link.told()}")
    return f"nothing in {guest.options.quiet:g} s"


@HELLO.rule("L02", "1.2", "Probes that connect and close, in any number, do no harm.", loose=True)
async def probes(guest: TesterGuest) -> str:
    for _ in range(PROBES):
        await (await guest.dial()).close()
    if guest.options.dialect == "loose":  # one that serves a single agent needs its session for the next rules
        return f"{PROBES} probes"
    await guest.round((await guest.attachment()).link)
    return f"{PROBES} probes, then a request"


@HELLO.rule("L05", "2.5", "A first line that comes slowly is waited for.", loose=True)
async def slow_line(guest: TesterGuest) -> str:
    await guest.drop()
    link = await guest.dial()
    guest.adopt(await guest.say_ready(link, slowly=True))
    guest.pending = await guest.given(link)
    return f"{SLOW_SECONDS:g} s for a line, then a request"


@HELLO.rule("L06", "2.1", "A request has the shape of the dialect.", loose=True)
async def request_shape(guest: TesterGuest) -> str:
    request = guest.pending or await guest.given((await guest.attachment()).link)
    guest.pending = request
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
    link = (await guest.attachment()).link
    request = guest.pending or await guest.given(link)
    guest.pending = None
    about = {"request_id": request["request_id"]}
    frames = (guest.signal("accepting", **about), guest.result(request, "p\u00f6ng \U0001f600"))
    await link.dribble(b"".join(map(encode, frames)))
    if link.left is not None and guest.options.dialect == "strict":
        raise RuleBroken(f"the connection ended ({link.left})")
    await link.send(guest.signal("completed", **about))
    await guest.taken(link, request)
    if guest.options.dialect == "strict":
        await guest.round(link)
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
    await guest.say_ready(link, offer=False)
    found = await link.find(lambda frame: "ctl" in frame, guest.options.quiet)
    await link.close()
    if found:
        raise RuleBroken(f"came: {brief(found)}")
    return "none"


@HELLO.rule("L03", "1.2", "Probes that end with RST do no harm.")
async def resets(guest: TesterGuest) -> str:
    await guest.drop()
    for _ in range(PROBES):
        await (await guest.dial()).close(reset=True)
    await guest.round((await guest.attachment()).link)
    return f"{PROBES} probes, then a request"


@HELLO.rule("L04", "2.8", "Probes do not disturb a session.")
async def probes_meanwhile(guest: TesterGuest) -> str:
    link = (await guest.attachment()).link
    request = await guest.given(link)
    for number in range(PROBES):
        await (await guest.dial()).close(reset=number % 2 == 0)
    await asyncio.sleep(guest.options.quiet / 2)
    if link.left is not None:
        raise RuleBroken(f"the session was ended ({link.left})")
    await guest.finish(link, request)
    await guest.round(link)
    return f"{PROBES} probes during a request"


@HELLO.rule("L35", "2.8", "Connections on which nothing is said keep no agent out.")
async def crowd(guest: TesterGuest) -> str:
    await guest.drop()
    links = [await guest.dial() for _ in range(CROWD)]
    try:
        await guest.round((await guest.attachment()).link)
    finally:
        for link in links:
            await link.close()
    return f"{CROWD} silent connections, then a request"


@HELLO.rule("L07", "2.4", "Work comes only after ready.")
async def not_before_ready(guest: TesterGuest) -> str:
    await guest.drop()
    link = await guest.dial()
    await link.send(guest.signal("mediation_broken", detail="the tester has broken it"))
    await guest.submitted()
    try:
        await guest.no_request(link)
    finally:
        await link.close()
    return "no request"


@HELLO.rule("L16", "2.3", "A welcome has its shape.")
async def welcome_shape(guest: TesterGuest) -> str:
    welcome = (await guest.attachment(ctl=True)).welcome
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
        if link.faults or link.blanks:
            raise RuleBroken(f"{link.name}: {link.faults[0] if link.faults else 'a blank line came'}")
        for frame in link.frames:
            count += 1
            if "principal" not in frame and not is_ctl(frame, "welcome"):  # those have rules of their own
                _check(frame)
    return f"{count} frames"


@GLOBAL.rule("L23", "2.7", "Each attachment has a larger epoch than those before.")
async def epochs(guest: TesterGuest) -> str:
    if len(guest.epochs) < 2:
        raise NotApplicable("there were no two attachments with an epoch")
    if any(one >= other for one, other in pairwise(guest.epochs)):
        raise RuleBroken(f"they were {guest.epochs[:20]}")
    return f"{len(guest.epochs)} attachments"


def _check(frame: Frame) -> None:
    try:
        found = read_frame(frame)
    except FrameFault as fault:
        raise RuleBroken(f"{brief(frame)}: {fault}") from None
    if not isinstance(found, Constraints | UnknownControl | WorkRequest) and frame.get("ctl") not in _CONTROLS:
        raise RuleBroken(f"{brief(frame)}: only an agent sends that")
