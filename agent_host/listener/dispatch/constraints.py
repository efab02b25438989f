"""Push constraints, and send no work until the agent has acknowledged those in force.

See docs/reference/mediation-host.md.

An agent that does not acknowledge in time raises an alarm and is then halted. Only the time in which it is attached and
owes the acknowledgement counts: a break does not set it back, and an unreachable host is not the agent's fault.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from agent_common.protocol.work import ConstraintAck, Constraints, ConstraintsPayload

from ...errors import RequestError
from ..connection.rate_limit import PUSH_UNITS
from ..parts import Parts
from .channel import ACK_WINDOWS, ConstraintSet, WorkspaceChannel

if TYPE_CHECKING:
    from ..connection.session import AgentSession

_tasks: set[asyncio.Task[None]] = set()


def ensure_acknowledged(parts: Parts, session: AgentSession) -> None:
    """Ready at once, or after the acknowledgement that it owes."""
    current = session.channel.constraints
    if session.channel.loose or current is None or matches(session.acked, current):
        if current is not None and session.acked is not None:
            _save_status(parts, session.channel, current, "acked")
        session.mark_ready()
        return
    if session.state in ("draining", "gone"):
        return
    session.state = "constraining"
    if session.acked is not None and session.acked.version == current.version:
        _report_mismatch(parts, session, current, session.acked)
    push(parts, session, current)


def matches(ack: ConstraintAck | None, current: ConstraintSet) -> bool:
    return ack is not None and ack.version == current.version and ack.hash == current.hash


def enforce_new(parts: Parts, channel: WorkspaceChannel) -> None:
    """There are new constraints: whoever is attached must acknowledge them before it gets more work."""
    session = channel.session
    if session is not None and session.state in ("ready", "constraining"):
        pause_ack_timers(parts, session)
        ensure_acknowledged(parts, session)


def push(parts: Parts, session: AgentSession, current: ConstraintSet) -> None:
    """Sends them: the payload first, so that nothing needs fetching."""
    _spawn(_send(parts, session, current))
    _start_ack_timers(parts, session, current)


async def _send(parts: Parts, session: AgentSession, current: ConstraintSet) -> None:
    channel = session.channel
    try:
        payload = await parts.channels.read_payload(channel, current.version) if session.negotiated else b""
    except RequestError:
        return  # the window is open; the next attachment tries again
    if session.state == "gone" or channel.constraints is not current:
        return
    if session.negotiated and current.payload_ref == "inline":
        session.send(
            ConstraintsPayload(
                version=current.version, b64=base64.b64encode(payload).decode(), severity=current.severity
            )
        )
    elif current.payload_ref == "inline":
        session.alarm("constraints_undeliverable", "the agent takes no payload on the channel; name a payload_ref")
        return
    session.send(
        Constraints(
            version=current.version,
            hash=current.hash,
            effective_at=current.effective_at,
            payload_ref=current.payload_ref,
        )
    )


def on_outdated(parts: Parts, session: AgentSession) -> None:
    """The agent says that it has others than those in force."""
    current = session.channel.constraints
    if current is None or session.state != "ready" or session.channel.loose:
        return  # it has none to get, or they are on their way already
    session.acked = None
    session.channel.rate_limiter.spend(PUSH_UNITS)
    pause_ack_timers(parts, session)
    session.state = "constraining"
    push(parts, session, current)


def on_ack(parts: Parts, session: AgentSession, ack: ConstraintAck) -> None:
    current = session.channel.constraints
    session.acked = ack
    if current is None or session.state != "constraining":
        return
    if matches(ack, current):
        pause_ack_timers(parts, session)
        current.owed_seconds, current.alerted = 0.0, False
        _save_status(parts, session.channel, current, "acked")
        session.mark_ready()
    elif ack.version == current.version:
        _report_mismatch(parts, session, current, ack)
    else:
        parts.audit_log.event(
            "constraints_not_in_force",
            f"acknowledged {ack.version}, and {current.version} is in force",
            workspace=session.channel.workspace,
            epoch=session.epoch,
        )


def _report_mismatch(parts: Parts, session: AgentSession, current: ConstraintSet, ack: ConstraintAck) -> None:
    _save_status(parts, session.channel, current, "hash_mismatch")
    session.alarm("constraints_hash", f"version {ack.version}: it has {ack.hash}, and {current.hash} is in force")


# -------------------------------------------------------------------- patience


def _start_ack_timers(parts: Parts, session: AgentSession, current: ConstraintSet) -> None:
    """The windows are open, unless the agent may finish first what it works on."""
    window = ACK_WINDOWS[current.severity]
    if session.ack_timers or session.channel.paused or (session.slots and not window.runs_while_busy):
        return
    session.ack_owed_since = parts.clock.monotonic()
    after = parts.timers.call_later
    session.ack_timers = [after(max(0.0, window.halt - current.owed_seconds), lambda: _halt(parts, session, current))]
    if not current.alerted:
        session.ack_timers.append(
            after(max(0.0, window.alert - current.owed_seconds), lambda: _alert(parts, session, current))
        )


def start_ack_timers_if_idle(parts: Parts, session: AgentSession) -> None:
    """A place has become free; with the last one the patience begins."""
    current = session.channel.constraints
    if session.state == "constraining" and current is not None and not session.slots:
        _start_ack_timers(parts, session, current)


def pause_ack_timers(parts: Parts, session: AgentSession) -> None:
    """The windows are closed for now; what they have used up stays used."""
    for timer in session.ack_timers:
        timer.cancel()
    session.ack_timers = []
    current = session.channel.constraints
    if session.ack_owed_since is not None and current is not None:
        current.owed_seconds += parts.clock.monotonic() - session.ack_owed_since
    session.ack_owed_since = None


def resume_ack_timers(parts: Parts, session: AgentSession) -> None:
    """The windows are open again, if it still owes the acknowledgement."""
    current = session.channel.constraints
    if session.state == "constraining" and current is not None:
        _start_ack_timers(parts, session, current)


def _alert(parts: Parts, session: AgentSession, current: ConstraintSet) -> None:
    current.alerted = True
    if current.status == "pending":
        _save_status(parts, session.channel, current, "timeout")
    session.alarm("constraints_not_acked", f"version {current.version} ({current.severity}) is not acknowledged")


def _halt(parts: Parts, session: AgentSession, current: ConstraintSet) -> None:
    _spawn(halt(parts, session.channel, current))


async def halt(parts: Parts, channel: WorkspaceChannel, current: ConstraintSet) -> None:
    """Durable fence, then the cut; work that it had waits for an operator."""
    reason = f"constraints {current.version} ({current.severity}) were not acknowledged"
    parts.audit_log.alarm("halted", reason, workspace=channel.workspace)
    channel.fence, channel.fence_reason = "halted", reason  # in force even if the database fails
    if channel.session is not None:
        channel.session.end("halted", abruptly=True)
    parts.on_halt(channel.workspace)
    try:
        await parts.channels.fence(channel, "halted", reason)
        await parts.channels.save_ack_status(channel, current, "halted")
    except RequestError:
        parts.audit_log.alarm("fence_not_written", reason, workspace=channel.workspace)


def _save_status(parts: Parts, channel: WorkspaceChannel, current: ConstraintSet, status: str) -> None:
    if current.status != status:
        _spawn(_write_status(parts, channel, current, status))


async def _write_status(parts: Parts, channel: WorkspaceChannel, current: ConstraintSet, status: str) -> None:
    try:
        await parts.channels.save_ack_status(channel, current, status)  # pyright: ignore[reportArgumentType]
    except RequestError:
        return  # it is in memory, and the trail has the frame


def _spawn(coroutine: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(coroutine)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
