"""Take answers to a turn's pending requests: matched by id, recorded before they count, one per request
(docs/reference/waits.md)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from agent_common.protocol import ApprovalScope, Rule
from agent_common.protocol import chunks as c

from ...errors import Conflict, InvalidRequest
from ...sessions import rows, unknown_session
from ...store import Unit
from ..core.agent_rules import merge_rules
from ..core.corrections import record_rejection
from ..core.live_sessions import LiveSession
from ..core.pending_requests import PendingRequest
from ..core.turn_state import Turn
from ..services import LoopServices

Decision = Literal["once", "always", "reject"]
PAUSE_SECONDS = 30.0
"""Seconds that a step's other calls have to finish, so that an answer finds the turn waiting."""


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """A person's answer to one request."""

    id: str
    """The request's id."""
    answers: list[list[str]] | None = None
    """For a question: one list of texts per question."""
    decision: Decision | None = None
    """For an approval only."""
    scope: ApprovalScope = "session"
    """For what `always` holds."""
    reason: str | None = None
    sender: str | None = None
    """The member of a group who answers; None: the token's holder."""
    no_answer_reason: str | None = None
    """Why there will be no answer: the question's call then fails with this text."""


class HumanAnswers:
    """Takes answers, and resumes the turns that have all of theirs."""

    def __init__(self, services: LoopServices) -> None:
        self._services = services

    async def submit(self, principal: str, session_name: str, answer: HumanAnswer) -> Turn:
        """Record the answer and return its turn.

        Raises NotFound for an unknown session, Conflict `not_waiting` if no request with that id is open and
        `wrong_sender` if another member of a group was asked, and InvalidRequest if the answer does not fit the
        request. Nothing has changed then.
        """
        session = await self._services.live_sessions.get(principal, session_name)
        if session is None:
            raise unknown_session(session_name)
        turn, request = await self._find(session, answer.id)
        await self._submit(turn, request, answer)
        return turn

    async def submit_all(
        self, principal: str, session_name: str | None, answers: Sequence[HumanAnswer], reply_id: str
    ) -> Turn | None:
        """Record those of the answers that match open requests of the session's turn, and return the turn.

        Returns None if none matches, unless the turn has all its answers already and continues the reply `reply_id`.
        """
        session = await self._services.live_sessions.get(principal, session_name)
        turn = self._services.admission.queues.head_turn(session) if session else None
        if session is None or turn is None:
            return None
        by_id = {answer.id: answer for answer in answers}
        if turn.state == "finalizing" or turn.human_wait.answerable_ids & by_id.keys():
            await _wait_until_paused(turn)
        requests = list(turn.human_wait.requests.values())
        matching = [(request, by_id[request.id]) for request in requests if request.id in by_id]
        for request, answer in matching:
            _require_asked(turn, answer)
            _part_changes(request, answer)  # raises unless all of them fit
        for request, answer in matching:
            await self._submit(turn, request, answer)
        if matching:
            return turn
        continues = turn.has_run_before and turn.request.reply_id == reply_id and not turn.human_wait.requests
        return turn if continues else None

    async def waiting_turn(self, session: LiveSession) -> Turn | None:
        """Return the session's turn if it waits for a person, or is about to; else None."""
        turn = self._services.admission.queues.head_turn(session)
        if turn is not None and turn.human_wait.answerable_ids and turn.state in ("running", "finalizing"):
            await _wait_until_paused(turn)
        return turn if turn is not None and turn.state == "waiting" and turn.human_wait.requests else None

    async def submit_with_message(self, turn: Turn, answer: HumanAnswer, message: Unit[None]) -> None:
        """Record the answer, and the message that contained it, in one transaction."""
        await self._submit(turn, turn.human_wait.requests[answer.id], answer, message)

    async def _submit(
        self, turn: Turn, request: PendingRequest, answer: HumanAnswer, message: Unit[None] | None = None
    ) -> None:
        """Record an answer. Cancelling the caller does not stop a write that is under way."""
        _require_asked(turn, answer)
        recorded = _part_changes(request, answer)
        if turn.state != "waiting" or turn.human_wait.requests.pop(request.id, None) is None:
            raise _not_waiting(request.id)  # already answered, or the turn was stopped
        taking = asyncio.create_task(self._record_and_publish(turn, request, answer, recorded, message))
        turn.human_wait.answer_writes.add(taking)
        taking.add_done_callback(lambda done: self._on_recorded(turn, done))
        await asyncio.shield(taking)

    def _on_recorded(self, turn: Turn, write: asyncio.Task[None]) -> None:
        """Resume the turn after its last answer is recorded, because it reads all of them from disk."""
        turn.human_wait.answer_writes.discard(write)
        self._services.admission.resume_if_answered(turn)

    async def _record_and_publish(
        self,
        turn: Turn,
        request: PendingRequest,
        answer: HumanAnswer,
        part_changes: dict[str, Any],
        message: Unit[None] | None,
    ) -> None:
        try:
            await self._record(turn, request, answer, part_changes, message)
        except BaseException:
            turn.human_wait.requests[request.id] = request
            raise
        facts = request.resolved_facts("answered", answer.decision, answer.scope)
        self._services.events.emit("approval-resolved", turn.session.principal, **turn.event_facts(), **facts)
        if "output" in part_changes:
            turn.stream.publish(c.ToolOutputAvailable(toolCallId=request.call_id, output=part_changes["output"]))
        elif "errorText" in part_changes:
            turn.stream.publish(c.ToolOutputError(toolCallId=request.call_id, errorText=part_changes["errorText"]))
        elif answer.decision == "reject":
            turn.stream.publish(c.ToolOutputDenied(toolCallId=request.call_id))
            record_rejection(turn, request.tool, request.input, answer.reason, self._services.learnings)
        else:
            turn.stream.drop_approval_request(request.call_id)

    async def _find(self, session: LiveSession, request_id: str) -> tuple[Turn, PendingRequest]:
        turn = self._services.admission.queues.head_turn(session)
        if (
            turn is not None
            and turn.state in ("running", "finalizing")
            and request_id in turn.human_wait.answerable_ids
        ):
            # A client sees a request before the other calls of its step are done, and may answer it as early.
            await _wait_until_paused(turn)
        request = turn.human_wait.requests.get(request_id) if turn is not None and turn.state == "waiting" else None
        if turn is None or request is None:
            raise _not_waiting(request_id)
        return turn, request

    async def _record(
        self,
        turn: Turn,
        request: PendingRequest,
        answer: HumanAnswer,
        part_changes: dict[str, Any],
        message: Unit[None] | None,
    ) -> None:
        now = self._services.clock.now_ms()

        def unit(connection: sqlite3.Connection) -> None:
            rows.save_answer(connection, turn.request.reply_id, request.call_id, part_changes, now)
            if message is not None:
                message(connection)

        allowed = request.rules if answer.decision == "always" else ()
        added = tuple(Rule(**rule, source=answer.scope, added_at=now) for rule in allowed)
        if added and answer.scope == "agent":
            await self._services.agent_rules.change(
                turn.session.principal, turn.request.agent, partial(merge_rules, added=added), now, unit
            )
        else:
            await self._add_to_session(turn.session, added, now, unit)

    async def _add_to_session(self, session: LiveSession, added: Sequence[Rule], now: int, also: Unit[None]) -> None:
        """Add rules to a session, with `also` in the same transaction."""
        before = session.rules
        rules = merge_rules(before, added) if added else before

        def unit(connection: sqlite3.Connection) -> None:
            also(connection)
            if added:
                rows.set_permissions(connection, session.id, rules, now)

        session.rules = rules
        try:
            await self._services.database.write(unit, durable=True)
        except BaseException:
            if session.rules is rules:  # unchanged since then
                session.rules = before
            raise


async def _wait_until_paused(turn: Turn) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PAUSE_SECONDS):
            await turn.paused_or_ended.wait()


def _require_asked(turn: Turn, answer: HumanAnswer) -> None:
    """Raise Conflict `wrong_sender` if the answer names another member of a group than the one who was asked."""
    if answer.sender is not None and turn.request.sender not in (None, answer.sender):
        text = f"{turn.request.sender} was asked, so {answer.sender} cannot answer"
        raise Conflict(text, code="wrong_sender", pending=turn.pending())


def _not_waiting(request_id: str) -> Conflict:
    text = f"nothing with the id {request_id} waits for an answer; GET /pending lists what does, each with its id"
    return Conflict(text, code="not_waiting")


def _part_changes(request: PendingRequest, answer: HumanAnswer) -> dict[str, Any]:
    """Return the changes that the answer makes to the call's part. Raises InvalidRequest if it does not fit."""
    return _question_changes(request, answer) if request.kind == "question" else _approval_changes(request, answer)


def _question_changes(request: PendingRequest, answer: HumanAnswer) -> dict[str, Any]:
    """Return the changes for an answered question: the answers are the call's result."""
    if answer.no_answer_reason is not None:
        return {"state": "output-error", "errorText": answer.no_answer_reason}
    if answer.answers is None:
        raise InvalidRequest("this is a question", faults=[("answers", "give one list of texts per question")])
    if len(answer.answers) != len(request.questions):
        count = f"give {len(request.questions)} lists of texts, one per question, not {len(answer.answers)}"
        raise InvalidRequest("the answers do not fit the questions", faults=[("answers", count)])
    output = {"type": "output", "data": {"answers": answer.answers}, "metadata": {}}
    return {"state": "output-available", "output": output}


def _approval_changes(request: PendingRequest, answer: HumanAnswer) -> dict[str, Any]:
    if answer.decision is None:
        raise InvalidRequest("this is an approval", faults=[("decision", "must be once, always or reject")])
    approved = answer.decision != "reject"
    approval: dict[str, Any] = {"id": request.id, "approved": approved}
    if answer.reason is not None:
        approval["reason"] = answer.reason
    return {"state": "approval-responded" if approved else "output-denied", "approval": approval}
