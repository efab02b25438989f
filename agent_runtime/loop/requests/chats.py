"""Chats: turn a user message into a turn. Every entry point that speaks for a person uses this service."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from agent_common.protocol import ChatReply, OnBusy, ToolOutput, Usage
from agent_common.protocol import chunks as c

from ...agents import DEFAULT
from ...errors import Conflict, NotFound
from ...sessions import (
    Message,
    NewTurn,
    TurnRow,
    agent_prompts,
    branches,
    history,
    is_session_id,
    retention,
    rows,
    text_of,
    tool_name,
    unknown_session,
)
from ...store import Unit
from ..core.live_sessions import MAIN_ALIAS, LiveSession
from ..core.turn_state import ExternalWork, Turn, TurnRequest
from ..limits.budget import UsageBudget
from ..limits.turn_limits import TurnLimits
from ..services import LoopServices
from ..sessions.session_service import close_session
from .human_answers import HumanAnswers
from .plain_text_answers import parse_plain_text_answer, require_same_agent_and_model


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A user message as an entry point submits it."""

    principal: str
    parts: list[dict[str, Any]]
    session: str | None = None
    message_id: str | None = None
    """The client's id of the message."""
    model: str | None = None
    agent: str | None = None
    """The agent that is to answer; None: the session's own."""
    on_busy: OnBusy = "queue"
    sender: str | None = None
    """The member of a group who writes, where one principal stands for the group."""
    regenerate: bool = False
    """Make the reply to the message of this id again: the conversation is first rewound to the message."""
    is_edit: bool = False
    """The message replaces the one of its id if its content differs, or if the conversation went on behind that: it is
    first rewound to there."""
    external_work: ExternalWork | None = None
    """Set for recorded work from outside: no person can be asked, and a crash does not end the turn."""

    def fingerprint(self) -> str:
        return hashlib.sha256(to_json(self.parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class CompletedTurn:
    """A turn that has ended, read from the record."""

    public_ids: dict[str, str]
    reply: Message | None
    outcome: dict[str, Any] = field(default_factory=dict[str, Any])


class _DuplicateMessage(Exception):
    """Raised if the message id is already in use, possibly by a concurrent request."""


class ChatService:
    """Admits user messages and answers repeated ones from the record."""

    def __init__(self, services: LoopServices, limits: Callable[[], TurnLimits]) -> None:
        self._services = services
        self._limits = limits
        self._answers = HumanAnswers(services)

    async def send(self, incoming: IncomingMessage) -> Turn | CompletedTurn:
        """Admit the message. A known one returns the turn that it started. Raises Conflict, NotFound, Busy."""
        agent = incoming.agent or DEFAULT
        session = await self._services.live_sessions.find_or_create(incoming.principal, incoming.session, agent)
        session.use_count += 1  # a refused request beside this one must not drop it
        try:
            return await self._send(incoming, session)
        finally:
            session.use_count -= 1
            self._services.live_sessions.discard_unstored(session)

    async def find(self, session: LiveSession, name: str) -> Turn | CompletedTurn:
        """Return the turn that the message with that name has started, the client's id or ours. Raises NotFound."""
        row = await self._services.database.read(lambda connection: branches.find_turn(connection, session.id, name))
        if row is None:
            raise NotFound(f"there is no message {name}", code="unknown_message")
        return await self._turn_of(row, None)

    async def _send(self, incoming: IncomingMessage, session: LiveSession) -> Turn | CompletedTurn:
        if incoming.regenerate or (incoming.is_edit and await self._replaces(incoming, session)):
            return await self._rewind_and_send(incoming, session)
        if incoming.message_id is not None and (known := await self._find_existing(incoming, session)) is not None:
            return known
        if incoming.on_busy == "answer" and (turn := await self._answers.waiting_turn(session)) is not None:
            return await self._answer(turn, incoming, session)
        return await self._admit(incoming, session)

    async def _answer(
        self, waiting_turn: Turn, incoming: IncomingMessage, session: LiveSession
    ) -> Turn | CompletedTurn:
        """Submit the message as the answer that the turn waits for. Raises Conflict `not_an_answer`, `wrong_sender`."""
        require_same_agent_and_model(waiting_turn, agent=incoming.agent, model=incoming.model)
        answer = parse_plain_text_answer(waiting_turn, incoming.parts, incoming.sender)
        message = self._turn(replace(incoming, agent=waiting_turn.request.agent, model=waiting_turn.model), session)
        admitted = self._unit(incoming, message)
        since = waiting_turn.stream.resume_position

        def unit(connection: sqlite3.Connection) -> None:
            admitted(connection)
            into = (waiting_turn.message_id, waiting_turn.request.reply_id)
            rows.steer_turn(connection, message.message_id, into, {"status": "answered"}, message.sent_ms)

        try:
            await self._answers.submit_with_message(waiting_turn, answer, unit)
        except _DuplicateMessage:
            return await self._require_existing(incoming, session)
        start = c.Start(
            messageId=waiting_turn.request.reply_id,
            messageMetadata={**message.public_ids(), "pending": waiting_turn.pending()},
        )
        message.end.joined_turn = waiting_turn
        message.stream.continue_as(waiting_turn.stream, since=since, first_chunk=start)
        message.mark_ended()
        return message

    async def _require_existing(self, incoming: IncomingMessage, session: LiveSession) -> Turn | CompletedTurn:
        """Return the turn that the other message of the same id has started."""
        known = await self._find_existing(incoming, session)
        assert known is not None  # noqa: S101  its row has just been seen
        return known

    async def _replaces(self, incoming: IncomingMessage, session: LiveSession) -> bool:
        """Return whether an edited message takes the place of the one of its id; False if it is that one sent again."""

        def read(connection: sqlite3.Connection) -> bool:
            message_id = branches.resolve_message_id(connection, session.id, incoming.message_id or "")
            if message_id is None or branches.is_rewound(connection, message_id):
                return False
            row = history.turn(connection, message_id)
            if row is None:  # it was copied by a fork or an import
                return branches.is_shown(connection, message_id)
            changed = row.fingerprint != incoming.fingerprint()
            return changed or (row.state == "ended" and branches.is_followed(connection, message_id))

        return await self._services.database.read(read)

    async def _rewind_and_send(self, incoming: IncomingMessage, session: LiveSession) -> Turn | CompletedTurn:
        """Rewind to the message of this id and send it again, in one transaction."""
        if incoming.on_busy == "interrupt":
            await self._interrupt(incoming, session)
        with self._services.admission.hold(session):
            sent = await self._admit(replace(incoming, regenerate=True), session)
            session.view = None
            session.context_tokens = 0
        return sent

    async def _interrupt(self, incoming: IncomingMessage, session: LiveSession) -> None:
        """End the session's turn, and take back what waits behind the message that is sent again. Where others wait
        before it, or work from outside, nothing is lost: the session stays busy."""
        _require_can_accept(incoming, session, None)
        waiting = self._services.admission.queues.queue(session)
        names = [{turn.request.message_name, turn.message_id} for turn in waiting[1:]]
        others = any(incoming.message_id in own for own in names) or any(turn.request.external_work for turn in waiting)
        if not others and session.id not in self._services.admission.queues.held:
            # Cancelling the caller does not undo the interruption.
            await asyncio.shield(self._services.admission.stop_all(session))

    async def _admit(self, incoming: IncomingMessage, session: LiveSession) -> Turn | CompletedTurn:
        turn = self._turn(incoming, session)
        await self._services.require_fit(turn)
        if incoming.regenerate:
            await self._cancel_resting(incoming, session)
        running = self._services.admission.queues.active_turn(session)
        interrupted = running if incoming.on_busy == "interrupt" and running and running.state != "queued" else None
        _require_can_accept(incoming, session, running)  # no await between this check and the reservation
        try:
            await self._services.admission.admit(turn, lambda admitted: self._unit(incoming, admitted))
        except _DuplicateMessage:
            return await self._require_existing(incoming, session)
        if interrupted is not None:
            # Cancelling the caller does not undo the interruption.
            await asyncio.shield(self._services.admission.stop(interrupted))
        return turn

    async def _cancel_resting(self, incoming: IncomingMessage, session: LiveSession) -> None:
        """Take back what rests in the queue from the message of this id on. Work from outside stays."""
        queue = self._services.admission.queues.queue(session)
        if not (resting := [turn for turn in queue if turn.request.external_work is None]):
            return
        name = incoming.message_id or ""
        since = await self._services.database.read(lambda connection: branches.sent_at(connection, session.id, name))
        for turn in resting:
            if since is not None and turn.sent_ms >= since:
                await self._services.admission.cancel_queued(turn)

    async def reset(self, principal: str, session: str | None) -> tuple[str, str | None]:
        """Archive a session, if it exists, and create its successor under the same alias. Returns new id and old id."""
        old = await self._services.live_sessions.get(principal, session)
        if old is None and session is not None and is_session_id(session):
            raise unknown_session(session)
        alias = session if session is not None and (old is None or session != old.id) else MAIN_ALIAS
        was_archived = old is not None and old.archived
        if old is not None:
            await close_session(self._services, old)
        fresh = self._services.live_sessions.create(principal, alias)
        now = self._services.clock.now_ms()

        def unit(connection: sqlite3.Connection) -> None:
            if old is not None:
                rows.archive(connection, old.id, now, succeeded=True)
            rows.insert_session(connection, fresh.new_row(str(self._services.home.workspace)), now)

        try:
            await self._services.database.write(unit, durable=True)
        except BaseException:
            self._services.live_sessions.discard_unstored(fresh)
            if old is not None:
                old.archived = was_archived
            raise
        fresh.stored = True
        if old is not None:
            await asyncio.to_thread(self._services.home.remove_scratch, old.id)
        return fresh.id, old.id if old is not None and old.stored else None

    async def _find_existing(self, incoming: IncomingMessage, session: LiveSession) -> Turn | CompletedTurn | None:
        """Return the turn that this message id has started; None if the id is new."""
        client_id = incoming.message_id or ""

        def read(connection: sqlite3.Connection) -> TurnRow | None:
            message_id = branches.resolve_message_id(connection, session.id, client_id)
            if message_id is None or branches.is_rewound(connection, message_id):
                return None
            return history.turn(connection, message_id)

        row = await self._services.database.read(read)
        if row is None:
            return None
        if row.fingerprint != incoming.fingerprint():
            raise Conflict(f"message {client_id} exists with other content", code="message_conflict")
        return await self._turn_of(row, incoming.session)

    async def _turn_of(self, row: TurnRow, session_name: str | None) -> Turn | CompletedTurn:
        joined = (row.outcome or {}).get("into")  # a message that steered has the end of the turn that it joined
        turn = self._services.admission.queues.turn(joined or row.message_id)
        if turn is not None:
            return turn
        reply = await self._services.database.read(lambda connection: history.message(connection, row.reply_id))
        names = {"session_id": session_name or row.session_id, "message_id": row.client_id or row.message_id}
        outcome = reply.metadata.get("outcome") if reply is not None else None
        return CompletedTurn(names, reply, outcome or row.outcome or {})

    def _turn(self, incoming: IncomingMessage, session: LiveSession) -> Turn:
        message_id = self._services.ids.new("msg")
        running = self._services.admission.queues.active_turn(session) if incoming.on_busy == "steer" else None
        named = incoming.agent or (running.request.agent if running is not None else session.agent)
        agent = self._services.live_sessions.add_agent(session, named)
        limits = self._limits().at_most(agent.max_steps)
        external_work = incoming.external_work
        of_agent = agent.model if agent.name != session.agent else None
        return Turn(
            TurnRequest(
                session=session,
                message_id=message_id,
                reply_id=self._services.ids.new("msg"),
                parts=incoming.parts,
                model_chosen_by="message" if incoming.model else "agent" if of_agent else "session",
                agent=agent.name,
                temperature=agent.temperature,
                session_name=incoming.session or session.id,
                message_name=incoming.message_id or message_id,
                task_id=external_work.work_id if external_work is not None else None,
                external_work=external_work,
                interactive=external_work is None,
                sender=incoming.sender,
                steers=incoming.on_busy == "steer",
            ),
            budget=UsageBudget(external_work.narrow_limits(limits) if external_work is not None else limits),
            model=incoming.model or of_agent or session.model,
        )

    def _unit(self, incoming: IncomingMessage, turn: Turn) -> Unit[None]:
        now = turn.sent_ms = turn.session.next_timestamp(self._services.clock.now_ms())
        parts = tuple((self._services.ids.new("prt"), part) for part in turn.request.parts)
        session = None if turn.session.stored else turn.session.new_row(str(self._services.home.workspace))
        prompt = turn.session.prompts.get(turn.request.agent)
        row = NewTurn(
            turn.message_id,
            turn.session.id,
            turn.request.reply_id,
            parts,
            incoming.fingerprint(),
            turn.admission.queued,
            client_id=incoming.message_id,
            task_id=turn.request.task_id,
            metadata=_metadata(turn),
            may_give_title=not turn.session.has_text,
        )

        def unit(connection: sqlite3.Connection) -> None:
            if session is not None:
                rows.insert_session(connection, session, now)
            elif not retention.is_kept(connection, row.session_id):  # it has expired meanwhile
                raise unknown_session(turn.request.session_name)
            if prompt is not None and turn.request.agent != turn.session.agent:
                agent_prompts.add(connection, turn.session.id, turn.request.agent, prompt)
            if incoming.regenerate and incoming.message_id is not None:
                _rewind(connection, row.session_id, incoming.message_id, now)
            elif incoming.message_id is not None:
                branches.free_rewound_id(connection, row.session_id, incoming.message_id)
            try:
                rows.insert_turn(connection, row, now)
            except sqlite3.IntegrityError as error:
                raise _DuplicateMessage from error
            if turn.request.external_work is not None:
                turn.request.external_work.recorder.record_admission(connection, turn, now)

        return unit


def _require_can_accept(incoming: IncomingMessage, session: LiveSession, running: Turn | None) -> None:
    if session.archived:
        raise Conflict(f"session {session.id} is archived; use another one", code="session_archived")
    if session.is_subagent:
        text = f"session {session.id} belongs to a subagent: fork it to continue from there"
        raise Conflict(text, code="subagent_session")
    if incoming.on_busy == "reject" and running is not None:
        raise Conflict("a turn is running in this session", code="session_busy", running=running.public_ids())


def _rewind(connection: sqlite3.Connection, session_id: str, name: str, now: int) -> None:
    """Rewind the conversation to before the message of that client id, which becomes free again: for one that was
    cancelled in the queue, to before what was said after it. Of one that is already rewound only the id becomes
    free."""
    since = branches.sent_at(connection, session_id, name)
    branches.free_rewound_id(connection, session_id, name, or_cancelled=True)
    message_id = branches.resolve_message_id(connection, session_id, name)
    if message_id is not None and not branches.is_hidden(connection, message_id):
        branches.rewind(connection, session_id, message_id, now, free_id=True)
    elif since is not None and (later := branches.first_sent_after(connection, session_id, since)) is not None:
        branches.rewind(connection, session_id, later, now)


def _metadata(turn: Turn) -> dict[str, Any]:
    """Return the metadata that is stored with the user's message."""
    about: dict[str, Any] = {
        "session_name": turn.request.session_name,
        "model": {"provider_id": "mesh", "model_id": turn.model, "chosen_by": turn.request.model_chosen_by},
        "agent": turn.request.agent,
    }
    if turn.request.external_work is not None:
        source = turn.request.external_work.source
        work_id = turn.request.external_work.work_id
        about["trigger"] = {"source": source, "fired_at": turn.sent_ms, "delivery_id": work_id}
    if turn.request.sender is not None:
        about["sender"] = turn.request.sender
    if turn.request.steers:
        about["steers"] = True
    return about


def reply_of(names: dict[str, str], parts: list[dict[str, Any]], usage: Usage, outcome: dict[str, Any]) -> ChatReply:
    """Return a turn as one JSON object."""
    return ChatReply(
        session_id=names["session_id"],
        message_id=names["message_id"],
        response=text_of(parts),
        tool_outputs=[_tool_output(part, name) for part in parts if (name := tool_name(part)) is not None],
        usage=usage,
        tokens_used=usage.total,
        finish_reason=outcome.get("finish_reason", "other"),
        limit=outcome.get("limit"),
    )


def _tool_output(part: dict[str, Any], name: str) -> ToolOutput:
    output = part.get("output") if part["state"] == "output-available" else part.get("errorText")
    return ToolOutput(id=part["toolCallId"], name=name, input=part.get("input"), output=output, state=part["state"])
