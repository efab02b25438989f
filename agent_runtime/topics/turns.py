"""Deliveries as turns: the messages of one are a turn of the session that has subscribed, or join the one that runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_common.protocol import DeliveredMessage, DeliveryReceipt, Receipt, SubscribedSession, TopicDelivery
from agent_common.telemetry import logger

from ..errors import Busy, Conflict, InvalidRequest, MeshUnavailable, NotFound, NotReady, StoreError, TooLarge
from ..loop import ChatService, IncomingMessage, LoopServices, MessageWork, NoRecord, Turn
from ..ports import HUB_PRINCIPAL, TOPIC_SOURCE
from ..sessions import SessionRow, history, rows
from .messages import message_text
from .positions import forget_others, read_positions, save_positions

log = logger(__name__)
TOPIC_WORK = MessageWork(TOPIC_SOURCE)
"""The work that messages of topics ask for."""
_REASON = 500


@dataclass(frozen=True, slots=True)
class _TakesMessages(NoRecord):
    """Implements WorkRecorder: the positions move in the transaction that stores the turn."""

    positions: Mapping[str, int]

    def record_admission(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        save_positions(connection, turn.session.id, self.positions)
        rows.mark_outside_text(connection, turn.session.id)
        turn.session.outside_text.seen = True


class TopicTurns:
    """Takes deliveries, one after the other."""

    def __init__(self, services: LoopServices, chats: ChatService) -> None:
        self._services = services
        self._chats = chats
        self._kept: list[str] | None = None
        """The subscriptions whose positions are kept."""

    def busy_sessions(self) -> list[str]:
        """Return the sessions in which messages of topics wait for their turn: others wait at the host."""
        queued = self._services.admission.queues.turns("queued")
        works = [(turn.session.id, turn.request.external_work) for turn in queued]
        return list({session for session, work in works if work is not None and work.source == TOPIC_SOURCE})

    async def take(self, delivery: TopicDelivery) -> list[DeliveryReceipt]:
        """Have the loop admit what is new of a delivery. Returns what the host is to know; nothing: it comes again."""
        last = {one.subscription_id: one.seq for one in delivery.messages}
        try:
            session, known = await self._read(delivery.session, list(last))
            if not _takes_messages(session):
                return [*_receipts(last, "ended")]
            fresh = [one for one in delivery.messages if one.seq > known.get(one.subscription_id, 0)]
            if fresh and session is not None:
                await self._send(session, delivery, fresh)
        except (Busy, NotReady, MeshUnavailable):
            return [*_receipts(last, "busy")]
        except (Conflict, InvalidRequest, NotFound, TooLarge) as error:
            log.warning("messages of topics refused", session_id=delivery.session, why=error.message)
            return [*_receipts(last, "refused", error.message[:_REASON])]
        except StoreError as error:
            log.warning("messages of topics not stored", session_id=delivery.session, why=str(error))
            return []
        return [*_receipts(last, "taken")]

    async def ended(self, subscriptions: Sequence[SubscribedSession]) -> list[DeliveryReceipt]:
        """Return receipts that end the subscriptions whose sessions are gone, and forget those that are over."""
        names = {one.session for one in subscriptions}

        def read(connection: sqlite3.Connection) -> set[str]:
            return {name for name in names if not _takes_messages(history.session(connection, name))}

        ids = [one.id for one in subscriptions]
        if ids != self._kept:
            await self._services.database.write(lambda connection: forget_others(connection, ids))
            self._kept = ids
        gone = await self._services.database.read(read)
        return [*_receipts({one.id: 0 for one in subscriptions if one.session in gone}, "ended")]

    async def _send(self, session: SessionRow, delivery: TopicDelivery, fresh: Sequence[DeliveredMessage]) -> None:
        positions = {one.subscription_id: one.seq for one in fresh}
        incoming = IncomingMessage(
            principal=session.principal,
            parts=[{"type": "text", "text": message_text(fresh, delivery.dropped)}],
            session=session.id,
            message_id=delivery.id,
            on_busy="steer",
            external_work=TOPIC_WORK.work(delivery.id, _TakesMessages(positions)),
        )
        await self._chats.send(incoming)

    async def _read(self, session: str, subscription_ids: list[str]) -> tuple[SessionRow | None, dict[str, int]]:
        def read(connection: sqlite3.Connection) -> tuple[SessionRow | None, dict[str, int]]:
            return history.session(connection, session), read_positions(connection, subscription_ids)

        return await self._services.database.read(read)


def _takes_messages(session: SessionRow | None) -> bool:
    """Whether a session is a conversation that goes on."""
    if session is None or session.archived or session.is_subagent:
        return False
    return session.principal != HUB_PRINCIPAL


def _receipts(last: Mapping[str, int], status: Receipt, reason: str = "") -> Iterator[DeliveryReceipt]:
    for subscription_id, seq in last.items():
        yield DeliveryReceipt(subscription_id=subscription_id, seq=seq, status=status, reason=reason)
