"""What an update of a person is: a press, an edit, a command, an answer, or a message for the agent."""

from __future__ import annotations

from dataclasses import dataclass

from agent_client import ClientError

from ..people import Person
from ..platform import Update
from ..store import StoredChat, remember_chat_in, show_requests_again_in
from .commands import SESSION_PREFIX, TABLE, Call, choose, listing, parse
from .context import Context, words_or_later
from .messages import GOING_BACK_PREFIX, GoingBack, Sending
from .requests import Decisions, is_press
from .words import code

_WAITS = "⏸ Your message is kept until what waits above is decided."


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Carries out the updates of one bot. Each ends in the transaction of what it causes, so that it has one effect."""

    context: Context

    async def handle(self, update: Update, person: Person) -> None:
        """Carry out an update and end it. Raises Later."""
        name = self.context.bot.name
        message = update.message_id if update.kind == "message" else None
        chat, shows_again = await self.context.database.run(
            lambda c: (
                remember_chat_in(c, name, update.chat, message),
                show_requests_again_in(c, name, update.chat.id),
            )
        )
        if shows_again:
            self.context.outbox.wake(update.chat.id)
        try:
            match update.kind:
                case "button":
                    await self._press(update, chat, person)
                case "edit":
                    await Sending(self.context).edit(update, chat, person)
                case "message":
                    await self._message(update, chat, person)
                case "move":
                    pass  # it was carried out as it came in
        except ClientError as error:
            await self.context.tell(update, words_or_later(error))

    async def _press(self, update: Update, chat: StoredChat, person: Person) -> None:
        if is_press(update.text):
            await Decisions(self.context).press(update, person)
        elif update.text.startswith(f"{GOING_BACK_PREFIX}:"):
            await GoingBack(self.context, Sending(self.context)).press(update, chat, person)
        elif update.text.startswith(f"{SESSION_PREFIX}:ses_"):
            await choose(self.context, update, chat, person)
        else:
            await self.context.acknowledge(update, "This button is not valid any more.")
            await self.context.tell(update)

    async def _message(self, update: Update, chat: StoredChat, person: Person) -> None:
        if not update.addressed:
            await self.context.tell(update)
            return
        sending = Sending(self.context)
        going_back = GoingBack(self.context, sending)
        own = update.forwarded_from is None
        if own and (command := parse(update.text)) is not None:
            await self._command(update, chat, person, *command)
            return
        decisions = Decisions(self.context)
        if own and not update.files and await decisions.answer(update, person):
            return
        if not await going_back.ask(update, chat, person):
            note = _WAITS if await decisions.is_waiting(chat) else ""
            await sending.send(update, chat, person, note=note)

    async def _command(self, update: Update, chat: StoredChat, person: Person, name: str, argument: str) -> None:
        if (entry := TABLE.get(name)) is None:
            await self.context.tell(update, f"There is no command {code('/' + name)}.\n\n{listing()}")
            return
        sending = Sending(self.context)
        going_back = GoingBack(self.context, sending)
        await entry.run(Call(self.context, sending, going_back, update, chat, person, argument))
