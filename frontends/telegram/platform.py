"""One bot on Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from telegram import (
    BotCommand,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    InputFile,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
    User,
)
from telegram.constants import ChatAction

from agent_common.clock import Clock, SystemClock
from agent_common.telemetry import logger

from ..platform import (
    Accept,
    Chat,
    Command,
    IncomingFile,
    MessageGone,
    Piece,
    PlatformError,
    PlatformLimits,
    PlatformName,
    TemporarilyUnavailable,
)
from ..text import split_telegram
from .addresses import MOVED, NewestMessages, address_of
from .api import TelegramBot, silence_library_logs
from .calls import MAX_WAIT_SECONDS, Calls
from .downloads import DOWNLOAD_BYTES, download
from .faults import AlreadyDeleted, TooLate, Unchanged, WebhookSet, translated
from .incoming import CONFLICT_SECONDS, POLL_SECONDS, WANTED, PollingLoop, read_updates
from .limiter import CHANGE_SECONDS
from .lost_message import Change, find_lost_message
from .moves import id_of, number_in
from .rendering import caption_of, look_of

log = logger(__name__)

_LIMITS = PlatformLimits(CHANGE_SECONDS, download_bytes=DOWNLOAD_BYTES, upload_bytes=50 * 1024 * 1024)
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_SCOPES = (BotCommandScopeAllPrivateChats(), BotCommandScopeAllGroupChats())
_LONGEST_ANSWER = 200
_LONGEST_DESCRIPTION = 256


class TelegramPlatform:
    """A bot on Telegram, or on a server that speaks its Bot API at `base_url`. It keeps
    nothing but connections, the newest message ids and the groups that have moved."""

    def __init__(
        self,
        token: str,
        base_url: str | None = None,
        *,
        clock: Clock | None = None,
        max_wait: float = MAX_WAIT_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        conflict_seconds: float = CONFLICT_SECONDS,
    ) -> None:
        """`max_wait`: how long a call waits for its turn. `conflict_seconds`: how long another copy may go on."""
        silence_library_logs()
        self._token = token
        self._clock = clock or SystemClock()
        with translated(token):
            self._bot = TelegramBot(token, base_url)
        self._calls = Calls(token, self._clock, max_wait)
        self._poll_seconds = poll_seconds
        self._conflict_seconds = conflict_seconds
        self._me: User | None = None
        self._newest = NewestMessages()

    @property
    def name(self) -> PlatformName:
        return "telegram"

    @property
    def limits(self) -> PlatformLimits:
        return _LIMITS

    def split(self, markdown: str) -> list[str]:
        return split_telegram(markdown)

    # ---------------------------------------------------------------- what comes

    async def open(self, commands: Sequence[Command]) -> None:
        await self._identify()
        listed = [BotCommand(each.name, _description(each)) for each in commands]
        try:
            for scope in _SCOPES:
                await self._calls.ask(partial(self._bot.set_my_commands, listed, scope))
        except PlatformError as error:  # it works without; a token that is refused shows itself at the first poll
            log.warning("the commands were not registered with Telegram", reason=str(error))

    async def receive(self, accept: Accept, since: Mapping[str, str], moved: Mapping[str, str] | None = None) -> None:
        for number, chat in (moved or {}).items():
            self._calls.moves.note(chat, number)
        # Telegram keeps what is written while the bot is away, so `since` only tells which numbers are taken.
        for chat, message_id in since.items():
            self._newest.note(Chat(chat, private=False), int(message_id))

        async def take(batch: list[dict[str, Any]]) -> None:
            updates = [*map(self._calls.moves.as_before, read_updates(batch, await self._identify()))]
            for update in updates:
                self._newest.note(update.chat, int(update.message_id))
            if updates:
                await accept(updates)

        loop = PollingLoop(
            self._poll,
            take,
            clock=self._clock,
            poll_seconds=self._poll_seconds,
            conflict_seconds=self._conflict_seconds,
        )
        await loop.run()

    async def _identify(self) -> User:
        if self._me is None:
            self._me = await self._calls.ask(self._bot.get_me)
        return self._me

    async def _poll(self, offset: int | None, seconds: float) -> list[dict[str, Any]]:
        await self._identify()
        try:
            with translated(self._token):
                async with asyncio.timeout(seconds + 30):
                    return await self._bot.poll(offset=offset, seconds=seconds, allowed=WANTED)
        except WebhookSet:
            await self._calls.ask(lambda: self._bot.delete_webhook(drop_pending_updates=False))
            log.warning("the webhook of the bot was removed: its updates are received here")
            raise

    def download(self, file: IncomingFile) -> AsyncGenerator[bytes]:
        return download(self._bot, self._calls, self._clock, self._token, file)

    # ---------------------------------------------------------------- what goes

    async def send(self, chat: Chat, piece: Piece, *, key: str, reply_to: str | None = None) -> str:
        look = look_of(piece)
        number, topic = address_of(chat)
        message = await self._calls.change(
            number,
            lambda number: self._bot.send_message(
                number,
                look.text,
                entities=look.entities,
                reply_markup=look.buttons,
                message_thread_id=topic,
                link_preview_options=_NO_PREVIEW,
                reply_parameters=_reply(chat, reply_to, number),
            ),
        )
        return self._note(chat, message)

    async def send_file(self, chat: Chat, name: str, content: bytes, *, key: str, caption: str = "") -> str:
        look = caption_of(caption)
        number, topic = address_of(chat)
        message = await self._calls.change(
            number,
            lambda number: self._bot.send_document(
                number,
                InputFile(content, filename=name),
                caption=look.text or None,
                caption_entities=look.entities,
                message_thread_id=topic,
                disable_content_type_detection=True,
            ),
            upload=True,
        )
        return self._note(chat, message)

    async def edit(self, chat: Chat, message_id: str, piece: Piece) -> None:
        with suppress(Unchanged):
            await self._calls.change(address_of(chat)[0], partial(self._change_text(chat, piece), int(message_id)))

    def newest(self, chat: Chat) -> str | None:
        return self._newest.known(chat)

    async def find(
        self, chat: Chat, piece: Piece, *, key: str, after: str, known: Collection[str] = (), file: bool = False
    ) -> str | None:
        if not after:  # nothing from which to count
            return None
        change = self._change_caption(chat, piece) if file else self._change_text(chat, piece)
        number = address_of(chat)[0]
        begin = int(after)
        noted = {int(message_id) for message_id in known}
        if self._calls.moves.now(number) != number:
            begin = max(begin, MOVED)
            noted = {MOVED, *(one for one in noted if one > MOVED)}
        found = await find_lost_message(self._calls, self._clock, number, change, after=begin, known=noted)
        return None if found is None else str(found)

    async def delete(self, chat: Chat, message_id: str) -> None:
        group, _ = address_of(chat)
        with suppress(AlreadyDeleted):
            await self._calls.change(
                group, lambda number: self._bot.delete_message(number, number_in(group, int(message_id), number))
            )

    async def show_typing(self, chat: Chat) -> None:
        number, topic = address_of(chat)
        with suppress(TemporarilyUnavailable):  # it is gone in five seconds anyway
            await self._calls.touch(
                number,
                lambda number: self._bot.send_chat_action(number, ChatAction.TYPING, message_thread_id=topic),
            )

    async def acknowledge(self, interaction: str, text: str = "") -> None:
        with suppress(TooLate):
            await self._calls.ask(lambda: self._bot.answer_callback_query(interaction, text[:_LONGEST_ANSWER] or None))

    async def aclose(self) -> None:
        await self._bot.aclose()

    def _note(self, chat: Chat, sent: Message) -> str:
        message_id = id_of(chat, sent)
        self._newest.note(chat, message_id)
        return str(message_id)

    def _change_text(self, chat: Chat, piece: Piece) -> Change:
        look = look_of(piece)
        group, _ = address_of(chat)
        return lambda message_id, number: self._bot.edit_message_text(
            look.text,
            number,
            number_in(group, message_id, number),
            entities=look.entities,
            reply_markup=look.buttons,
            link_preview_options=_NO_PREVIEW,
        )

    def _change_caption(self, chat: Chat, piece: Piece) -> Change:
        look = caption_of(piece.markdown)
        group, _ = address_of(chat)
        return lambda message_id, number: self._bot.edit_message_caption(
            number,
            number_in(group, message_id, number),
            caption=look.text or None,
            caption_entities=look.entities,
        )


def _reply(chat: Chat, message_id: str | None, number: int) -> ReplyParameters | None:
    """Return which message is answered; none if a bot cannot name it any more."""
    if not message_id:
        return None
    with suppress(MessageGone):
        replied = number_in(address_of(chat)[0], int(message_id), number)
        return ReplyParameters(replied, allow_sending_without_reply=True)
    return None


def _description(command: Command) -> str:
    argument = f" ({command.argument})" if command.argument else ""
    return f"{command.description}{argument}"[:_LONGEST_DESCRIPTION]
