"""Hands a person's message over to the agent: it is on the agent's disk before its update ends, and it has a reply."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from agent_client import ClientError, SessionBusy
from agent_common.line_text import first_visible
from agent_common.protocol import is_object

from ...people import Person
from ...platform import Update
from ...store import (
    Reply,
    StoredChat,
    add_post_in,
    add_reply_in,
    change_post_in,
    count_replies_in,
    last_reply_in,
    post_of_message_in,
    repeat_reply_in,
    replace_offered_in,
    reply_of_message_in,
)
from ..context import Context, key_of, words_or_later
from .files import receive_files
from .words_of_people import edited, message_of, shown_name

WhenBusy = Literal["queue", "steer"]
HANDOVER_SECONDS = 60.0
_QUEUE = re.compile(r"/queue(?:@\w{1,64})?(?!\S)", re.IGNORECASE)
_NOTHING = "There is nothing in it that I can read."
_NOT_THE_LAST = "Only the last message of a conversation can be edited. /rewind takes messages back."
_JOINED = "It is part of the answer to an earlier message, so it cannot be edited by itself. Write the correction."
_WAITS = "The agent still works on what came before this message. Edit it when that has ended, or write the correction."


def _nothing(_: sqlite3.Connection) -> None:
    """Nothing else changes."""


@dataclass(frozen=True, slots=True)
class Sending:
    """The way of messages to the agents of a bot."""

    context: Context

    async def send(
        self,
        update: Update,
        chat: StoredChat,
        person: Person,
        *,
        on_busy: WhenBusy = "steer",
        source: Update | None = None,
        note: str = "",
        also: Callable[[sqlite3.Connection], object] = _nothing,
    ) -> None:
        """Send a message and end the update. It may come from an earlier update (`source`). The chat gets a `note`, and
        `also` belongs to the same transaction. Raises Later."""
        it = self.context
        source = source or update
        agent = it.agent(chat, person)
        received = await receive_files(it, agent, source)
        if first_visible(source.text) is None and not received.stored and source.quote is None:
            unreadable = [_NOTHING] if source.chat.private and not source.files else []
            await it.finish(update, also, *received.refused, *unreadable)
            return
        reply = await self._reply(source, chat, person, on_busy, [file.line() for file in received.stored])
        try:
            async with agent.chat(
                reply.text,
                session=reply.session,
                id=reply.message_id,
                model=reply.model,
                agent=reply.agent,
                on_busy=on_busy,
                wait=HANDOVER_SECONDS,
            ) as turn:
                await anext(turn, None)  # it is on the agent's disk
        except ClientError as error:
            await it.finish(update, also, *received.refused, words_or_later(error))
            return
        now = it.clock.now_ms()

        def work(connection: sqlite3.Connection) -> None:
            also(connection)
            add_reply_in(connection, reply)
            reply_to = None if source.chat.private else source.message_id
            add_post_in(connection, reply.bot, reply.chat, reply.key, None, reply_to=reply_to, now=now)

        await it.finish(update, work, *received.refused, *filter(None, [note]))
        it.followers.start(reply)

    async def edit(self, update: Update, chat: StoredChat, person: Person) -> None:
        """Let the agent answer anew what was edited, in the messages of the reply, and end the update. Raises Later."""
        it = self.context
        found = await it.database.run(lambda c: reply_of_message_in(c, it.bot.name, update.chat.id, update.message_id))
        text = update.text.strip()
        if found is not None and found.on_busy == "queue" and (command := _QUEUE.match(text)):
            text = text[command.end() :].lstrip()
        if found is None or not text:
            # A command, an answer, a message from before the bot was here, or one that waits for a press.
            await it.finish(
                update,
                lambda c: replace_offered_in(c, it.bot.name, update.chat.id, person.principal, update.message_id, text),
            )
            return
        again = replace(found, text=edited(found.text, text), state="running")
        if again.text == found.text:  # a platform reports what nobody has written, such as a preview of a link
            await it.tell(update)
            return
        last = await it.database.run(lambda c: last_reply_in(c, found.bot, found.chat, chat.session))
        if found.state == "joined" or last is None or last.key != found.key or found.requester != person.principal:
            await it.tell(update, _JOINED if found.state == "joined" else _NOT_THE_LAST)
            return
        agent = it.mesh.agent(found.workspace, found.user)
        try:
            await agent.edit(again.text, session=found.session, id=found.message_id)
        except SessionBusy as error:
            if _is_busy_with(error, found):  # it is not the answer that the person wants any more
                await self._edit_after_abort(update, again)
            else:
                await it.tell(update, _WAITS)
            return
        except ClientError as error:
            await it.tell(update, words_or_later(error))
            return
        await self._note_edit(update, again)

    async def _edit_after_abort(self, update: Update, again: Reply) -> None:
        agent = self.context.mesh.agent(again.workspace, again.user)
        try:
            await agent.abort(again.session)
            await agent.edit(again.text, session=again.session, id=again.message_id)
        except ClientError as error:
            await self.context.tell(update, words_or_later(error))
            return
        await self._note_edit(update, again)

    async def _note_edit(self, update: Update, again: Reply) -> None:
        await self.context.followers.stop(again)

        def work(connection: sqlite3.Connection) -> None:
            repeat_reply_in(connection, again.key, again.text)
            change_post_in(connection, again.key, None)

        await self.context.finish(update, work)
        self.context.followers.start(again)

    async def _reply(
        self, source: Update, chat: StoredChat, person: Person, on_busy: WhenBusy, files: list[str]
    ) -> Reply:
        bot = self.context.bot
        key = key_of(bot.name, source.id)
        earlier = await self.context.database.run(lambda c: count_replies_in(c, bot.name, chat.chat.id, chat.session))
        is_latest = await self.context.database.run(lambda c: self._quotes_last_in(c, source, chat))
        text = message_of(
            source.text,
            source.sender,
            bot.platform.name,
            private=source.chat.private,
            author=source.forwarded_from,
            quote=None if is_latest else source.quote,
            files=files,
            first=earlier == 0,
        )
        return Reply(
            key=key,
            bot=bot.name,
            chat=source.chat.id,
            workspace=self.context.workspace(chat),
            user=self.context.principal(source.chat, person),
            session=chat.session,
            message_id=f"{bot.name}-{key}",
            text=text,
            on_busy=on_busy,
            model=chat.model,
            agent=chat.agent,
            requester=person.principal,
            requester_name=shown_name(source.sender),
            platform_message=source.message_id,
        )

    def _quotes_last_in(self, connection: sqlite3.Connection, source: Update, chat: StoredChat) -> bool:
        """Whether a message replies to the whole of what the agent has said last: the model sees that anyway."""
        quote = source.quote
        bot = self.context.bot.name
        where = source.chat.id
        if quote is None or not quote.own or quote.part or source.reply_to is None:
            return False
        last = last_reply_in(connection, bot, where, chat.session)
        return last is not None and post_of_message_in(connection, bot, where, source.reply_to) == last.key


def _is_busy_with(error: SessionBusy, reply: Reply) -> bool:
    """Whether the turn that runs is that of this message, and not one for which it waits."""
    running = (error.problem.model_extra or {}).get("running")
    return is_object(running) and running.get("message_id") == reply.message_id
