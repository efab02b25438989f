"""Run requests as turns: `text` as a chat turn of its principal, `json` and `structured` as a task."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from agent_common.json_reader import JsonLimits, read_json
from agent_common.protocol import TaskAssignment, is_assignment, is_object
from agent_common.protocol.work import Progress, WorkRequest, WorkResult, WorkUsage, to_rfc3339

from ...errors import Busy, Conflict, MeshUnavailable, NotReady, RequestError
from ...loop import (
    ChatService,
    CompletedTurn,
    ExternalWork,
    IncomingMessage,
    LoopServices,
    TaskService,
    Turn,
    TurnOutcome,
    record_of,
)
from ...sessions import TurnRow, history, rows, text_of
from ..ledger import ledger
from .progress import follow_progress
from .request_limits import WorkRefused, limits_within, scope_layer

SOURCE = "mediation"
WorkStop = Literal["cancelled", "host_deadline", "channel", "constraints"]
"""Why work is stopped."""
_CONTENT_LIMITS = JsonLimits(16 << 20, refuse_ambiguous=False)
YIELDED = frozenset({"budget_exhausted", "deadline_exceeded", "channel_broken", "constraints_changed"})
"""Error codes of work that was stopped although nothing was wrong with it."""
_OTHERWISE = "that came another way, or is no longer in the ledger"


class RunningWork(Protocol):
    """A request that is being worked on, or has its result in the outbox."""

    async def wait_ended(self) -> bool:
        """Return once its result is in the ledger, or will be written there after a failure of the disk. Returns False
        if this process ends before that."""
        ...

    def result(self) -> WorkResult | None:
        """Return the result if it is known to be on disk; None: ask the ledger."""
        ...

    async def stop(self, why: WorkStop) -> None:
        """Stop the work and wait for its end. `why`: `cancelled`, or `host_deadline`, `channel` or `constraints` to end
        it as yielded."""
        ...

    def usage(self) -> WorkUsage: ...

    @property
    def queued(self) -> bool:
        """Whether it has not begun yet, because other work of this agent comes first."""
        ...

    def progress(self) -> AsyncIterator[Progress] | None:
        """Yield progress until the work ends; None if there is none to report."""
        ...


class WorkRunner(Protocol):
    """Carries out requests."""

    async def start(self, request: WorkRequest) -> RunningWork:
        """Return once the request is in the ledger, on disk. Raises WorkRefused; nothing has changed then."""
        ...

    def resume(self, entry: ledger.WorkEntry) -> RunningWork | None:
        """Return the work of an earlier process that continues; None if it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class TurnWorker:
    """Implements WorkRunner, and WorkStore of the loop."""

    services: LoopServices
    chats: ChatService
    tasks: TaskService

    async def start(self, request: WorkRequest) -> RunningWork:
        external_work = self._external_work(request)
        try:
            if request.content_kind == "text":
                return TurnJob(await self._start_chat_turn(request, external_work), self.services, request.request_id)
            assigned = await self.tasks.assign(
                _assignment(request), request.principal.name, external_work=external_work
            )
        except ledger.AlreadyEntered:
            raise WorkRefused("overloaded", "the same request is being accepted at this moment") from None
        except Busy as error:
            raise WorkRefused("overloaded", error.message) from error
        except NotReady as error:
            raise WorkRefused("draining", error.message) from error
        except Conflict as error:  # a session archived just now may get a successor soon
            code = "overloaded" if error.code == "session_archived" else "request_id_conflict"
            raise WorkRefused(code, error.message) from error
        except RequestError as error:
            raise WorkRefused(error.code, error.message) from error
        except MeshUnavailable as error:
            raise WorkRefused("overloaded", error.message) from error
        if assigned.accepted is None or assigned.turn is None:
            raise WorkRefused("request_id_conflict", f"there is a task {request.request_id} {_OTHERWISE}")
        return TurnJob(assigned.turn, self.services, request.request_id)

    def resume(self, entry: ledger.WorkEntry) -> RunningWork | None:
        turn = self.services.admission.queues.turn(entry.message_id)
        return TurnJob(turn, self.services, entry.request.request_id) if turn is not None else None

    # -- WorkStore of the loop

    def load_external_work(self, connection: sqlite3.Connection, turn: TurnRow) -> ExternalWork | None:
        entry = ledger.find(connection, turn.task_id) if turn.task_id is not None else None
        if entry is None or entry.message_id != turn.message_id:
            return None
        return self._external_work(entry.request)

    def record_interruption(
        self, connection: sqlite3.Connection, turn: TurnRow, outcome: TurnOutcome, now: int
    ) -> None:
        entry = ledger.find(connection, turn.task_id) if turn.task_id is not None else None
        if entry is not None and entry.message_id == turn.message_id:
            reply = history.message(connection, turn.reply_id)
            parts = reply.parts if reply is not None else []
            ledger.save_result(connection, _result(connection, entry.request, turn.message_id, parts, outcome, now))

    # -- helpers

    def _external_work(self, request: WorkRequest) -> ExternalWork:
        """Return the request as work of the loop. Raises WorkRefused."""
        limit = partial(limits_within, bounds=request.bounds)
        return ExternalWork(SOURCE, request.request_id, _LedgerRecorder(request), limit, scope_layer(request))

    async def _start_chat_turn(self, request: WorkRequest, external_work: ExternalWork) -> Turn:
        incoming = IncomingMessage(
            principal=request.principal.name,
            parts=[{"type": "text", "text": request.content}],
            message_id=request.request_id,
            external_work=external_work,
        )
        sent = await self.chats.send(incoming)
        if isinstance(sent, CompletedTurn) or sent.request.external_work is not external_work:
            raise WorkRefused("request_id_conflict", f"there is a message {request.request_id} {_OTHERWISE}")
        return sent


@dataclass(slots=True)
class _LedgerRecorder:
    """Updates the ledger in the transactions of the turn."""

    request: WorkRequest
    result: WorkResult | None = None
    """The result as last written; the turn knows whether it is on disk."""

    def record_admission(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        ledger.insert_request(connection, self.request, turn.message_id, now)
        if self.request.is_asked_by_agent:  # which may have read anything, whoever stands behind it
            rows.mark_outside_text(connection, turn.session.id)
            turn.session.outside_text.seen = True

    def record_end(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        if turn.end.outcome is not None:
            self.result = _result(
                connection, self.request, turn.message_id, turn.end.reply_parts, turn.end.outcome, now
            )
            ledger.save_result(connection, self.result)


@dataclass(frozen=True, slots=True)
class TurnJob:
    """Implements RunningWork with a turn."""

    turn: Turn
    services: LoopServices
    request_id: str

    async def wait_ended(self) -> bool:
        await self.turn.ended.wait()
        return self.turn.end.outcome is not None

    def result(self) -> WorkResult | None:
        recorder = self.turn.request.external_work.recorder if self.turn.request.external_work is not None else None
        return recorder.result if self.turn.end.recorded and isinstance(recorder, _LedgerRecorder) else None

    async def stop(self, why: WorkStop) -> None:
        if why in ("cancelled", "host_deadline"):
            await self.services.admission.stop(self.turn, why)
        elif self.turn.state == "running":  # queued or waiting turns have no effects and may stay
            self.turn.stop(why)

    @property
    def queued(self) -> bool:
        return self.turn.state == "queued"

    def usage(self) -> WorkUsage:
        budget = self.turn.budget
        started = self.turn.start.monotonic
        running = self.services.clock.monotonic() - started if started is not None else 0.0
        return WorkUsage(
            tokens=budget.tokens,
            tool_calls=budget.calls,
            egress_bytes=budget.egress.sent_bytes if budget.egress.limited else None,
            duration_ms=self.turn.end.duration_ms or round(max(0.0, running) * 1000),
            cost_usd=budget.usage.cost_usd,
        )

    def progress(self) -> AsyncIterator[Progress] | None:
        if self.turn.ended.is_set():
            return None
        return follow_progress(self.request_id, self.turn.stream, usage=self.usage, is_queued=lambda: self.queued)


def refusal_result(request: WorkRequest, code: str, text: str, now: int, *, failed: bool = False) -> WorkResult:
    """Return the result of a request that is not begun."""
    return WorkResult(
        request_id=request.request_id,
        status="failed" if failed else "denied",
        error=f"{code}: {text}" if text else code,
        completed_at=to_rfc3339(now),
        audit_ref=request.audit_ref,
    )


def _result(
    connection: sqlite3.Connection,
    request: WorkRequest,
    message_id: str,
    parts: list[dict[str, Any]],
    outcome: TurnOutcome,
    now: int,
) -> WorkResult:
    """Return the WorkResult of a turn that has ended (docs/protocols/task.md#how-it-ends)."""
    if outcome.status == "complete":
        status = "completed"
        error = None
    else:
        status = "yielded" if outcome.error_code in YIELDED else "failed"
        error = ": ".join(one for one in (outcome.error_code, outcome.error) if one)
    record = record_of(connection, message_id)
    if record is not None:
        content = record.model_dump_json(exclude={"created_at", "started_at", "finished_at", "attempts"})
    else:
        content = text_of(parts) or None
    return WorkResult.model_validate(
        {
            "request_id": request.request_id,
            "status": status,
            "content": content,
            "error": error,
            "completed_at": to_rfc3339(now),
            "audit_ref": request.audit_ref,
        }
    )


def _assignment(request: WorkRequest) -> TaskAssignment:
    """Return the content as a TaskAssignment, or as the input of one. Raises WorkRefused."""
    try:
        content: Any = read_json(request.content.encode(), _CONTENT_LIMITS)
    except ValueError as error:
        raise WorkRefused("invalid_content", f"content is not the JSON that content_kind promises: {error}") from error
    if is_assignment(content):
        try:
            given = TaskAssignment.model_validate_json(json.dumps({"task_id": "work", **content}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise WorkRefused("invalid_content", f"content.{where}: {first['msg']}") from error
    else:
        given = TaskAssignment(
            workflow_id=SOURCE,
            step_id="work",
            task_type=request.content_kind,
            input_data=content if is_object(content) else {"content": content},
        )
    # Set afterwards, because ids of requests are free, while the pattern of a task's id is stricter.
    return given.model_copy(update={"task_id": request.request_id})
