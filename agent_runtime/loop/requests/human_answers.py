"""Take answers to a turn's pending requests: matched by id, recorded before they count, one per request
(docs/waits.md)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_common.protocol import Rule
from agent_common.protocol import chunks as c

from ...errors import Conflict, InvalidRequest
from ...sessions import rows, unknown_session
from ...store import Unit
from ..core.corrections import rejected
from ..core.live_sessions import LiveSession
from ..core.pending_requests import PendingRequest
from ..core.turn_state import Turn
from ..services import LoopServices

Decision = Literal["once", "always", "reject"]
SETTLING_SECONDS = 30.0
"""What a step's other calls get to finish, so that an answer finds the turn waiting."""


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """What a person says to one request."""

    id: str
    """The request's id; for an approval its call's id will do."""
    answers: list[list[str]] | None = None
    """For a question: one list of texts per question."""
    decision: Decision | None = None
    """For an approval."""
    reason: str | None = None
    refused: str | None = None
    """There is no answer, and why: the question's call has failed."""


class HumanAnswers:
    """Takes answers and lets the turns go on that have all of theirs."""

    def __init__(self, hallway: LoopServices) -> None:
        self._hall = hallway

    async def give(self, principal: str, session: str, answer: HumanAnswer) -> Turn:
        """Records the answer; the turn that it belongs to. Raises NotFound for an unknown session, Conflict
        `not_waiting` when nothing with that id is open (and nothing has changed), InvalidRequest when the answer does
        not fit what was asked."""
        conversation = await self._hall.conversations.get(principal, session)
        if conversation is None:
            raise unknown_session(session)
        turn, wait = await self._find(conversation, answer.id)
        await self._take(conversation, turn, wait, answer)
        return turn

    async def give_all(
        self, principal: str, session: str | None, given: Sequence[HumanAnswer], reply_id: str
    ) -> Turn | None:
        """Takes those of the answers that something waits for. None when nothing does; a turn that has its answers
        already and is at that very reply goes on."""
        conversation = await self._hall.conversations.get(principal, session)
        turn = self._hall.admission.current(conversation) if conversation else None
        if conversation is None or turn is None:
            return None
        by_call = {answer.id: answer for answer in given}
        if turn.state == "settling" or turn.asked & by_call.keys():
            await _quiet(turn)
        met = [(wait, by_call[wait.call_id]) for wait in turn.waits.values() if wait.call_id in by_call]
        for wait, answer in met:
            _recorded(wait, answer)  # all of them fit, or none is taken
        for wait, answer in met:
            await self._take(conversation, turn, wait, answer)
        return turn if met or (turn.begun and turn.reply_id == reply_id and not turn.waits) else None

    async def asking(self, conversation: LiveSession) -> Turn | None:
        """The session's turn if it waits for a person, or is about to; else None."""
        turn = self._hall.admission.current(conversation)
        if turn is not None and turn.asked and turn.state in ("running", "settling"):
            await _quiet(turn)
        return turn if turn is not None and turn.state == "waiting" and turn.waits else None

    async def take(self, conversation: LiveSession, turn: Turn, answer: HumanAnswer, message: Unit[None]) -> None:
        """Records the answer and the message that gave it, in one transaction."""
        await self._take(conversation, turn, turn.waits[answer.id], answer, message)

    async def _take(
        self,
        conversation: LiveSession,
        turn: Turn,
        wait: PendingRequest,
        answer: HumanAnswer,
        message: Unit[None] | None = None,
    ) -> None:
        """An answer that is on its way to the disk counts, also when whoever gave it hangs up."""
        recorded = _recorded(wait, answer)
        if turn.state != "waiting" or turn.waits.pop(wait.id, None) is None:
            raise _not_waiting(wait.id)  # another one was faster, or the turn was stopped
        taking = asyncio.create_task(self._settle(conversation, turn, wait, answer, recorded, message))
        turn.answering.add(taking)
        taking.add_done_callback(lambda done: self._taken(turn, done))
        await asyncio.shield(taking)

    def _taken(self, turn: Turn, taking: asyncio.Task[None]) -> None:
        """The turn goes on behind its last answer, not before: it reads all of them from disk."""
        turn.answering.discard(taking)
        self._hall.admission.take_up(turn)

    async def _settle(
        self,
        conversation: LiveSession,
        turn: Turn,
        wait: PendingRequest,
        answer: HumanAnswer,
        recorded: dict[str, Any],
        message: Unit[None] | None,
    ) -> None:
        try:
            await self._record(conversation, turn, wait, answer, recorded, message)
        except BaseException:
            turn.waits[wait.id] = wait
            raise
        if "output" in recorded:
            turn.live.publish(c.ToolOutputAvailable(toolCallId=wait.call_id, output=recorded["output"]))
        elif "errorText" in recorded:
            turn.live.publish(c.ToolOutputError(toolCallId=wait.call_id, errorText=recorded["errorText"]))
        elif answer.decision == "reject":
            turn.live.publish(c.ToolOutputDenied(toolCallId=wait.call_id))
            rejected(turn, wait.tool, wait.input, answer.reason, self._hall.learnings)
        else:
            turn.live.approved(wait.call_id)

    async def _find(self, conversation: LiveSession, answered: str) -> tuple[Turn, PendingRequest]:
        turn = self._hall.admission.current(conversation)
        if turn is not None and turn.state in ("running", "settling") and answered in turn.asked:
            # What is asked is seen before the other calls of its step are done, and may be answered as early.
            await _quiet(turn)
        if turn is not None and turn.state == "waiting":
            found = turn.waits.get(answered)
            for wait in (found,) if found else turn.waits.values():
                if answered in (wait.id, wait.call_id):
                    return turn, wait
        raise _not_waiting(answered)

    async def _record(
        self,
        conversation: LiveSession,
        turn: Turn,
        wait: PendingRequest,
        answer: HumanAnswer,
        recorded: dict[str, Any],
        message: Unit[None] | None,
    ) -> None:
        now = self._hall.clock.now_ms()
        added = tuple(Rule(**rule, added_at=now) for rule in wait.rules) if answer.decision == "always" else ()
        rules = _with(conversation.rules, added)

        def unit(connection: sqlite3.Connection) -> None:
            rows.answer_part(connection, turn.reply_id, wait.call_id, recorded, now)
            if added:
                rows.set_permissions(connection, conversation.id, rules, now)
            if message is not None:
                message(connection)

        before, conversation.rules = conversation.rules, rules
        try:
            await self._hall.database.write(unit, durable=True)
        except BaseException:
            if conversation.rules is rules:  # nobody has changed them since
                conversation.rules = before
            raise


def _with(rules: Sequence[Rule], added: Sequence[Rule]) -> tuple[Rule, ...]:
    """A new rule takes the place of one of this session that allows or asks for the very same."""
    replaced = {(rule.permission, rule.pattern) for rule in added}
    kept = (one for one in rules if one.action == "deny" or (one.permission, one.pattern) not in replaced)
    return (*kept, *added)


async def _quiet(turn: Turn) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLING_SECONDS):
            await turn.quiet.wait()


def _not_waiting(answered: str) -> Conflict:
    return Conflict(f"nothing with the id {answered} waits for an answer", code="not_waiting")


def _recorded(wait: PendingRequest, answer: HumanAnswer) -> dict[str, Any]:
    """What the answer makes of the call's part. Raises InvalidRequest when it does not fit what was asked."""
    return _question(wait, answer) if wait.kind == "question" else _approval(wait, answer)


def _question(wait: PendingRequest, answer: HumanAnswer) -> dict[str, Any]:
    """The part of an answered question: the answers are the call's result."""
    if answer.refused is not None:
        return {"state": "output-error", "errorText": answer.refused}
    if answer.answers is None:
        raise InvalidRequest("this is a question", faults=[("answers", "give one list of texts per question")])
    if len(answer.answers) != len(wait.questions):
        count = f"give {len(wait.questions)} lists of texts, one per question, not {len(answer.answers)}"
        raise InvalidRequest("the answers do not fit the questions", faults=[("answers", count)])
    output = {"type": "output", "data": {"answers": answer.answers}, "metadata": {}}
    return {"state": "output-available", "output": output}


def _approval(wait: PendingRequest, answer: HumanAnswer) -> dict[str, Any]:
    if answer.decision is None:
        raise InvalidRequest("this is an approval", faults=[("decision", "must be once, always or reject")])
    approved = answer.decision != "reject"
    approval: dict[str, Any] = {"id": wait.id, "approved": approved}
    if answer.reason is not None:
        approval["reason"] = answer.reason
    return {"state": "approval-responded" if approved else "output-denied", "approval": approval}
