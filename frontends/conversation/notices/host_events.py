"""Events of the host: what waits for people and what was decided goes to the cards, what failed becomes a notice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Mapping
from typing import Any

from agent_client import AgentEvent, ClientError, Mesh
from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.protocol import NOTICE_EVENT
from agent_common.telemetry import logger

from ...people import principals_in
from ...platform import Piece
from ...store import Database, add_post_in, event_position_in, note_event_in, reply_of_turn_in
from ..bot import Bot
from ..context import Context, key_of
from ..requests import Waiting
from .notices import BUDGET_EVENTS, notice_of, summary_of
from .operator import OperatorNotices

log = logger(__name__)
STREAM = "host"
ENOUGH = 20
"""Notices of what has failed in a workspace that come into a chat in `ENOUGH_MS`."""
ENOUGH_MS = 3600 * 1000
_BACKOFF = Backoff(first=1.0, most=60.0, jitter=0.5)


class HostEvents:
    """Follows the events of the host for all bots. The position of the last one that mattered is on disk with what it
    caused, so that each has one effect."""

    def __init__(
        self,
        bots: Mapping[str, tuple[Context, Waiting]],
        database: Database,
        mesh: Mesh,
        clock: Clock,
        operator: OperatorNotices,
    ) -> None:
        self._bots = bots
        self._database = database
        self._mesh = mesh
        self._clock = clock
        self._operator = operator
        self._notices: dict[tuple[str, str], deque[int]] = {}
        """When notices of a workspace came into a chat."""

    async def run(self) -> None:
        """Follow until it is cancelled."""
        failures = 0
        while True:
            after = await self._database.run(lambda c: event_position_in(c, STREAM))
            try:
                async for event in self._mesh.events(after=after):
                    failures = 0
                    await self._guarded(event)
            except (ClientError, sqlite3.OperationalError) as error:
                log.info("the events of the host are not followed", error=str(error))
            failures += 1
            await asyncio.sleep(_BACKOFF.pause(failures))
            self._look()

    def _look(self, workspace: str | None = None) -> None:
        for context, waiting in self._bots.values():
            if workspace is None or workspace in context.bot.workspaces:
                waiting.look()

    async def _guarded(self, event: AgentEvent) -> None:
        """Take an event. An agent may have written what is in it: one that cannot be taken is left out."""
        try:
            await self._take(event)
        except sqlite3.OperationalError:  # the disk, and no fault of the event: it comes again
            raise
        except Exception:
            log.exception("an event of the host is left out", id=event.id, type=event.type[:80])

    async def _take(self, event: AgentEvent) -> None:
        workspace = str(event.data.get("workspace", ""))
        match event.type:
            case "events-lost":
                self._look()
            case "approval-requested":
                self._look(workspace)
            case "approval-resolved":
                for context, waiting in self._bots.values():
                    if workspace in context.bot.workspaces:
                        await waiting.resolve(workspace, event.data)
            case _:
                pass
        await self._notice(event, workspace)

    async def _notice(self, event: AgentEvent, workspace: str) -> None:
        text = notice_of(event)
        summary = summary_of(event)
        if text is None and summary is None:
            return

        def work(connection: sqlite3.Connection) -> list[tuple[Context, str]]:
            note_event_in(connection, STREAM, event.id)
            if text is not None and event.type != NOTICE_EVENT and self._is_shown(connection, event.data):
                return []
            return [] if text is None else self._post(connection, event, workspace, text)

        for context, chat in await self._database.run(work):
            context.outbox.wake(chat)
        if summary is not None:
            self._operator.add(summary)

    def _is_shown(self, connection: sqlite3.Connection, data: dict[str, Any]) -> bool:
        """Whether a reply in a chat shows how the turn has ended."""
        names = ("workspace", "user", "session_id", "message_id")
        return reply_of_turn_in(connection, *(str(data.get(name, "")) for name in names)) is not None

    def _is_enough(self, workspace: str, chat: str) -> bool:
        """Whether the workspace has said so much in a chat lately that this one is left out; counts it if not. What an
        agent says by itself the host has limited."""
        now = self._clock.now_ms()
        times = self._notices.setdefault((workspace, chat), deque(maxlen=ENOUGH))
        if len(times) == ENOUGH and now - times[0] < ENOUGH_MS:
            log.info("a notice is left out: there were too many", workspace=workspace)
            return True
        times.append(now)
        return False

    def _post(
        self, connection: sqlite3.Connection, event: AgentEvent, workspace: str, text: str
    ) -> list[tuple[Context, str]]:
        """Add a message for each person in the first private chat that there is, or for the group in its own."""
        posted: dict[str, tuple[Context, str]] = {}
        for context, waiting in self._bots.values():
            if workspace not in context.bot.workspaces:
                continue
            for user in _concerned(connection, context.bot, event):
                known = waiting.chat_of(connection, user)
                if user in posted or known is None or not (known.chat.private or event.type == NOTICE_EVENT):
                    continue
                if event.type != NOTICE_EVENT and self._is_enough(workspace, known.chat.id):
                    continue
                chat = known.chat.id
                key = key_of(context.bot.name, STREAM, event.id, known.chat.id)
                pieces = [*map(Piece, context.bot.platform.split(text))]
                add_post_in(connection, context.bot.name, chat, key, pieces, now=self._clock.now_ms())
                posted[user] = context, chat
        return [*posted.values()]


def _concerned(connection: sqlite3.Connection, bot: Bot, event: AgentEvent) -> list[str]:
    """Return the principals whom an event concerns: its user, or of a budget the bot's approvers, without any its
    people."""
    if event.type in BUDGET_EVENTS:
        return sorted(bot.approvers) or principals_in(connection, bot.name)
    return [str(event.data.get("user", ""))]
