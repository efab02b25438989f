"""Follows the turn of one message, and lets its post show it, until the end of the turn is on disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from hashlib import sha256

from agent_client import (
    Agent,
    Approval,
    ChatEvent,
    ClientError,
    FileInfo,
    Finished,
    Mesh,
    NotFound,
    Question,
    TextDelta,
)
from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ...platform import Piece, Platform
from ...store import Database, Reply, add_post_in, change_post_in, end_reply_in, post_in
from ..outbox import Draft, Outbox
from ..words import code
from .endings import trouble_of
from .file_links import FileLink
from .layout import FILE_NAME, Layout, laid_out
from .rendition import Rendition

log = logger(__name__)
WAIT_SECONDS = 14 * 24 * 3600.0
"""The longest that a turn is followed: it may wait a week for a person."""
RECONNECT_SECONDS = 5.0
"""After this time without a connection the chat is informed; the turn is followed all the same."""
CATCH_UP_SECONDS = 0.5
"""A turn that is followed again comes from its beginning: until all of it has come, its post stays as it was."""
_BACKOFF = Backoff(first=0.5, most=30.0, jitter=0.5)


class Follower:
    """One turn. Its document depends on the turn alone, so that another process goes on in the same messages."""

    def __init__(
        self,
        reply: Reply,
        platform: Platform,
        outbox: Outbox,
        database: Database,
        mesh: Mesh,
        clock: Clock,
        on_request: Callable[[], None],
    ) -> None:
        self._reply = reply
        self._platform = platform
        self._outbox = outbox
        self._database = database
        self._agent: Agent = mesh.agent(reply.workspace, reply.user)
        self._clock = clock
        self._on_request = on_request
        self._shown = Rendition()
        self._footer = ""
        self._kept: Sequence[Piece] = ()
        """What an earlier process has shown. It stays until the turn can be followed."""

    async def run(self) -> None:
        """Follow the turn to its end, over all failures that may pass."""
        failures = 0
        post = await self._database.run(lambda c: post_in(c, self._reply.key))
        self._kept = post.shown if post is not None else ()
        again = bool(self._kept)
        while True:
            rendition = Rendition()
            try:
                if await self._follow(rendition, again=again):
                    return
            except ClientError as error:
                trouble = trouble_of(error)
                log.info("a turn is not followed", bot=self._reply.bot, session=self._reply.session, error=str(error))
                if not trouble.passing:
                    await self._give_up(rendition, f"⚠️ {trouble.words}")
                    return
                self._footer = f"⏳ {trouble.words} It goes on by itself."
                if self._shown.message_id is not None or not self._kept:
                    self._show()
            failures = 1 if rendition.message_id is not None else failures + 1
            again = True
            await asyncio.sleep(_BACKOFF.pause(failures))

    async def _follow(self, rendition: Rendition, *, again: bool) -> bool:
        """Read one stream of the turn. Returns whether the turn has ended."""
        reply = self._reply
        loop = asyncio.get_running_loop()
        shown_from = 0.0
        later: asyncio.TimerHandle | None = None
        try:
            async with self._agent.chat(
                reply.text,
                session=reply.session,
                id=reply.message_id,
                model=reply.model,
                agent=reply.agent,
                on_busy="queue" if reply.on_busy == "queue" else "steer",
                wait=WAIT_SECONDS,
                reconnect=RECONNECT_SECONDS,
            ) as turn:
                async for event in turn:
                    rendition.add(event)
                    if again and later is None:
                        shown_from = loop.time() + CATCH_UP_SECONDS
                        later = loop.call_later(CATCH_UP_SECONDS, self._take, rendition)
                    if rendition.message_id not in (None, "", reply.message_id):
                        await self._join()
                        return True
                    await self._react(event, rendition)
                    if loop.time() >= shown_from and not _is_reasoning(event):
                        self._take(rendition)
        finally:
            if later is not None:
                later.cancel()
        if rendition.reply is None:
            return False
        await self._end(laid_out(rendition.parts(), self._platform.split, complete=True))
        return True

    async def _react(self, event: ChatEvent, rendition: Rendition) -> None:
        if isinstance(event, Approval | Question):
            self._on_request()
        elif isinstance(event, Finished):
            await self._send_files(rendition)

    def _take(self, rendition: Rendition) -> None:
        self._shown = rendition
        self._footer = ""
        self._show()

    def _show(self) -> None:
        draft = Draft(self._pieces, typing=self._shown.works and not self._footer)
        self._outbox.show(self._reply.chat, self._reply.key, draft)

    def _pieces(self) -> list[Piece]:
        steers = self._shown.message_id is None and self._reply.on_busy != "queue"
        parts = self._shown.parts(self._footer) if not steers or self._footer else []
        return [*laid_out(parts, self._platform.split, complete=False).pieces]

    async def _join(self) -> None:
        """The message has become a part of a turn that another post shows: nothing is to be shown for it."""

        def note(connection: sqlite3.Connection) -> None:
            end_reply_in(connection, self._reply.key, "joined")
            change_post_in(connection, self._reply.key, [])

        await self._database.run(note)
        self._outbox.end(self._reply.chat, self._reply.key)

    async def _give_up(self, rendition: Rendition, words: str) -> None:
        """End with what was shown until now, and why there is no more of it. `rendition` is what has come last."""
        begun = self._shown if self._shown.message_id is not None else rendition
        if begun is not self._shown and self._kept:
            await self._end(Layout([*self._kept, Piece(words)], None))
        else:
            await self._end(laid_out(begun.parts(words), self._platform.split, complete=True))

    async def _end(self, layout: Layout) -> None:
        """The last look of the post is on disk before the turn counts as ended."""
        reply = self._reply
        now = self._clock.now_ms()

        def note(connection: sqlite3.Connection) -> None:
            end_reply_in(connection, reply.key, "done")
            change_post_in(connection, reply.key, layout.pieces)
            if layout.whole is not None:
                file = FILE_NAME, layout.whole.encode(errors="replace")
                key = self._file_key("all", layout.whole)
                add_post_in(connection, reply.bot, reply.chat, key, [Piece("")], file=file, now=now)

        await self._database.run(note)
        self._outbox.end(reply.chat, reply.key)

    async def _send_files(self, rendition: Rendition) -> None:
        for number, link in enumerate(rendition.files):
            answer = rendition.reply.text if rendition.reply is not None else ""
            await self._send_file(self._file_key(f"f{number}", answer), link)

    def _file_key(self, name: str, answer: str) -> str:
        """Return the key of a file's post. A message that is edited has another answer, with files of its own."""
        version = sha256(f"{self._reply.text}\0{answer}".encode(errors="surrogatepass")).hexdigest()[:8]
        return f"{self._reply.key}-{name}-{version}"

    async def _send_file(self, key: str, link: FileLink) -> None:
        """Add a post for a file of the workspace, or for why there is none."""
        pieces = [Piece("")]
        file = None
        limit = self._platform.limits.upload_bytes
        try:
            found: FileInfo = await self._agent.files.stat(link.path)
            if found.size > limit:
                words = f"is too large for this chat: {found.size} bytes, at most {limit}."
                pieces = [Piece(f"📎 {code(link.name)} {words}")]
            elif not found.size:  # Telegram takes no empty file
                pieces = [Piece(f"📎 {code(link.name)} is empty, so there is nothing to send.")]
            else:
                file = link.name, await self._agent.files.read(link.path, end=limit)
        except NotFound:
            pieces = [Piece(f"📎 {code(link.name)} is not in the workspace.")]
        except ClientError as error:
            if (trouble := trouble_of(error)).passing:
                raise
            pieces = [Piece(f"📎 {code(link.name)}: {trouble.words}")]
        reply = self._reply
        now = self._clock.now_ms()
        await self._database.run(lambda c: add_post_in(c, reply.bot, reply.chat, key, pieces, file=file, now=now))
        self._outbox.wake(reply.chat)


def _is_reasoning(event: ChatEvent) -> bool:
    """Whether the event changes nothing that is shown."""
    return isinstance(event, TextDelta) and event.kind == "reasoning"
