"""Rules for agents: the first frames, and what holds for every frame."""

from __future__ import annotations

import re

from agent_common.protocol.work import (
    ConstraintAck,
    FrameFault,
    IdentityRevision,
    LifecycleSignal,
    Offer,
    UnknownControl,
    WorkResult,
    read_frame,
    read_loose_result,
    read_loose_signal,
)
from agent_testing.channel import Frame, PeerConnection, brief, is_ack, is_result, is_signal

from ..host import TesterHost
from ..rules import ConformanceRules, NotApplicable, RuleBroken

HELLO: ConformanceRules[TesterHost] = ConformanceRules()
GLOBAL: ConformanceRules[TesterHost] = ConformanceRules()
"""Rules that hold for the whole run, and are checked when it is over."""
_AGENT_FRAMES = (LifecycleSignal, WorkResult, ConstraintAck, IdentityRevision, UnknownControl)
_CONTROLS = {"attach", "resume", "progress", "task_result", "ping", "pong", "nack"}
_STRICT = {"agent_id", "observed_at", "status", "completed_at", "audit_ref"}
_AT = "2026-01-01T00:00:00Z"


@HELLO.rule("A01", "2.4", "The agent dials the host, and speaks first: the host is silent until then.", loose=True)
async def speaks_first(host: TesterHost) -> str:
    await host.wait_for_agent()
    session = await host.ensure_session()
    return f"ready on {session.link.name}: {session.ready.get('detail') or 'without a detail'}"


@HELLO.rule(
    "A02", "2.4", "Nothing but mediation_broken and a ConstraintAck, in this order, comes before ready.", loose=True
)
async def ready_first(host: TesterHost) -> str:
    session = await host.ensure_session()
    await session.link.wait_for(is_ack, host.options.quiet_seconds, len(session.before_ready))
    late = session.link.frames[len(session.before_ready) :]
    kinds = [
        "ack" if is_ack(frame) else str(frame.get("signal")) for frame in session.before_ready if "ctl" not in frame
    ]
    if kinds not in ([], ["ack"], ["mediation_broken"], ["mediation_broken", "ack"]):
        raise RuleBroken(f"before ready came {', '.join(map(brief, session.before_ready))}")
    if any(is_ack(frame) for frame in late):
        raise RuleBroken("a ConstraintAck came after ready")
    return ", ".join([*kinds, "ready"])


@HELLO.rule("A06", "2.3", "An offer of the extensions names a window, the longest line and the connection.")
async def offer_is_complete(host: TesterHost) -> str:
    session = await host.ensure_session()
    detail = str(session.ready.get("detail") or "")
    if "med/1" not in detail:
        raise NotApplicable("the agent offers no extensions")
    if Offer.parse(detail) is None:
        raise RuleBroken(f"{detail!r} is not like 'med/1 win=1 max=1048576 sid=<8 to 128 of A-Za-z0-9_->'")
    return detail


@HELLO.rule("A08", "2.4", "The hash in a ConstraintAck is sha256: and 64 hex digits.")
async def ack_hash_is_sha256(host: TesterHost) -> str:
    acks = [frame for frame in (await host.ensure_session()).before_ready if is_ack(frame)]
    if not acks:
        raise NotApplicable("the agent has acknowledged no constraints")
    for frame in acks:
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", str(frame.get("hash"))):
            raise RuleBroken(f"the hash of version {frame.get('version')} is {frame.get('hash')!r}")
    return str(acks[0]["hash"])[:20]


@GLOBAL.rule(
    "A03", "2.1", "Every frame is a JSON object of a known shape that an agent may send, in the dialect.", loose=True
)
async def shapes(host: TesterHost) -> str:
    count = 0
    for link in host.links:
        if link.faults:
            raise RuleBroken(f"{link.name}: {link.faults[0]}")
        for frame in link.frames:
            count += 1
            (_check_loose if host.options.dialect == "loose" else _check_strict)(frame)
    return f"{count} frames"


@GLOBAL.rule("A04", "2.2", "Blank lines are never sent.", loose=True)
async def no_blanks(host: TesterHost) -> str:
    if blanks := sum(link.blank_lines for link in host.links):
        raise RuleBroken(f"{blanks} blank lines came")
    return "none"


@GLOBAL.rule("A05", "2.3", "Control frames are sent only after welcome.", loose=True)
async def no_early_control(host: TesterHost) -> str:
    for link in host.links:
        if early := _control_before_welcome(link):
            raise RuleBroken(f"{link.name}: {brief(early)} came before any welcome")
    return f"{len(host.links)} connections"


@GLOBAL.rule("A07", "2.7", "Each connection has a sid of its own.")
async def fresh_sids(host: TesterHost) -> str:
    if len(host.sids) < 2:
        raise NotApplicable("the agent has not offered the extensions twice")
    if len(set(host.sids)) < len(host.sids):
        raise RuleBroken(f"of {len(host.sids)} connections only {len(set(host.sids))} had a sid that was new")
    return f"{len(host.sids)} sids"


@GLOBAL.rule("A64", "2.7", "There is one connection at a time; the old one is closed before the next is dialed.")
async def one_at_a_time(host: TesterHost) -> str:
    if len(host.links) < 2:
        raise NotApplicable("the agent has dialed only once")
    if host.overlaps:
        raise RuleBroken(f"{host.overlaps} of {len(host.links)} connections came while another one was open")
    return f"{len(host.links)} connections"


def _check_strict(frame: Frame) -> None:
    try:
        found = read_frame(frame)
    except FrameFault as fault:
        raise RuleBroken(f"{brief(frame)}: {fault}") from None
    if isinstance(found, _AGENT_FRAMES) or frame.get("ctl") in _CONTROLS:
        return
    raise RuleBroken(f"{brief(frame)}: only a host sends that")


def _check_loose(frame: Frame) -> None:
    """Check a frame of the loose dialect, whose host reads `ok` and a signal's name and no fields of the strict one."""
    try:
        if "signal" in frame:
            read_loose_signal(frame, now=_AT, agent_id="agent")
        elif is_result(frame):
            read_loose_result(frame, now=_AT, audit_ref="")
        else:
            _check_strict(frame)
            return
    except FrameFault as fault:
        raise RuleBroken(f"{brief(frame)}: {fault}") from None
    if strict := _STRICT.intersection(frame):
        raise RuleBroken(f"{brief(frame)}: {', '.join(sorted(strict))} belongs to the strict dialect")


def _control_before_welcome(link: PeerConnection) -> Frame | None:
    ready = next((at for at, frame in enumerate(link.frames) if is_signal(frame, "ready")), len(link.frames))
    checked = link.frames[: ready + 1] if link.ctl_allowed else link.frames
    return next((frame for frame in checked if "ctl" in frame), None)
