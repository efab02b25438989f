"""Chats: a user message in, a turn out. Every door that speaks for a person comes through here."""

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
from ...errors import Conflict
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
from ..core.limits import TurnLimits, UsageBudget
from ..core.live_sessions import MAIN, LiveSession
from ..core.turn_state import ExternalWork, Turn
from ..services import LoopServices
from ..sessions.session_service import close_session
from .human_answers import HumanAnswers
from .plain_text_answers import refuse_other, spoken_answer


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A user message as a door hands it over."""

    principal: str
    parts: list[dict[str, Any]]
    session: str | None = None
    message_id: str | None = None
    """The caller's id."""
    model: str | None = None
    agent: str | None = None
    """Who is to answer; none: the session's own agent."""
    on_busy: OnBusy = "queue"
    again: bool = False
    """The reply to this message (found by its id) is to be made again: the conversation is first rewound to it."""
    edited: bool = False
    """It replaces the message of its id, if it says something else: the conversation is first rewound to that."""
    mandate: ExternalWork | None = None
    """It is work that somebody keeps a record of: nobody is there to be asked, and a crash does not end it."""

    def fingerprint(self) -> str:
        return hashlib.sha256(to_json(self.parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class CompletedTurn:
    """A turn that has ended, read from the record."""

    names: dict[str, str]
    reply: Message | None
    outcome: dict[str, Any] = field(default_factory=dict[str, Any])


class _Taken(Exception):
    """The message id is taken: somebody sent it before or at the same moment."""


class ChatService:
    """Admits user messages and answers for them."""

    def __init__(self, hallway: LoopServices, limits: Callable[[], TurnLimits]) -> None:
        self._hall, self._limits, self._answers = hallway, limits, HumanAnswers(hallway)

    async def send(self, incoming: IncomingMessage) -> Turn | CompletedTurn:
        """Admits the message; one that is known already gives what it started. Raises Conflict, NotFound, Busy."""
        agent = incoming.agent or DEFAULT
        conversation = await self._hall.conversations.find(incoming.principal, incoming.session, agent)
        try:
            return await self._send(incoming, conversation)
        finally:
            self._hall.conversations.release(conversation)

    async def _send(self, incoming: IncomingMessage, conversation: LiveSession) -> Turn | CompletedTurn:
        if incoming.again:
            return await self._anew(incoming, conversation)
        try:
            if incoming.message_id is not None and (known := await self._known(incoming, conversation)) is not None:
                return known
        except Conflict:
            if not incoming.edited:
                raise
            return await self._anew(incoming, conversation)
        if incoming.on_busy == "answer" and (turn := await self._answers.asking(conversation)) is not None:
            return await self._answer(turn, incoming, conversation)
        return await self._admit(incoming, conversation)

    async def _answer(self, asking: Turn, incoming: IncomingMessage, conversation: LiveSession) -> Turn | CompletedTurn:
        """Takes the message as the answer to what that turn waits for. Raises Conflict `not_an_answer`."""
        refuse_other(asking, agent=incoming.agent, model=incoming.model)
        answer = spoken_answer(asking, incoming.parts)
        message = self._turn(replace(incoming, agent=asking.agent, model=asking.model), conversation)
        admitted, since = self._unit(incoming, message), asking.live.mark

        def unit(connection: sqlite3.Connection) -> None:
            admitted(connection)
            into = (asking.message_id, asking.reply_id)
            rows.steer_turn(connection, message.message_id, into, {"status": "answered"}, message.sent_ms)

        try:
            await self._answers.take(conversation, asking, answer, unit)
        except _Taken:
            return await self._taken(incoming, conversation)
        start = c.Start(messageId=asking.reply_id, messageMetadata={**message.names(), "pending": asking.pending()})
        message.joined = asking
        message.live.continue_as(asking.live, since=since, fresh=start)
        message.end()
        return message

    async def _taken(self, incoming: IncomingMessage, conversation: LiveSession) -> Turn | CompletedTurn:
        """What the other message of the same id has started."""
        known = await self._known(incoming, conversation)
        assert known is not None  # noqa: S101  its row has just been seen
        return known

    async def _anew(self, incoming: IncomingMessage, conversation: LiveSession) -> Turn | CompletedTurn:
        """Rewinds to the message of this id and sends it again, in one transaction."""
        with self._hall.admission.hold(conversation):
            sent = await self._admit(replace(incoming, again=True), conversation)
            conversation.view, conversation.context_tokens = None, 0
        return sent

    async def _admit(self, incoming: IncomingMessage, conversation: LiveSession) -> Turn | CompletedTurn:
        turn = self._turn(incoming, conversation)
        await self._hall.require_fit(turn)
        if self._hall.snapshots is not None:
            turn.snapshot_id = await self._hall.snapshots.take(conversation.id, turn.message_id)
        running = self._hall.admission.busy_with(conversation)
        _check(incoming, conversation, running)  # nobody comes in between this and the place in the queue
        try:
            await self._hall.admission.admit(turn, lambda admitted: self._unit(incoming, admitted))
        except _Taken:
            return await self._taken(incoming, conversation)
        if incoming.on_busy == "interrupt" and running is not None:
            # Whoever asked for it may hang up; what he asked for is done all the same.
            await asyncio.shield(self._hall.admission.stop(running))
        return turn

    async def reset(self, principal: str, session: str | None) -> tuple[str, str | None]:
        """Archives a session, if it is there, and begins its successor under the same alias: new id, old id."""
        old = await self._hall.conversations.get(principal, session)
        if old is None and session is not None and is_session_id(session):
            raise unknown_session(session)
        alias = session if session is not None and (old is None or session != old.id) else MAIN
        was_archived = old is not None and old.archived
        if old is not None:
            await close_session(self._hall, old)
        fresh = self._hall.conversations.begin(principal, alias)
        now = self._hall.clock.now_ms()

        def unit(connection: sqlite3.Connection) -> None:
            if old is not None:
                rows.archive(connection, old.id, now, succeeded=True)
            rows.insert_session(connection, fresh.new_row(str(self._hall.home.workspace)), now)

        try:
            await self._hall.database.write(unit, durable=True)
        except BaseException:
            self._hall.conversations.release(fresh)
            if old is not None:
                old.archived = was_archived
            raise
        fresh.stored = True
        if old is not None:
            await asyncio.to_thread(self._hall.home.remove_scratch, old.id)
        return fresh.id, old.id if old is not None and old.stored else None

    async def _known(self, incoming: IncomingMessage, conversation: LiveSession) -> Turn | CompletedTurn | None:
        """What this message id has started, if it was seen before."""
        client_id = incoming.message_id or ""

        def read(connection: sqlite3.Connection) -> TurnRow | None:
            message_id = branches.resolve(connection, conversation.id, client_id)
            if message_id is None or branches.was_taken_back(connection, message_id):
                return None
            return history.turn(connection, message_id)

        row = await self._hall.database.read(read)
        if row is None:
            return None
        if row.fingerprint != incoming.fingerprint():
            raise Conflict(f"message {client_id} exists with other content", code="message_conflict")
        joined = (row.outcome or {}).get("into")  # a message that steered has the end of the turn that it joined
        turn = self._hall.admission.turn(joined or row.message_id)
        return turn if turn is not None else await self._finished(row, incoming)

    async def _finished(self, row: TurnRow, incoming: IncomingMessage) -> CompletedTurn:
        reply = await self._hall.database.read(lambda connection: history.message(connection, row.reply_id))
        names = {"session_id": incoming.session or row.session_id, "message_id": row.client_id or row.message_id}
        outcome = reply.metadata.get("outcome") if reply is not None else None
        return CompletedTurn(names, reply, outcome or row.outcome or {})

    def _turn(self, incoming: IncomingMessage, conversation: LiveSession) -> Turn:
        message_id = self._hall.ids.new("msg")
        running = self._hall.admission.busy_with(conversation) if incoming.on_busy == "steer" else None
        named = incoming.agent or (running.agent if running is not None else conversation.agent)
        agent = self._hall.conversations.enter(conversation, named)
        limits, mandate = self._limits().at_most(agent.max_steps), incoming.mandate
        of_agent = agent.model if agent.name != conversation.agent else None
        return Turn(
            conversation=conversation,
            message_id=message_id,
            reply_id=self._hall.ids.new("msg"),
            parts=incoming.parts,
            books=UsageBudget(mandate.limit(limits) if mandate is not None else limits),
            model=incoming.model or of_agent or conversation.model,
            model_by="message" if incoming.model else "agent" if of_agent else "session",
            agent=agent.name,
            temperature=agent.temperature,
            session_name=incoming.session or conversation.id,
            message_name=incoming.message_id or message_id,
            task_id=mandate.work_id if mandate is not None else None,
            mandate=mandate,
            interactive=mandate is None,
            steers=incoming.on_busy == "steer",
        )

    def _unit(self, incoming: IncomingMessage, turn: Turn) -> Unit[None]:
        now = turn.sent_ms = turn.conversation.stamp(self._hall.clock.now_ms())
        parts = tuple((self._hall.ids.new("prt"), part) for part in turn.parts)
        session = None if turn.conversation.stored else turn.conversation.new_row(str(self._hall.home.workspace))
        brief = turn.conversation.brief(turn.agent)
        row = NewTurn(
            turn.message_id, turn.conversation.id, turn.reply_id, parts, incoming.fingerprint(), turn.was_queued,
            client_id=incoming.message_id,
            task_id=turn.task_id,
            metadata=_metadata(turn),
        )  # fmt: skip

        def unit(connection: sqlite3.Connection) -> None:
            if session is not None:
                rows.insert_session(connection, session, now)
            elif not retention.is_kept(connection, row.session_id):  # it was too old at the very moment
                raise unknown_session(turn.session_name)
            if brief is not None and turn.agent != turn.conversation.agent:
                agent_prompts.add(connection, turn.conversation.id, turn.agent, brief)
            if incoming.again and incoming.message_id is not None:
                _rewind(connection, row.session_id, incoming.message_id, now)
            elif incoming.message_id is not None:
                branches.free_hidden(connection, row.session_id, incoming.message_id)
            try:
                rows.insert_turn(connection, row, now)
            except sqlite3.IntegrityError as error:
                raise _Taken from error
            if turn.mandate is not None:
                turn.mandate.duty.admitted(connection, turn, now)

        return unit


def _check(incoming: IncomingMessage, conversation: LiveSession, running: Turn | None) -> None:
    if conversation.archived:
        raise Conflict(f"session {conversation.id} is archived; use another one", code="session_archived")
    if conversation.called:
        text = (
            f"session {conversation.id} is that of an agent which another one has called: fork it to go on from there"
        )
        raise Conflict(text, code="subagent_session")
    if incoming.on_busy == "reject" and running is not None:
        raise Conflict("a turn is running in this session", code="session_busy", running=running.names())


def _rewind(connection: sqlite3.Connection, session_id: str, name: str, now: int) -> None:
    """Takes back the message of that name and what came behind it; its name is free again. One that is not there, or
    is taken back already, needs no more."""
    branches.free_hidden(connection, session_id, name)
    message_id = branches.resolve(connection, session_id, name)
    if message_id is not None and not branches.is_hidden(connection, message_id):
        branches.rewind(connection, session_id, message_id, now, free_id=True)


def _metadata(turn: Turn) -> dict[str, Any]:
    """What is kept with the user's message, and not in its words."""
    about: dict[str, Any] = {
        "session_name": turn.session_name,
        "model": {"provider_id": "mesh", "model_id": turn.model, "chosen_by": turn.model_by},
        "agent": turn.agent,
    }
    if turn.mandate is not None:
        source, work_id = turn.mandate.source, turn.mandate.work_id
        about["trigger"] = {"source": source, "fired_at": turn.sent_ms, "delivery_id": work_id}
    if turn.steers:
        about["steers"] = True
    if turn.snapshot_id is not None:
        about["snapshot_id"] = turn.snapshot_id
    return about


def reply_of(names: dict[str, str], parts: list[dict[str, Any]], usage: Usage, outcome: dict[str, Any]) -> ChatReply:
    """A turn as one JSON object."""
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
