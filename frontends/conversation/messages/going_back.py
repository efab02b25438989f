"""Goes back in a conversation: what came after a point is hidden. A message that replies to an older one asks first."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from agent_client import ClientError, NotFound, SessionBusy

from ...people import Person
from ...platform import Button, Piece, Update
from ...store import (
    Offer,
    Reply,
    StoredChat,
    add_offer_in,
    add_post_in,
    change_post_in,
    end_offer_in,
    offer_in,
    post_of_message_in,
    replies_of_session_in,
    reply_in,
    reply_of_message_in,
    rewind_replies_in,
    running_replies_from_in,
)
from ..context import Context, key_of, words_or_later
from ..words import plain
from .sending import Sending

PREFIX = "b"
_BACK = "back"
_SEND = "send"
_NOT_ANY_MORE = "This button is not valid any more."
_BUSY = "The agent still works in this conversation. /stop ends that; then try again."


@dataclass(frozen=True, slots=True)
class GoingBack:
    """The ways back in the conversations of a bot."""

    context: Context
    sending: Sending

    async def ask(self, update: Update, chat: StoredChat, person: Person) -> bool:
        """Ask whether a message that replies to an older one goes back to there, and end the update. Returns False if
        it replies to none."""
        it = self.context
        target = await it.database.run(lambda c: self._after_replied(c, update, chat))
        if target is None:
            return False
        token = key_of(it.bot.name, update.id, "back")
        piece = Piece(
            "↩ **Go back to there?** What came after it is hidden from the agent, and your message follows.",
            [[Button("↩ Go back", f"{PREFIX}:{token}:{_BACK}"), Button("Just send it", f"{PREFIX}:{token}:{_SEND}")]],
        )
        offer = Offer(token, it.bot.name, update.chat.id, person.principal, target.key, update)
        now = it.clock.now_ms()

        def work(connection: sqlite3.Connection) -> None:
            add_offer_in(connection, offer, now=now)
            add_post_in(connection, offer.bot, offer.chat, token, [piece], reply_to=update.message_id, now=now)

        await it.finish(update, work)
        return True

    async def press(self, update: Update, chat: StoredChat, person: Person) -> None:
        """Carry out a press on a button of such a question, and end the update. Raises Later."""
        it = self.context
        pieces = update.text.split(":")
        offer = await it.database.run(lambda c: offer_in(c, pieces[1])) if len(pieces) == 3 else None
        if offer is None or (offer.bot, offer.chat) != (it.bot.name, update.chat.id) or offer.done:
            await it.acknowledge(update, _NOT_ANY_MORE)
        elif offer.person != person.principal:
            await it.acknowledge(update, "Only the writer of the message may decide this.")
        elif pieces[2] == _SEND:
            await it.acknowledge(update)
            await self._send(update, chat, person, offer, "Sent without going back.", None)
            return
        elif pieces[2] == _BACK:
            await self._go_back(update, chat, person, offer)
            return
        await it.tell(update)

    async def rewind(self, update: Update, chat: StoredChat, person: Person, argument: str) -> None:
        """Take back the last messages of the conversation, one unless a number is given, and end the update."""
        it = self.context
        count = (
            int(argument) if argument.isascii() and argument.isdecimal() and len(argument) < 4 else 0 if argument else 1
        )
        replies = await it.database.run(
            lambda c: replies_of_session_in(c, it.bot.name, update.chat.id, chat.session, limit=max(count, 1))
        )
        if count < 1:
            await it.tell(update, "`/rewind` takes the last message back, `/rewind 3` the last three.")
        elif len(replies) < count:
            await it.tell(update, f"There are only {len(replies)} messages to take back in this conversation.")
        elif (refusal := await self._hide(replies[-1])) is not None:
            await it.tell(update, refusal)
        else:
            target = replies[-1]
            words = f"↩ Taken back, to before: *{plain(_own_words(target), 100)}*"
            await it.finish(update, lambda c: rewind_replies_in(c, target), words)

    async def _go_back(self, update: Update, chat: StoredChat, person: Person, offer: Offer) -> None:
        it = self.context
        target = await it.database.run(lambda c: reply_in(c, offer.target))
        await it.acknowledge(update)
        if target is None or target.session != chat.session:
            await it.tell(update, "The conversation is another one by now.")
            return
        if (refusal := await self._hide(target)) is not None:
            await it.tell(update, refusal)
            return
        await self._send(update, chat, person, offer, "↩ Went back.", target)

    async def _send(
        self, update: Update, chat: StoredChat, person: Person, offer: Offer, words: str, target: Reply | None
    ) -> None:
        def also(connection: sqlite3.Connection) -> None:
            end_offer_in(connection, offer.token)
            change_post_in(connection, offer.token, [Piece(words)])
            if target is not None:
                rewind_replies_in(connection, target)

        source = offer.update if target is None else _without_known_quote(offer.update)
        await self.sending.send(update, chat, person, source=source, also=also)

    async def _hide(self, target: Reply) -> str | None:
        """Have the agent hide this message and all later ones. Returns why it refuses. Raises Later.

        Their turns are not followed from before that on: a follower sends its message until its turn has ended, and to
        the agent a message that is hidden is a new one.
        """
        it = self.context
        running = await it.database.run(lambda c: running_replies_from_in(c, target))
        for reply in running:
            await it.followers.stop(reply)
        hidden = False
        try:
            refusal = await self._rewind(target)
            hidden = refusal is None
        finally:
            if not hidden:
                for reply in running:
                    it.followers.start(reply)
        return refusal

    async def _rewind(self, target: Reply) -> str | None:
        """Rewind the agent's session. Returns why it refuses. Hidden before, by a process that then died, the message
        is hidden. Raises Later."""
        agent = self.context.mesh.agent(target.workspace, target.user)
        try:
            await agent.sessions.rewind(target.session, target.message_id)
        except NotFound:
            return None
        except SessionBusy:
            return _BUSY
        except ClientError as error:
            return words_or_later(error)
        return None

    def _after_replied(self, connection: sqlite3.Connection, update: Update, chat: StoredChat) -> Reply | None:
        """Return the reply that follows the one to whose messages the update replies; None if it is the last one."""
        bot = self.context.bot.name
        where = update.chat.id
        if update.reply_to is None:
            return None
        found = reply_of_message_in(connection, bot, where, update.reply_to)
        if found is None and (post := post_of_message_in(connection, bot, where, update.reply_to)) is not None:
            found = reply_in(connection, post)
        if found is None or found.session != chat.session:
            return None
        replies = replies_of_session_in(connection, bot, where, chat.session)
        keys = [reply.key for reply in replies]
        number = keys.index(found.key) if found.key in keys else 0
        return replies[number - 1] if number > 0 else None


def _without_known_quote(update: Update) -> Update:
    """Leave out what the message replies to, which is the last that the agent knows once it has gone back. A part that
    the person picked stays: it says which words are meant."""
    return update if update.quote is None or update.quote.part else replace(update, quote=None)


def _own_words(reply: Reply) -> str:
    return " ".join(line for line in reply.text.splitlines() if not line.startswith("["))
