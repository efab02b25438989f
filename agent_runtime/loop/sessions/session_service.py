"""Sessions as a resource: read, change, fork, rewind, export and import them."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar, cast

from agent_common.protocol import (
    CompactReply,
    ForkRequest,
    ImportedSession,
    MessageList,
    MessagesQuery,
    Permissions,
    PermissionsUpdate,
    RewindReply,
    SessionDetail,
    SessionList,
    SessionPatch,
    SessionsQuery,
    SessionSummary,
    UIMessage,
    UnrewindReply,
    stored_rule,
)
from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ...context import read_view, tool_definition
from ...errors import Conflict, StoreError
from ...sessions import (
    Branch,
    CopyShares,
    SessionCopy,
    StoredSession,
    branches,
    listing,
    plan_fork,
    rows,
    transfer,
    unknown_session,
    write_copy,
)
from ..compaction.service import CompactionService
from ..core.live_sessions import LiveSession
from ..services import LoopServices
from . import serializers
from .cost import cost_of
from .session_status import choose_sessions

log = logger(__name__)
T = TypeVar("T")
MAX_EXPORT_IN_MEMORY = 1024 * 1024
"""Bytes up to which an export stays in memory."""


@dataclass(frozen=True, slots=True)
class PromptView:
    """A session as the model sees it."""

    digest: str
    prompt: str
    model: str
    tools: list[dict[str, Any]]
    messages: Sequence[bytes]
    """Chat-completions messages as JSON, without the system message."""
    context_tokens: int | None


class SessionService:
    """Reads and changes sessions. A name is an id or an alias; another principal's session is NotFound."""

    def __init__(
        self,
        services: LoopServices,
        compaction: CompactionService,
        redactor: Redactor | None = None,
        copy_bytes: int = 0,
    ) -> None:
        """`copy_bytes`: how large forks and imports may make the database; 0: as large as the disk."""
        self._services = services
        self._compaction = compaction
        self._redactor = redactor or Redactor()
        """Redacts every export."""
        self._copy_shares = CopyShares(services.database, copy_bytes)

    # -- reading

    async def page(self, principal: str, query: SessionsQuery) -> SessionList:
        """Return a page of sessions. Sessions whose rows cannot be read are left out and logged. Raises InvalidRequest
        for an unknown `after`."""
        turns = self._services.admission.queues.active_turns()  # read first: a turn's end is stored before it leaves
        choice = choose_sessions(query, turns)

        def unit(connection: sqlite3.Connection) -> listing.SessionPage:
            after = serializers.session_cursor(connection, principal, query.after) if query.after else None
            return listing.sessions(connection, principal, limit=query.limit, after=after, choice=choice)

        page = await self._services.database.read(unit)
        shown = list[SessionSummary]()
        broken = page.broken
        for row in page.sessions:
            try:
                shown.append(SessionSummary(**serializers.summary(row, row.id, turns.get(row.id))))
            except (ValueError, TypeError, AttributeError):
                broken.append(row.id)
        for session_id in broken:
            log.error("a session cannot be read and is left out of the list", session_id=session_id)
        return SessionList(sessions=shown, next=listing.format_cursor(*page.next) if page.next else None)

    async def get(self, principal: str, name: str) -> SessionDetail:
        """Return all details of one session."""
        return await self._detail(await self._find(principal, name), name)

    async def messages(self, principal: str, name: str, query: MessagesQuery) -> MessageList:
        """Return a page of messages. An unfinished reply is left out unless the query wants it, because a client that
        follows its stream would have it twice. Raises InvalidRequest for an unknown `after` or `before`."""
        session = await self._find(principal, name)
        turn = self._services.admission.queues.active_turn(session)
        unfinished = turn.request.reply_id if turn and turn.state != "waiting" and not query.running else None

        def unit(connection: sqlite3.Connection) -> listing.MessagePage:
            at = {
                field: listing.END
                if (field, text) == ("before", "end")
                else serializers.message_cursor(connection, session.id, text, field)
                for field, text in (("after", query.after), ("before", query.before))
                if text is not None
            }
            return listing.messages(
                connection, session.id, limit=query.limit, hidden=query.hidden, without=unfinished, **at
            )

        page = await self._services.database.read(unit)
        backwards = query.before is not None
        more = listing.format_cursor(*page.edge) if page.edge is not None else None
        return MessageList(
            messages=[serializers.message(one) for one in page.messages],
            next=None if backwards else more,
            previous=more if backwards else None,
        )

    async def prompt_view(self, principal: str, name: str) -> PromptView:
        """Return the request of the next model call, apart from the new message."""
        session = await self._find(principal, name)
        manifest = self._services.authority_resolver.agents.get(session.agent)
        authority = self._services.authority_resolver.resolve_standalone(manifest) if manifest is not None else None
        own = session.own_prompt
        toolset = self._services.tool_catalog.snapshot(own.tools, authority) if authority is not None else None
        view = session.view or await self._services.database.read(
            lambda connection: read_view(connection, session.id, own.prompt, session.agent)
        )
        return PromptView(
            digest=own.digest,
            prompt=own.prompt,
            model=session.model,
            tools=[tool_definition(spec) for spec in toolset.specs] if toolset is not None else [],
            messages=list(view.messages[1:]),
            context_tokens=session.context_tokens or None,
        )

    # -- changing

    async def patch(self, principal: str, name: str, change: SessionPatch) -> SessionDetail:
        """Apply the changes that the patch names, also while a turn runs. Raises InvalidRequest."""
        session = await self._find(principal, name)
        asked = change.model_fields_set

        def unit(connection: sqlite3.Connection, now: int) -> None:
            changes = {"title": change.title} if "title" in asked else {}
            branches.update_metadata(connection, session.id, changes, change.metadata, now)
            if "model" in asked:
                rows.set_model(connection, session.id, change.model, now)
            if "archived" in asked and not change.archived:
                branches.unarchive(connection, session.id, now)

        await self._write(session, unit)
        if "model" in asked:
            session.model = change.model
        if "archived" in asked and not change.archived:
            session.archived = False
        if "archived" in asked and change.archived:
            await archive_session(self._services, session)
        return await self._detail(session, name)

    async def permissions(self, principal: str, name: str) -> Permissions:
        """Return the rules of a session, of its user for its agent, of the agent and of the project."""
        session = await self._find(principal, name)
        of_user = await self._services.agent_rules.of(principal, session.agent)
        manifest = self._services.authority_resolver.agents.get(session.agent)
        return Permissions(
            session_id=name,
            agent=session.agent,
            rules=list(session.rules),
            agent_rules=list(of_user.get(session.agent, ())),
            project=list(self._services.authority_resolver.project.rules),
            manifest=list((manifest.layer.rules if manifest else None) or ()),
        )

    async def set_permissions(self, principal: str, name: str, update: PermissionsUpdate) -> Permissions:
        """Replace the session's rules. They apply from the next call on, also in a running turn."""
        session = await self._find(principal, name)
        now = session.next_timestamp(self._services.clock.now_ms())
        rules = tuple(stored_rule(rule, now) for rule in update.rules)
        before = session.rules
        session.rules = rules

        def unit(connection: sqlite3.Connection, now: int) -> None:
            if not rows.set_permissions(connection, session.id, rules, now):
                raise unknown_session(name)  # its first message is not stored yet

        try:
            await self._write(session, unit)
        except Exception:  # cancelling the caller does not undo the write
            if session.rules is rules:  # unchanged since then
                session.rules = before
            raise
        return await self.permissions(principal, name)

    async def archive(self, principal: str, name: str) -> SessionDetail:
        """Stop all turns of a session and archive it. An archived session stays as it is."""
        session = await self._find(principal, name)
        await archive_session(self._services, session)
        return await self._detail(session, name)

    async def fork(self, principal: str, name: str, asked: ForkRequest) -> SessionDetail:
        """Create a session as a copy of this one. Raises Conflict `session_busy`, NotFound `unknown_message`,
        StorageFull."""
        session = await self._find(principal, name)
        branch = Branch(session.id, asked.message_id, asked.title, asked.metadata, asked.ephemeral)
        now = session.next_timestamp(self._services.clock.now_ms())
        new_id = self._services.ids.new
        with self._services.admission.hold(session):
            fork = await self._services.database.read_long(
                lambda connection: plan_fork(connection, branch, new_id, now)
            )
            await self._store_copy(principal, fork, fork.size, now)
        return await self.get(principal, fork.session_id)

    async def rewind(self, principal: str, name: str, message_id: str) -> RewindReply:
        """Hide a user message and all later ones. Raises Conflict, NotFound `unknown_message`, InvalidRequest."""
        session = await self._find(principal, name)
        with self._services.admission.hold(session):
            done = await self._write(
                session,
                lambda connection, now: branches.rewind(connection, session.id, message_id, now),
            )
            _discard_view(session)
        message = done.message
        shown = UIMessage(id=message.id, role="user", metadata=message.metadata, parts=message.parts)
        return RewindReply(session_id=name, hidden=done.hidden, message=shown)

    async def unrewind(self, principal: str, name: str) -> UnrewindReply:
        """Undo the latest rewind. Raises Conflict `session_busy`, `nothing_to_unrewind`."""
        session = await self._find(principal, name)
        with self._services.admission.hold(session):
            restored = await self._write(
                session, lambda connection, now: branches.unrewind(connection, session.id, now)
            )
            _discard_view(session)
        return UnrewindReply(session_id=name, restored=restored)

    async def compact(self, principal: str, name: str) -> CompactReply:
        """Replace the whole conversation by a summary. Raises Conflict `session_busy`, `nothing_to_compact`,
        ModelError."""
        session = await self._find(principal, name)
        with self._services.admission.hold(session):
            return await self._compaction.compact_on_request(session, name)

    # -- export and import

    async def export(self, principal: str, name: str, *, whole: bool) -> BinaryIO:
        """Write the session as it is now to an anonymous file. The caller closes it."""
        session = await self._find(principal, name)

        def unit(connection: sqlite3.Connection) -> BinaryIO:
            file = tempfile.SpooledTemporaryFile(MAX_EXPORT_IN_MEMORY, dir=str(self._services.home.data_dir))  # noqa: SIM115
            try:
                out = cast(BinaryIO, file)
                transfer.export(connection, session.id, out, self._redactor, whole=whole)
                file.seek(0)
            except BaseException as error:
                file.close()
                if isinstance(error, OSError):
                    raise StoreError(f"the export cannot be written: {error.strerror}") from error
                raise
            return out

        return await self._services.database.read_long(unit)

    async def import_session(self, principal: str, file: BinaryIO, *, keep_permissions: bool) -> ImportedSession:
        """Store an exported session. Raises InvalidRequest with the line at fault, Conflict `session_exists` or
        `other_principal`, StorageFull."""
        now = self._services.clock.now_ms()
        session_import = await asyncio.to_thread(transfer.validate_export, file, now)
        if session_import.principal != principal:
            text = f"the session belongs to {session_import.principal}: send X-Agent-User: {session_import.principal}"
            raise Conflict(text, code="other_principal")
        copy = transfer.ImportCopy(file, session_import, now, keep_permissions=keep_permissions)
        await self._store_copy(principal, copy, copy.size, now)
        stored = await self.get(principal, session_import.session_id)
        left_out = [] if keep_permissions else session_import.rules
        return ImportedSession(**dict(stored), permissions_left_out=left_out)

    # -- helpers

    async def _store_copy(self, principal: str, copy: SessionCopy, size: int, now: int) -> None:
        async with self._copy_shares.hold(principal, size):
            await write_copy(self._services.database, copy, now)

    async def _find(self, principal: str, name: str) -> LiveSession:
        found = await self._services.live_sessions.get(principal, name)
        if found is None:
            raise unknown_session(name)
        return found

    async def _detail(self, session: LiveSession, name: str) -> SessionDetail:
        admission = self._services.admission
        session_id = session.id
        turn = admission.queues.active_turn(session)  # read first: a turn's end is stored before it leaves the queue

        def unit(connection: sqlite3.Connection) -> tuple[StoredSession, Any, Any]:
            row = listing.session(connection, session_id)
            if row is None:
                raise unknown_session(name)  # its first message is not stored yet
            waiting = listing.queued_messages(connection, session_id)
            return row, waiting, listing.usage_by_model(connection, session_id, row.model)

        row, waiting, spent = await self._services.database.read(unit)
        cost, unpriced = cost_of(spent)
        queued = [one for one in waiting if (it := admission.queues.turn(one.message_id)) and it.state == "queued"]
        return SessionDetail(
            **serializers.summary(row, name, turn),
            cost_usd=cost,
            unpriced_models=unpriced,
            context_tokens=session.context_tokens or None,
            queue=serializers.queue(queued),
        )

    async def _write(self, session: LiveSession, unit: Callable[[sqlite3.Connection, int], T]) -> T:
        now = session.next_timestamp(self._services.clock.now_ms())
        return await self._services.database.write(lambda connection: unit(connection, now), durable=True)


async def close_session(services: LoopServices, session: LiveSession) -> None:
    """Stop all turns of a session, admit no more, and free its names in memory but not yet in the database.

    Raises NotReady if a turn does not end. No turn is admitted between the last check and the return.
    """
    await services.admission.stop_all(session)
    services.live_sessions.mark_archived(session)


async def archive_session(services: LoopServices, session: LiveSession) -> None:
    """Close a session, record it as archived and remove its scratch folder. For one that is archived already, only end
    the lookup of its messages from its successor."""
    if session.archived:
        await services.database.write(lambda connection: rows.disable_lookup(connection, session.id), durable=True)
        return
    await close_session(services, session)
    now = session.next_timestamp(services.clock.now_ms())
    try:
        await services.database.write(lambda connection: rows.archive(connection, session.id, now), durable=True)
    except BaseException:
        session.archived = False
        raise
    await asyncio.to_thread(services.home.remove_scratch, session.id)


def _discard_view(session: LiveSession) -> None:
    """Make the next turn read the view from disk."""
    session.view = None
    session.context_tokens = session.compaction_history.not_before = 0
