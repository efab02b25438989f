"""A session as one of its participants sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..protocol.hub import EV_TEXT, Envelope, SessionInfo, ViewPolicy, text_data

if TYPE_CHECKING:
    from .interfaces import SessionClient


class Session:
    """One session id, and the participant in whose name it is used."""

    def __init__(self, client: SessionClient, session_id: str) -> None:
        self._client = client
        self.session_id = session_id
        self._names: dict[str, str] | None = None

    async def send(
        self,
        content: str = "",
        audience: Sequence[str] | None = None,
        *,
        causation_id: str | None = None,
        event_type: str = EV_TEXT,
        event_data: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Send a text, or an event of another type; return its id once it is in the log.

        `audience`: names or ids of those who may read it; None: all. `fields`: further fields of the envelope, such as
        `priority`, `ttl_seconds` or `idempotency_key`. Raises NetworkError."""
        envelope = Envelope(
            session_id=self.session_id,
            event_type=event_type,
            event_data=text_data(content) if event_data is None else event_data,
            audience=await self._ids(audience),
            causation_id=causation_id,
            **fields,
        )
        return await self._client.send_envelope(envelope)

    async def info(self) -> SessionInfo:
        """What the session is now. Raises NetworkError."""
        return await self._client.session_info(self.session_id)

    async def close(self, reason: str = "explicit_close") -> None:
        """Close it for all. Raises AccessDeniedError unless its creator does so."""
        await self._client.close_session(self.session_id, reason)

    async def names(self) -> dict[str, str]:
        """Names of the participants by id."""
        if self._names is None:
            self._names = (await self.info()).names()
        return self._names

    async def view_policy(self) -> ViewPolicy:
        """How this participant sees what was said, by default."""
        return await self._client.default_view_policy(self.session_id)

    async def _ids(self, audience: Sequence[str] | None) -> tuple[str, ...] | None:
        if audience is None:
            return None
        ids = {name: agent_id for agent_id, name in (await self.names()).items()}
        return tuple(ids.get(one, one) for one in audience)
