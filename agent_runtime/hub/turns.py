"""Envelopes as turns: each that asks for an answer is a message of a session of its own, and its reply goes back.

The session of a hub's session has an alias with its id, and the message has the envelope's id. So an envelope that is
delivered again, to this process or a later one, finds the turn that it started, and no model is asked twice.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

from agent_common.hub_client import (
    AgentClient,
    accept_invitation,
    earlier_outcome,
    may_ask,
    read_wal_until,
    resolve_view_policy,
    send_reply,
)
from agent_common.protocol.hub import (
    EV_EXPECTATION_VIOLATED,
    EV_FINISH,
    EV_SESSION_INVITE,
    TURN_EVENTS,
    Envelope,
    SessionInfo,
    TurnOutcome,
    text_data,
)
from agent_common.telemetry import logger

from ..errors import Busy, Conflict, InvalidRequest, NotReady, TooLarge
from ..loop import ChatService, CompletedTurn, IncomingMessage, LoopServices, MessageWork, Turn
from ..ports import HUB_PRINCIPAL
from ..sessions import branches, history
from .messages import SILENT, Unseen, message_text
from .mirrored_turn import mirrored_end
from .origins import Origins

log = logger(__name__)
HUB_WORK = MessageWork("hub")
"""The work that envelopes ask for."""
_UNANSWERED = {"silent": "it says nothing", "failed": "its turn failed"}
_MOST_LATER = 100
_BUSY_SECONDS = 5.0


class HubTurns:
    """Handles what is delivered to the agent."""

    def __init__(self, services: LoopServices, chats: ChatService, origins: Origins) -> None:
        """`origins`: learns which envelopes are answered now."""
        self._services = services
        self._chats = chats
        self._origins = origins

    async def handle(self, client: AgentClient, envelope: Envelope) -> TurnOutcome | None:
        """Handle an envelope, and return how its turn ended; None if it asks for none. What is raised brings the
        envelope again."""
        if envelope.event_type == EV_SESSION_INVITE:
            await accept_invitation(client, envelope)
            return None
        if not may_ask(envelope):
            return None
        outcome = await earlier_outcome(client, envelope)
        if outcome is not None:
            return outcome
        try:
            with self._origins.answering(envelope):
                return await self._answer(client, envelope)
        except Busy:
            await asyncio.sleep(_BUSY_SECONDS)  # else it would be refused too often in a moment
            raise
        except NotReady:
            await asyncio.Event().wait()  # until the link ends: the next process gets the envelope
            raise

    async def _answer(self, client: AgentClient, envelope: Envelope) -> TurnOutcome | None:
        turn = await self._find_turn(envelope)
        info = await client.session_info(envelope.session_id)
        if turn is None:
            if info.is_over or not await _has_turn(client, info, envelope):
                return None
            turn = await self._begin(client, info, envelope)
        if isinstance(turn, str):
            return await _send(client, info, envelope, turn)
        return await self._finish(client, info, envelope, turn)

    async def _begin(
        self, client: AgentClient, info: SessionInfo, envelope: Envelope
    ) -> Turn | CompletedTurn | TurnOutcome:
        """Have the loop admit the message. Raises Busy, NotReady or MeshUnavailable if it does not take it now."""
        policy = resolve_view_policy(client, info)
        log_so_far = [*await read_wal_until(client, envelope, policy), envelope]
        text = message_text(info, client.agent_id, policy, await self._unseen(client.agent_id, log_so_far))
        if not text:
            return "silent"
        incoming = IncomingMessage(
            principal=HUB_PRINCIPAL,
            parts=[{"type": "text", "text": text}],
            session=_alias(envelope),
            message_id=envelope.envelope_id,
            external_work=HUB_WORK.work(envelope.envelope_id),
        )
        try:
            return await self._chats.send(incoming)
        except (Conflict, InvalidRequest, TooLarge) as error:  # another attempt would not help
            log.warning("hub turn refused", envelope_id=envelope.envelope_id, why=error.message)
            return "failed"

    async def _unseen(self, agent_id: str, log_so_far: Sequence[Envelope]) -> Unseen:
        """Return what was said since the last message of the session, and is not an answer to one."""
        session = await self._services.live_sessions.get(HUB_PRINCIPAL, _alias(log_so_far[-1]))
        if session is None:
            return Unseen(log_so_far, is_first=True)

        def is_known(connection: sqlite3.Connection, name: str | None) -> bool:
            return name is not None and branches.resolve_message_id(connection, session.id, name) is not None

        def read(connection: sqlite3.Connection) -> Sequence[Envelope]:
            known = [at for at, one in enumerate(log_so_far) if is_known(connection, one.envelope_id)]
            later = log_so_far[known[-1] + 1 :] if known else log_so_far
            own = [one for one in later if one.sender_id == agent_id and is_known(connection, one.causation_id)]
            return [one for one in later if one not in own]

        return Unseen(await self._services.database.read(read), is_first=session.empty)

    async def _find_turn(self, envelope: Envelope) -> Turn | CompletedTurn | None:
        """Return the turn that the envelope has started before, in this process or an earlier one."""
        session = await self._services.live_sessions.get(HUB_PRINCIPAL, _alias(envelope))
        if session is None:
            return None
        database = self._services.database
        row = await database.read(lambda connection: branches.find_turn(connection, session.id, envelope.envelope_id))
        if row is None:
            return None
        turn = self._services.admission.queues.turn(row.message_id)
        if turn is not None:
            return turn
        reply = await database.read(lambda connection: history.message(connection, row.reply_id))
        outcome = reply.metadata.get("outcome") if reply is not None else None
        return CompletedTurn({}, reply, outcome or row.outcome or {})

    async def _finish(
        self, client: AgentClient, info: SessionInfo, envelope: Envelope, turn: Turn | CompletedTurn
    ) -> TurnOutcome:
        """Wait for the end of a turn, and send its answer. One that was sent before is not sent again."""
        sender = info.names().get(envelope.sender_id, envelope.sender_id)
        title = f"Answers {sender}"
        status, text = await mirrored_end(self._services.admission, client, envelope, title, turn)
        reply, _ = await client.turn_before(envelope)
        if reply is not None:
            return "replied" if status == "complete" else "failed"
        if status != "complete":
            return await _send(client, info, envelope, "failed")
        is_silent = text.strip("*_`\"'. ") in ("", SILENT)
        return await _send(client, info, envelope, "silent" if is_silent else "replied", text)


async def _send(
    client: AgentClient, info: SessionInfo, envelope: Envelope, outcome: TurnOutcome, text: str = ""
) -> TurnOutcome:
    """Send what has come of an envelope, and return how its turn ended. Of one without an answer those hear who wait
    for it."""
    session = client.session(info.session_id)
    if outcome == "replied":
        is_sent = await send_reply(session, envelope, text_data(text))
    elif info.type == "consulting" and not info.is_over:
        is_sent = await send_reply(session, envelope, {"reason": _UNANSWERED[outcome]}, EV_FINISH)
    else:
        return outcome
    if not is_sent:
        log.info("hub reply refused", envelope_id=envelope.envelope_id)
    return outcome if is_sent else "failed"


async def _has_turn(client: AgentClient, info: SessionInfo, envelope: Envelope) -> bool:
    """Whether the agent is to answer this envelope. Where participants take turns, only the last turn asks for an
    answer: an earlier one is shown with it."""
    if not await client.can_send(info.session_id):
        return False
    if info.type == "conversation":
        return envelope.event_type != EV_EXPECTATION_VIOLATED
    later, _ = await client.read_log(info.session_id, envelope.sequence, _MOST_LATER)
    return not any(one.event_type in TURN_EVENTS for one in later)


def _alias(envelope: Envelope) -> str:
    return f"hub:{envelope.session_id}"
