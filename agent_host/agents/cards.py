"""The cards that agents have posted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, select
from sqlalchemy.dialects import postgresql

from agent_common.clock import Clock
from agent_common.protocol import PeerAgent, PeerCard, PeerList, PeerState

from ..access import DEFAULT_TEAM
from ..database import BatchWriter, HostDatabase, agent_cards, workspaces
from ..errors import NotFound
from ..listener import Listener
from .errors import CardTooLarge

MAX_CARD_BYTES = 256 * 1024
_ROWS_AT_ONCE = 32
_MAX_PAGE_BYTES = 4 << 20
_TEAM = func.coalesce(workspaces.c.team, DEFAULT_TEAM)


@dataclass(frozen=True, slots=True)
class CardQuery:
    """Which agents to list, by id."""

    team: str | None
    """None: of all teams."""
    capability: str | None
    """Only with a skill, tool, agent or protocol of this name."""
    text: str | None
    """Only with this text somewhere, in small or large letters."""
    after: str | None
    limit: int


class AgentCards:
    """Keeps the card of each agent. A card lives until its workspace is deleted."""

    def __init__(self, database: HostDatabase, writer: BatchWriter, clock: Clock, listener: Listener) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._listener = listener

    async def post(self, agent_id: str, team: str, card: PeerCard) -> PeerAgent:
        """Store the card in place of the one before. Raises CardTooLarge."""
        text = card.model_dump_json()
        if len(text.encode()) > MAX_CARD_BYTES:
            raise CardTooLarge(f"the card has more than {MAX_CARD_BYTES} bytes; leave descriptions out")
        now = self._clock.now_ms()
        values = {"card": text, "updated_at": now}
        query = (
            postgresql.insert(agent_cards)  # SQLite spells it the same way
            .values(agent_id=agent_id, **values)
            .on_conflict_do_update(index_elements=["agent_id"], set_=values)
        )
        await asyncio.shield(self._writer.submit(lambda connection: connection.execute(query) and None))
        return self._shown(agent_id, team, card, now)

    async def forget(self, agent_id: str) -> None:
        """Delete the card of an agent that is gone. Idempotent."""
        query = delete(agent_cards).where(agent_cards.c.agent_id == agent_id)
        await asyncio.shield(self._writer.submit(lambda connection: connection.execute(query) and None))

    async def has(self, agent_id: str) -> bool:
        query = select(agent_cards.c.agent_id).where(agent_cards.c.agent_id == agent_id)
        return await self._database.run(lambda connection: connection.execute(query).scalar()) is not None

    async def get(self, agent_id: str, team: str | None) -> PeerAgent:
        """Return an agent of the team; None: of any. Raises NotFound."""
        rows = _joined().where(agent_cards.c.agent_id == agent_id)
        row = await self._database.run(lambda connection: connection.execute(rows).first())
        if row is None or team not in (None, row.team):
            raise NotFound(f"there is no agent {agent_id!r}; GET /agents lists those that you may see")
        return self._shown(row.agent_id, row.team, PeerCard.model_validate_json(row.card), row.updated_at)

    async def list(self, query: CardQuery) -> PeerList:
        found, more = await self._database.run(lambda connection: _page(connection, query))
        agents = [self._shown(row.agent_id, row.team, card, row.updated_at) for row, card in found]
        return PeerList(agents=agents, next=agents[-1].id if more else None)

    def _shown(self, agent_id: str, team: str, card: PeerCard, updated_at: int) -> PeerAgent:
        mine = {"id": agent_id, "team": team, "state": self._state_of(agent_id), "updated_at": updated_at}
        return PeerAgent.model_validate({**card.model_dump(), **mine})

    def _state_of(self, agent_id: str) -> PeerState:
        channel = self._listener.channels.find(agent_id)
        if channel is None:
            return "unknown"
        return "attached" if channel.session is not None else "away"


def _joined() -> Select[Any]:
    """Return the query of all cards, with the teams of their agents."""
    joined = agent_cards.outerjoin(workspaces, workspaces.c.id == agent_cards.c.agent_id)
    return select(agent_cards, _TEAM.label("team")).select_from(joined)


def _page(connection: Connection, query: CardQuery) -> tuple[list[tuple[Row[Any], PeerCard]], bool]:
    """Return the agents of a page with their cards, and whether there are more."""
    found: list[tuple[Row[Any], PeerCard]] = []
    size = 0
    rows = _joined().order_by(agent_cards.c.agent_id)
    if query.team is not None:
        rows = rows.where(_TEAM.in_((query.team,)))
    if query.after is not None:
        rows = rows.where(agent_cards.c.agent_id > query.after)
    with connection.execute(rows, execution_options={"yield_per": _ROWS_AT_ONCE}) as result:
        for row in result:
            card = PeerCard.model_validate_json(row.card)
            if not _fits(row.agent_id, card, query):
                continue
            if len(found) == query.limit or size >= _MAX_PAGE_BYTES:
                return found, True
            found.append((row, card))
            size += len(row.card)
    return found, False


def _fits(agent_id: str, card: PeerCard, query: CardQuery) -> bool:
    if query.capability is not None and query.capability not in {*_names(card)}:
        return False
    wanted = query.text.casefold() if query.text else ""
    return not wanted or any(wanted in text.casefold() for text in (agent_id, *_texts(card)))


def _names(card: PeerCard) -> Iterator[str]:
    yield from (one.name for one in (*card.agents, *card.skills))
    yield from card.tools
    yield from card.protocols


def _texts(card: PeerCard) -> Iterator[str]:
    yield from (card.name, card.role)
    yield from _names(card)
    yield from (one.description for one in (*card.agents, *card.skills))
