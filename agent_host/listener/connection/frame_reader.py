"""Read an attached agent's frames: limit their rate, parse them, audit them, and hand each to the part of `dispatch`
that acts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, cast

import structlog

from agent_common.json_reader import INLINE_BYTES, run_by_size
from agent_common.protocol.work import (
    ConstraintAck,
    Control,
    FrameFault,
    IdentityRevision,
    LifecycleSignal,
    Nack,
    Ping,
    Pong,
    Progress,
    Resume,
    TaskReport,
    UnknownControl,
    WorkFrame,
    WorkResult,
)

from ..channels.channel import AttachedAgent
from ..channels.rate_limit import cost_of
from ..timers import Timer
from .parsing import BadLines, kind_of, refs_of
from .services import SessionServices
from .socket import AgentConnection

log = structlog.get_logger(__name__)
_SHORTEST_PAUSE_SECONDS = 0.02


class FrameReader:
    """Handles the lines of one attached agent."""

    __slots__ = ("_bad_lines", "_channel", "_connection", "_frame_task", "_pause_timer", "_services", "_session")

    def __init__(self, services: SessionServices, session: AttachedAgent, connection: AgentConnection) -> None:
        self._services = services
        self._session = session
        self._connection = connection
        self._channel = session.channel
        self._bad_lines = BadLines(services.clock)
        self._pause_timer: Timer | None = None
        """Runs while reading is paused; None if it has never been."""
        self._frame_task: asyncio.Task[None] | None = None
        """The job that must end before the next frame is read, or None."""

    def close(self) -> None:
        """Cancel the pause and the job, if there are any."""
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        if self._frame_task is not None:
            self._frame_task.cancel()

    def on_lost(self, reason: str) -> None:
        self._session.end(reason)

    # ---------------------------------------------------------------- lines

    def on_line(self, line: bytes | FrameFault) -> None:
        if self._session.state == "gone":
            return
        if isinstance(line, bytes) and len(line) > INLINE_BYTES:
            self.run_before_next_frame(self._parse_long(line))
        else:
            self._parse(line)
        channel = self._channel
        if channel.rate_limiter.spend(cost_of(line)) or self._services.audit_log.is_behind(channel.workspace):
            self._pause()

    def _parse(self, line: bytes | FrameFault) -> None:
        try:
            frame = self._services.parser.parse(self._channel, line)
        except FrameFault as fault:
            self._on_bad_line(fault)
        else:
            self._handle_frame(line, frame)

    async def _parse_long(self, line: bytes) -> None:
        """Parse a long line in a thread, so that other agents do not wait for it."""
        try:
            frame = await run_by_size(len(line), partial(self._services.parser.parse, self._channel, line))
        except FrameFault as fault:
            self._on_bad_line(fault)
        else:
            self._handle_frame(line, frame)

    def _handle_frame(self, line: bytes | FrameFault, frame: WorkFrame) -> None:
        kind = kind_of(frame)
        session = self._session
        if kind not in ("ping", "pong"):
            request_id, audit_ref = refs_of(frame)
            audit_log = self._services.audit_log
            audit_log.write(
                audit_log.make_row(
                    "in",
                    kind,
                    cast(bytes, line),
                    workspace=self._channel.workspace,
                    epoch=session.epoch,
                    connection=self._connection.number,
                    request_id=request_id,
                    audit_ref=audit_ref,
                )
            )
        handle = self._HANDLERS.get(type(frame))
        if handle is None:
            self._on_bad_line(FrameFault("wrong_direction", f"{kind}: only a host sends this"))
        elif isinstance(frame, Control) and not session.negotiated:
            self._on_bad_line(FrameFault("not_negotiated", f"{kind}: the two ends have not agreed on control frames"))
        else:
            handle(self, frame)

    def _on_bad_line(self, fault: FrameFault) -> None:
        """Count a line that is not a valid frame and answer with `nack`. Too many such lines end the session."""
        self._services.metrics.count("bad_lines", fault.code)
        self._session.record_event(f"bad_line.{fault.code}", str(fault), fault.request_id)
        if self._bad_lines.add_and_check():
            self._session.end("too_many_bad_lines")
            return
        self._session.send(Nack(code=fault.code, request_id=fault.request_id, detail=str(fault)[:4000]))

    # ---------------------------------------------------------------- frames

    def _on_signal(self, signal: LifecycleSignal) -> None:
        match signal.signal:
            case "accepting":
                self._services.dispatch.results.on_accepting(self._session, signal)
            case "completed":
                self._services.dispatch.results.on_completed(self._session, signal)
            case "quarantined":
                detail = signal.detail or "only a host may quarantine; the signal is ignored"
                self._session.alarm("guest_says_quarantined", detail)
            case "constraints_outdated":
                self._services.dispatch.constraints.on_outdated(self._session)
            case "mediation_broken" | "ready":
                return

    def _on_result(self, result: WorkResult) -> None:
        self._services.dispatch.results.on_result(self._session, result)

    def _on_task_report(self, report: TaskReport) -> None:
        if self._session.takes_task_results:
            self._services.dispatch.reports.on_report(self._session, report)
        else:
            self._on_bad_line(FrameFault("not_negotiated", "task_result: the agent has not offered it"))

    def _on_ack(self, ack: ConstraintAck) -> None:
        self._services.dispatch.constraints.on_ack(self._session, ack)

    def _on_resume(self, resume: Resume) -> None:
        if not self._session.confirmed:
            self._services.dispatch.resume.on_resume(self._session, resume)
            self._session.mark_resumed()

    def _on_progress(self, progress: Progress) -> None:
        self._services.dispatch.results.on_progress(self._session, progress)

    def _on_ping(self, ping: Ping) -> None:
        self._session.send(Pong(n=ping.n), droppable=True)

    def _on_nack(self, nack: Nack) -> None:
        if nack.request_id is not None:
            self._services.dispatch.results.on_nack(self._session, nack)

    def _ignore(self, _: object) -> None:
        """Do nothing with the frame: it needs no action, or its kind is newer than this host. It is audited."""

    _HANDLERS: ClassVar[dict[type, Callable[[FrameReader, Any], None]]] = {
        LifecycleSignal: _on_signal,
        WorkResult: _on_result,
        ConstraintAck: _on_ack,
        Resume: _on_resume,
        TaskReport: _on_task_report,
        Progress: _on_progress,
        Ping: _on_ping,
        Nack: _on_nack,
        Pong: _ignore,
        IdentityRevision: _ignore,
        UnknownControl: _ignore,
    }
    """The kinds of frame that an agent may send."""

    # ---------------------------------------------------------------- pace

    def _pause(self) -> None:
        """Stop reading until the agent is within its rate limit and the audit trail has caught up."""
        if self._session.state == "gone":
            return
        wait = self._channel.rate_limiter.spend(0)
        if wait and not self._connection.holding:
            self._session.alarm("too_fast", "the agent exceeds its rate limit; its frames are read more slowly")
        self._connection.hold()
        wait = max(_SHORTEST_PAUSE_SECONDS, wait)
        if self._pause_timer is None:
            self._pause_timer = self._services.timers.call_later(wait, self.resume)
        else:
            self._pause_timer.reschedule(wait, self.resume)

    def resume(self) -> None:
        """Read again, unless a job runs, the agent is over its rate limit or the audit trail is behind."""
        if self._session.state == "gone" or self._frame_task is not None:
            return
        channel = self._channel
        if channel.rate_limiter.spend(0) or self._services.audit_log.is_behind(channel.workspace):
            self._pause()
        else:
            self._connection.release()

    def run_before_next_frame(self, job: Coroutine[Any, Any, None]) -> None:
        """Run the job, and read no frame until it is done. At most one such job runs at a time."""
        self._connection.hold()
        self._frame_task = asyncio.create_task(job, name=f"frame-{self._channel.workspace}")
        self._frame_task.add_done_callback(self._on_job_done)

    def _on_job_done(self, job: asyncio.Task[None]) -> None:
        if not job.cancelled() and (error := job.exception()) is not None:
            log.error("frame_failed", workspace=self._channel.workspace, exc_info=error)
        if self._frame_task is job:  # else the job itself has started the next one
            self._frame_task = None
            self.resume()
