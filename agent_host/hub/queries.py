"""What agents and operators may read: sessions, their logs, turns. An agent sees what it takes part in and may read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic_core import from_json  # noqa: TID251  our own rows

from agent_common.protocol.hub import AccessDeniedError, Envelope, SessionInfo, load_info

from .limits import HubLimits
from .sessions import SessionTable
from .store import PAGE_BYTES, HubStore, ListedSession

MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of a log."""

    envelopes: Sequence[Envelope]
    next: int | None
    """The sequence after which the next page begins; None: this is the end of the log."""


class Queries:
    """Reads for agents (by their ids) and operators (None)."""

    def __init__(self, store: HubStore, table: SessionTable, limits: HubLimits) -> None:
        self._store = store
        self._table = table
        self._limits = limits

    async def info(self, readers: Collection[str] | None, session_id: str) -> SessionInfo:
        """A session. Raises NotFoundError, and AccessDeniedError if none of the readers takes part."""
        live = self._table.live.get(session_id)
        info = live.folded.info if live is not None else (await self._table.read(session_id))[2].info
        if readers is not None and all(one.agent_id not in readers for one in info.participants):
            raise AccessDeniedError(f"{', '.join(readers)} does not take part in the session {session_id}")
        return info

    async def log(self, readers: Collection[str] | None, session_id: str, after: int, limit: int) -> LogPage:
        """A page of what one of the readers may read of a log. One that was removed reads nothing. Raises as `info`."""
        info = await self.info(readers, session_id)
        if readers is not None and not (readers := [one for one in readers if info.has(one)]):
            raise AccessDeniedError(f"nobody of this link takes part in the session {session_id} any more")
        found = await self._store.log(session_id, after, max(1, min(limit, MOST_ROWS)))
        shown: list[Envelope] = []
        size = 0
        for envelope in found:
            if readers is None or any(envelope.is_visible_to(one) for one in readers):
                size += len(envelope.model_dump_json().encode())
                if shown and size > self._limits.page_bytes:
                    return LogPage(shown, shown[-1].sequence)
                shown.append(envelope)
        return LogPage(shown, found[-1].sequence if found else None)

    async def can_send(self, session_id: str, agent_id: str) -> bool:
        """Whether a text of an agent would be accepted now."""
        session = await self._table.get(session_id)
        info = session.folded.info
        active = info.state == "active" and info.has(agent_id)
        return active and session.type.can_send(session.folded.state, agent_id)

    async def reply_to(self, agent_id: str, session_id: str, envelope_id: str, after: int) -> str | None:
        """Id of the envelope by which an agent has answered another, which has the sequence `after`."""
        return await self._store.find_reply(session_id, agent_id, envelope_id, after)

    async def outcome(self, agent_id: str, session_id: str, sequence: int) -> str | None:
        """How an agent's turn over an envelope ended; None: it has not, or there was none."""
        await self._store.flush()
        return await self._store.outcome(session_id, agent_id, sequence)

    async def sessions(self, reader: str, after: str, limit: int) -> list[ListedSession]:
        """Sessions of an agent in the order of their ids. Their states are those of the last snapshots, which are taken
        whenever a state changes."""
        await self._store.flush()
        return await self._store.sessions_of(reader, after, max(1, min(limit, MOST_ROWS)))

    async def infos(self, reader: str | None, after: str, limit: int) -> tuple[list[SessionInfo], str | None]:
        """A page of the sessions of an agent, or of all, with their participants, and where the next one begins."""
        await self._store.flush()
        most = max(1, min(limit, MOST_ROWS))
        rows = await self._store.snapshots(reader, after, most + 1)
        found: list[SessionInfo] = []
        size = 0
        for row in rows:
            if len(found) == most or size >= PAGE_BYTES:
                return found, found[-1].session_id
            live = self._table.live.get(row.session_id)
            found.append(live.folded.info if live is not None else load_info(from_json(row.snapshot)["info"]))
            size += len(row.snapshot)
        return found, None
