"""Writes to one chat: one call at a time, and no more changes than the platform allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from agent_common.backoff import Backoff
from agent_common.telemetry import logger

from ...platform import (
    Chat,
    ChatGone,
    MessageGone,
    Piece,
    Platform,
    PlatformError,
    TemporarilyUnavailable,
    TokenRejected,
)
from ...store import (
    Database,
    Post,
    PostMessage,
    chat_in,
    content_in,
    end_post_in,
    known_messages_in,
    lose_post_in,
    lose_posts_in,
    newest_private_message_in,
    note_absent_in,
    note_intent_in,
    note_last_message_in,
    note_message_in,
    waiting_posts_in,
)
from .changes import Change, Delete, Edit, Send, next_change

log = logger(__name__)
TYPING_SECONDS = 4.0
_BACKOFF = Backoff(first=1.0, most=60.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class Draft:
    """How the post of a turn that runs looks now."""

    render: Callable[[], Sequence[Piece]]
    """Called when a change can be shown, and so not for each word."""
    typing: bool
    """Whether the agent works, and does not wait for a person."""


class ChatWriter:
    """Brings the posts of one chat to the platform.

    What a message shall show is stored before it is sent. A process that dies before it has stored the id looks for the
    message when it starts again, and sends another one only if there is none.
    """

    def __init__(self, platform: Platform, database: Database, bot: str, chat: str) -> None:
        self._platform = platform
        self._database = database
        self._bot = bot
        self._chat_id = chat
        self.drafts: dict[str, Draft] = {}
        """Of the turns that run, by the key of their post."""
        self._changed = asyncio.Event()
        self._failures = 0
        self._next_at = 0.0
        self._typing_at = 0.0

    def wake(self) -> None:
        """Look again: something is to be shown."""
        self._changed.set()

    @property
    def idle(self) -> bool:
        """Whether nothing can be to do before the next `wake`."""
        return not self.drafts and not self._changed.is_set()

    async def run(self) -> None:
        """Write until all posts look as they should and no turn runs."""
        self._changed.set()
        while True:
            self._changed.clear()
            while await self._step():
                pass
            if self.idle:
                return
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Show that the agent writes while it works and nothing changes."""
        while not self._changed.is_set():
            await self._show_typing()
            left = self._typing_at - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(left if left > 0 else TYPING_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _show_typing(self) -> None:
        """Show it while the agent works, before what is shown already has gone."""
        now = asyncio.get_running_loop().time()
        if now < self._typing_at or not any(draft.typing for draft in self.drafts.values()):
            return
        self._typing_at = now + TYPING_SECONDS
        try:
            chat, _, _ = await self._look()
            if chat is not None:
                await self._platform.show_typing(chat)
        except PlatformError as error:
            log.debug("typing was not shown", bot=self._bot, error=str(error))

    async def _look(self) -> tuple[Chat | None, str | None, list[Post]]:
        found, newest, posts = await self._database.run(
            lambda connection: (
                chat_in(connection, self._bot, self._chat_id),
                newest_private_message_in(connection, self._bot),
                waiting_posts_in(connection, self._bot, self._chat_id),
            )
        )
        if found is None:
            return None, None, []
        return found.chat, (newest if found.chat.private else found.last_message), posts

    async def _step(self) -> bool:
        """Make one call. Returns whether there was one to make.

        A message that may have been sent is looked for before anything else is sent. A turn at work comes after the
        other posts, because it always has something new. One that waits for a person comes before what it asks. A reply
        begins when those before it in its session are complete.
        """
        chat, last_message, posts = await self._look()
        if chat is None:
            return False
        for post in posts:
            if (lost := next((message for message in post.messages if message.is_lost), None)) is not None:
                await self._attempt(post, partial(self._find, chat, post, lost))
                return True
        newest = self._newest(chat, last_message)
        first = {post.session: post.key for post in reversed(posts)}
        for post in sorted(posts, key=self._is_at_work):
            if post.session is not None and not post.messages and first[post.session] != post.key:
                continue
            if await self._advance(chat, post, newest):
                return True
        return False

    def _is_at_work(self, post: Post) -> bool:
        draft = self.drafts.get(post.key)
        return post.pieces is None and (draft is None or draft.typing)

    async def _advance(self, chat: Chat, post: Post, newest: str | None) -> bool:
        """Make the next change of a post, or note that there is none. Returns whether the post has come further."""
        if (pieces := post.pieces) is None:
            await self._show_typing()
            await self._wait_for_turn()
            if (draft := self.drafts.get(post.key)) is None:  # its turn has not been taken up yet, or is over
                return False
            if not (
                pieces := self._render(post.key, draft)
            ):  # what it has shown before stays until it has something else
                return False
        if (change := next_change(post, pieces, newest)) is not None:
            await self._wait_for_turn()
            await self._attempt(post, partial(self._make, chat, post, change))
            return True
        if post.pieces is None:
            return False
        await self._database.run(lambda connection: end_post_in(connection, post))
        return True  # the next reply of its session may begin

    def _render(self, key: str, draft: Draft) -> Sequence[Piece]:
        """Return how the post of a turn that runs looks. One that cannot be drawn holds up no other of its chat."""
        try:
            return draft.render()
        except Exception:
            log.exception("a reply cannot be drawn", bot=self._bot, chat=self._chat_id)
            self.drafts.pop(key)
            return ()

    async def _wait_for_turn(self) -> None:
        """Wait until the platform allows another change in the chat."""
        await asyncio.sleep(self._next_at - asyncio.get_running_loop().time())

    async def _attempt(self, post: Post, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call. What fails for now stays as it is, for the next step; what the platform refuses is given up."""
        try:
            await call()
            self._failures = 0
        except TemporarilyUnavailable as error:
            await self._pause(error.retry_after, error)
        except TokenRejected as error:
            await self._pause(_BACKOFF.most, error)
        except ChatGone as error:
            lost = await self._database.run(lambda connection: lose_posts_in(connection, self._bot, self._chat_id))
            log.warning("a chat is gone", bot=self._bot, chat=self._chat_id, posts=lost, error=str(error))
        except PlatformError as error:
            await self._database.run(lambda connection: lose_post_in(connection, post.key))
            log.error("the platform refuses a post", bot=self._bot, chat=self._chat_id, error=str(error))
        self._next_at = asyncio.get_running_loop().time() + self._platform.limits.edit_seconds

    async def _make(self, chat: Chat, post: Post, change: Change) -> None:
        match change:
            case Send(message):
                await self._send(chat, post, message)
            case Edit(message, piece):
                await self._edit(chat, post, message, piece)
            case Delete(message):
                await self._delete(chat, post, message)

    async def _send(self, chat: Chat, post: Post, message: PostMessage) -> None:
        """Send a message. That it is to be sent is stored before, its id after that."""
        await self._database.run(lambda connection: note_intent_in(connection, post.key, message))
        try:
            sent = await self._call_send(chat, post, message)
        except TemporarilyUnavailable as error:
            if error.refused:
                await self._database.run(lambda c: note_absent_in(c, post.key, message))
            raise
        await self._note(post, message.number, sent, message.piece)

    async def _call_send(self, chat: Chat, post: Post, message: PostMessage) -> str:
        platform = self._platform
        piece = message.piece
        key = message.key
        if post.file_name is not None:
            content = await self._database.run(lambda c: content_in(c, post.key))
            return await platform.send_file(chat, post.file_name, content, key=key, caption=piece.markdown)
        if post.reply_to is None or message.number > 0:
            return await platform.send(chat, piece, key=key)
        try:
            return await platform.send(chat, piece, key=key, reply_to=post.reply_to)
        except MessageGone:  # what it answers was deleted
            return await platform.send(chat, piece, key=key)

    async def _edit(self, chat: Chat, post: Post, message: PostMessage, piece: Piece) -> None:
        """Change a message. In the place of one that is gone the next step sends another one."""
        try:
            await self._platform.edit(chat, message.id or "", piece)
        except MessageGone:
            await self._database.run(lambda c: note_absent_in(c, post.key, message))
        else:
            await self._database.run(lambda c: note_message_in(c, post.key, message.number, message.id or "", piece))

    async def _delete(self, chat: Chat, post: Post, message: PostMessage) -> None:
        """Delete a message. That it may be gone is stored before, so that what needs it again does not rely on it."""
        number = message.number
        message_id = message.id or ""
        await self._database.run(lambda c: note_message_in(c, post.key, number, message_id, Piece("")))
        await self._platform.delete(chat, message_id)
        await self._database.run(lambda c: note_absent_in(c, post.key, message))

    async def _find(self, chat: Chat, post: Post, message: PostMessage) -> None:
        """Look for a message that may have been sent; without it the next step sends it again."""
        after = message.after or ""
        known = await self._database.run(lambda c: known_messages_in(c, self._bot, self._chat_id, after))
        is_file = post.file_name is not None
        found = await self._platform.find(chat, message.piece, key=message.key, after=after, known=known, file=is_file)
        if found is None:
            await self._database.run(lambda c: note_absent_in(c, post.key, message))
        else:
            await self._note(post, message.number, found, message.piece)

    def _newest(self, chat: Chat, last_message: str | None) -> str | None:
        """Return the newest message that is known, from which a lost one is looked for. Ids grow."""
        known = filter(None, (self._platform.newest(chat), last_message))
        return max(known, key=lambda one: (len(one), one), default=None)

    async def _note(self, post: Post, number: int, message_id: str, piece: Piece) -> None:
        await self._database.run(
            lambda c: (
                note_message_in(c, post.key, number, message_id, piece),
                note_last_message_in(c, self._bot, self._chat_id, message_id),
            )
        )

    async def _pause(self, seconds: float | None, error: PlatformError) -> None:
        self._failures += 1
        pause = _BACKOFF.pause(self._failures) if seconds is None else seconds
        log.warning("the platform does not answer", bot=self._bot, chat=self._chat_id, pause=pause, error=str(error))
        await asyncio.sleep(pause)
