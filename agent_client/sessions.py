"""Sessions: conversations that are listed, changed, branched and carried elsewhere (docs/reference/sessions.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from agent_common.protocol import (
    CompactReply,
    ImportedSession,
    MessageList,
    Permissions,
    PromptReply,
    ResetReply,
    RewindReply,
    SessionDetail,
    SessionFilter,
    SessionList,
    SessionMessage,
    SessionRule,
    SessionSummary,
    UnrewindReply,
)

from .http import Call, Connection, pages, path, without_none

M = TypeVar("M", bound=BaseModel)
COMPACT_SECONDS = 300.0
"""A summary is a model call."""


class Sessions:
    """The sessions of one user. `name` is an id, or the name that a caller gave to a session."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, state: SessionFilter | None = None, archived: bool = False, ephemeral: bool = False
    ) -> AsyncGenerator[SessionSummary]:
        """Yield the sessions, the one that changed last first; only those in a state if it is given."""
        params = {"archived": archived, "ephemeral": ephemeral} | ({} if state is None else {"state": state})
        call = Call("GET", "/sessions", params=params)
        async for page in pages(self._connection, SessionList, call):
            for session in page.sessions:
                yield session

    async def get(self, name: str) -> SessionDetail:
        """Read one: its status, queue, tokens and cost. Raises NotFound."""
        return await self._connection.fetch(SessionDetail, Call("GET", path("sessions", name)))

    async def messages(
        self, name: str, *, hidden: bool = False, after: str | None = None
    ) -> AsyncGenerator[SessionMessage]:
        """Yield its messages, oldest first, from the one after `after`; with `hidden` those too that a rewind has
        hidden."""
        params = {"hidden": hidden} | ({} if after is None else {"after": after})
        call = Call("GET", path("sessions", name, "messages"), params=params)
        async for page in pages(self._connection, MessageList, call):
            for message in page.messages:
                yield message

    async def update(
        self,
        name: str,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        model: str | None = None,
        archived: bool | None = None,
    ) -> SessionDetail:
        """Change what is given. A key of `metadata` that is None is deleted."""
        body = without_none(title=title, metadata=metadata, model=model, archived=archived)
        call = Call("PATCH", path("sessions", name), json=body, repeatable=True)
        return await self._connection.fetch(SessionDetail, call)

    async def archive(self, name: str) -> SessionDetail:
        """Stop what runs in it and archive it."""
        return await self._connection.fetch(SessionDetail, Call("DELETE", path("sessions", name)))

    async def rewind(self, name: str, message_id: str) -> RewindReply:
        """Hide a user message and all later ones. Raises SessionBusy, NotFound."""
        return await self._post(RewindReply, name, "rewind", {"message_id": message_id})

    async def unrewind(self, name: str) -> UnrewindReply:
        """Take back the latest rewind. Raises Conflict, SessionBusy."""
        return await self._post(UnrewindReply, name, "unrewind")

    async def fork(
        self,
        name: str,
        message_id: str | None = None,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        ephemeral: bool = False,
    ) -> SessionDetail:
        """Start a session with the messages of this one, up to `message_id`. Raises SessionBusy, NotFound."""
        body = without_none(message_id=message_id, title=title, metadata=metadata, ephemeral=ephemeral)
        return await self._post(SessionDetail, name, "fork", body)

    async def compact(self, name: str) -> CompactReply:
        """Summarize the conversation; the model is sent the summary from then on. Raises Conflict, SessionBusy."""
        return await self._post(CompactReply, name, "compact", seconds=COMPACT_SECONDS)

    async def reset(self, name: str | None = None) -> ResetReply:
        """Archive a session, the main one unless named, and begin its successor."""
        body = {} if name is None else {"session_id": name}
        return await self._connection.fetch(ResetReply, Call("POST", "/chat/reset", json=body))

    async def prompt(self, name: str) -> PromptReply:
        """Read what the model sees, as the next call would send it."""
        return await self._connection.fetch(PromptReply, Call("GET", path("sessions", name, "prompt")))

    async def permissions(self, name: str) -> Permissions:
        """Read what the agent may do in this session, and who said so."""
        return await self._connection.fetch(Permissions, Call("GET", path("sessions", name, "permissions")))

    async def permit(self, name: str, rules: Sequence[SessionRule]) -> Permissions:
        """Replace the session's own rules; they hold from the next call on."""
        body = {"rules": [rule.model_dump(mode="json") for rule in rules]}
        call = Call("PUT", path("sessions", name, "permissions"), json=body, repeatable=True)
        return await self._connection.fetch(Permissions, call)

    async def export(self, name: str) -> bytes:
        """Return all its rows as JSON Lines, for `import_` here or elsewhere."""
        return (await self._connection.send(Call("GET", path("sessions", name, "export")))).content

    async def import_(self, exported: bytes, *, keep_permissions: bool = False) -> ImportedSession:
        """Store an export, with its own rules only if they are to be kept. Raises Conflict, and InvalidRequest that
        names the line."""
        params = {"permissions": "keep"} if keep_permissions else {}
        call = Call("POST", "/sessions/import", params=params, content=exported)
        return await self._connection.fetch(ImportedSession, call)

    async def _post(
        self, shape: type[M], name: str, verb: str, body: dict[str, Any] | None = None, seconds: float | None = None
    ) -> M:
        call = Call("POST", path("sessions", name, verb), json=body or {}, timeout=seconds)
        return await self._connection.fetch(shape, call)
