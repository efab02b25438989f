"""Keeps the messages of approvals and questions in step with the host: what waits there has one, wherever its turn was
started, and what is decided there is shown as such, wherever that was done."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any, TypeVar

from agent_client import ClientError, HostRequest, Mesh, Pending
from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ...people import private_chats_in
from ...store import (
    Database,
    StoredChat,
    StoredRequest,
    add_post_in,
    add_request_in,
    change_post_in,
    chat_in,
    count_unanswered_in,
    end_request_in,
    is_being_decided_in,
    note_requester_in,
    open_requests_in,
    reply_of_turn_in,
    savepoint,
)
from ..bot import Bot
from ..outbox import Outbox
from ..replies import is_removed_in
from .card import card

log = logger(__name__)
R = TypeVar("R", HostRequest, StoredRequest)
AGAIN_SECONDS = 60.0
"""After this time the list is read again, if nothing has happened before."""
READ_SECONDS = 30.0
"""For the list of one workspace."""
ENOUGH = 20
"""Messages of one workspace that nobody in a chat has answered; with that many in `ENOUGH_MS` no more are added."""
ENOUGH_MS = 3600 * 1000
_LATEST = 2**53
"""The latest time that is kept of a request: no clock of an agent reaches it."""
_BACKOFF = Backoff(first=2.0, most=AGAIN_SECONDS)
_OUTCOMES = {
    "expired": "⌛ Not decided in time.",
    "cancelled": "⏹ Not needed any more: the turn was stopped.",
    "once": "✅ Allowed once, elsewhere.",
    "always": "♾ Always allowed, elsewhere.",
    "reject": "❌ Rejected, elsewhere.",
}
_OVER = "It was decided elsewhere, or is over."


class Waiting:
    """What waits for people in the workspaces of one bot."""

    def __init__(self, bot: Bot, outbox: Outbox, database: Database, mesh: Mesh, clock: Clock) -> None:
        self._bot = bot
        self._outbox = outbox
        self._database = database
        self._mesh = mesh
        self._clock = clock
        self._due = asyncio.Event()

    def look(self) -> None:
        """Read the list again: something has happened."""
        self._due.set()

    async def run(self) -> None:
        """Compare with the host until it is cancelled."""
        failures = 0
        while True:
            self._due.clear()
            failures = 0 if await self._look_at_all() else failures + 1
            try:
                async with asyncio.timeout(_BACKOFF.pause(failures) if failures else AGAIN_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def _look_at_all(self) -> bool:
        """Compare each workspace with the host. Returns False if one of them cannot be read."""
        return all(await asyncio.gather(*map(self._look_at, self._bot.workspaces)))

    async def _look_at(self, workspace: str) -> bool:
        """Compare one workspace. What its agent sends, or does not, holds up no other one."""
        names = {"bot": self._bot.name, "workspace": workspace}
        started = self._clock.now_ms()
        try:
            async with asyncio.timeout(READ_SECONDS):
                pending = await self._mesh.pending(workspace=workspace)
            self._wake(await self._compare(pending, workspace, started))
        except (ClientError, TimeoutError) as error:
            log.info("what waits for people cannot be read", **names, error=str(error) or "it took too long")
        except Exception:
            log.exception("what waits for people cannot be compared", **names)
        else:
            return True
        return False

    async def resolve(self, workspace: str, data: dict[str, Any]) -> None:
        """Show that a request was decided, as an event of the host says."""
        outcome = data.get("decision") or data.get("outcome")
        words = _OUTCOMES.get(str(outcome), _OVER)

        def work(connection: sqlite3.Connection) -> list[str]:
            found = [
                request
                for request in open_requests_in(connection, self._bot.name)
                if (request.workspace, request.session, request.request)
                == (workspace, data.get("session_id"), data.get("id"))
                and data.get("user") == request.user
                and not is_being_decided_in(connection, request)
            ]
            return self._each(connection, found, lambda request: self._end(connection, request, words))

        self._wake(await self._database.run(work))

    async def _compare(self, pending: Pending, workspace: str, started: int) -> Sequence[str]:
        """Add what is new and end what is over. Returns the chats in which something has changed."""
        unreachable = {one.workspace for one in pending.unreachable}
        listed = [one for one in pending.requests if one.workspace == workspace]
        open_there = {(one.user, one.session_id, one.id) for one in listed}

        def is_over(connection: sqlite3.Connection, request: StoredRequest) -> bool:
            known = (request.user, request.session, request.request) in open_there
            due = request.workspace == workspace and not known and request.created_at < started
            return due and not is_being_decided_in(connection, request)

        def work(connection: sqlite3.Connection) -> list[str]:
            changed = self._each(connection, listed, lambda one: self._add(connection, one))
            if workspace in unreachable:
                return changed
            over = [one for one in open_requests_in(connection, self._bot.name) if is_over(connection, one)]
            return changed + self._each(connection, over, lambda one: self._end(connection, one, _OVER))

        return await self._database.run(work)

    def _each(
        self, connection: sqlite3.Connection, requests: Sequence[R], change: Callable[[R], str | None]
    ) -> list[str]:
        """Carry out a change for each request, and return the chats in which something has changed. An agent has
        written the requests: one that cannot be shown or kept is left out, and the others count."""
        changed: list[str] = []
        for one in requests:
            try:
                with savepoint(connection):
                    chat = change(one)
            except sqlite3.OperationalError:  # the disk, and no fault of the request
                raise
            except Exception:
                names = {"bot": self._bot.name, "workspace": one.workspace, "request": one.id[:80]}
                log.exception("a request is left out", **names)
                continue
            if chat is not None:
                changed.append(chat)
        return changed

    def _add(self, connection: sqlite3.Connection, one: HostRequest) -> str | None:
        """Add a request with its message. Returns its chat if it is new; None too if it belongs to no chat."""
        reply = reply_of_turn_in(connection, one.workspace, one.user, one.session_id, one.message_id)
        if reply is not None and reply.bot != self._bot.name:
            return None
        if reply is not None and is_removed_in(connection, reply):
            reply = None
        if reply is not None:
            chat = reply.chat
            requester = reply.requester
            name = reply.requester_name
            found = chat_in(connection, self._bot.name, chat)
        else:
            found = self.chat_of(connection, one.user)
            if found is None:
                return None
            chat = found.chat.id
            requester = one.user
            name = "the owner of the conversation"
        now = self._clock.now_ms()
        request = StoredRequest(
            token_hex(8), self._bot.name, chat, one.workspace, one.user, one.session_id, one.id, one.since, one.kind,
            one.tool, one.input, one.reason, one.always, requester, name,
            self._origin(one, found, own=reply is not None), min(one.expires_at, _LATEST), created_at=now,
            code=one.code, agent=one.agent,
        )  # fmt: skip
        if self._is_enough(connection, request) or not add_request_in(connection, request):
            if reply is not None:
                note_requester_in(connection, request)
            return None
        add_post_in(connection, self._bot.name, chat, request.token, card(request, self._bot.platform.split), now=now)
        return chat

    def _origin(self, one: HostRequest, chat: StoredChat | None, *, own: bool) -> str | None:
        """Return where the turn of a request runs, if not in the chat's own session. `own`: the chat has started it."""
        if chat is None:
            return None
        if self._bot.workspace(chat.workspace) == one.workspace and (own or chat.session == one.session_id):
            return None
        return f"{one.workspace}, conversation {one.session_id}"

    def _is_enough(self, connection: sqlite3.Connection, request: StoredRequest) -> bool:
        """Whether a workspace has put so much into a chat that nobody there has answered, that the rest must wait."""
        after = request.created_at - ENOUGH_MS
        asked = count_unanswered_in(connection, request.bot, request.chat, request.workspace, after=after)
        return asked >= ENOUGH

    def chat_of(self, connection: sqlite3.Connection, user: str) -> StoredChat | None:
        """Return the chat for what this bot was not asked for: the private chat of its person, or the group that it is
        for."""
        for private in private_chats_in(connection, self._bot.name, user):
            if (known := chat_in(connection, self._bot.name, private)) is not None:
                return known
        platform, _, group = user.partition(":")
        known = chat_in(connection, self._bot.name, group) if platform == self._bot.platform.name else None
        return known if known is not None and not known.chat.private else None

    def _end(self, connection: sqlite3.Connection, request: StoredRequest, words: str) -> str:
        end_request_in(connection, request.token, words)
        shown = replace(request, state="decided", verdict=words)
        change_post_in(connection, request.token, card(shown, self._bot.platform.split))
        return request.chat

    def _wake(self, chats: Sequence[str]) -> None:
        for chat in set(chats):
            self._outbox.wake(chat)
