"""One bot on Discord."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import discord
from discord.http import handle_message_parameters

from agent_common.clock import Clock, SystemClock

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
    TokenRejected,
    Update,
)
from ..text import discord_text, split_discord
from . import pieces
from .commands import slash_commands
from .connection import Client, by_name, named
from .copies import Copies, nonce_of
from .downloads import DOWNLOAD_BYTES, download
from .interactions import Interactions
from .reception import Reception

_LIMITS = PlatformLimits(edit_seconds=1.0, download_bytes=DOWNLOAD_BYTES, upload_bytes=10 * 1024 * 1024)
_UPLOAD_SECONDS = 300.0
_MOST_SEARCHED = 1000
_NEWEST_SEARCHED = 100
_NO_MENTIONS = discord.AllowedMentions.none()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Login:
    client: Client
    interactions: Interactions
    user: int
    application: int


class DiscordPlatform:
    """`base_url` is the root of the API: `http://127.0.0.1:8700` means its `/api/v10`, if it has one."""

    def __init__(self, token: str, base_url: str | None = None, *, clock: Clock | None = None) -> None:
        self._token = token
        self._base_url = base_url
        self._client: Client | None = None
        self._login: _Login | None = None
        self._newest: dict[str, int] = {}
        """The newest message of each chat that this process knows."""
        self._copies = Copies(clock or SystemClock())

    @property
    def name(self) -> PlatformName:
        return "discord"

    @property
    def limits(self) -> PlatformLimits:
        return _LIMITS

    def split(self, markdown: str) -> list[str]:
        return split_discord(markdown)

    # ---------------------------------------------------------------- connection

    async def open(self, commands: Sequence[Command]) -> None:
        await self.aclose()
        self._client = client = Client(self._base_url)
        try:
            async with named():
                await client.login(self._token)
                if client.user is None or client.application_id is None:
                    raise PlatformError("Discord does not say which bot the token belongs to")
                await _register(client, client.application_id, commands)
        except BaseException:
            await self.aclose()
            raise
        self._login = _Login(client, Interactions(client.http, self._copies), client.user.id, client.application_id)

    async def receive(self, accept: Accept, since: Mapping[str, str], moved: Mapping[str, str] | None = None) -> None:
        login = self._opened()

        async def stored(received: Sequence[Update]) -> None:
            await accept(received)
            for update in received:
                self._note(update.chat, int(update.message_id))

        reception = Reception(
            login.client, login.user, stored, since, interactions=login.interactions, copies=self._copies
        )
        await reception.run()

    async def aclose(self) -> None:
        if self._login:
            await self._login.interactions.aclose()
        if self._client:
            await self._client.close()
        self._client = self._login = None

    # ---------------------------------------------------------------- messages

    async def send(self, chat: Chat, piece: Piece, *, key: str, reply_to: str | None = None) -> str:
        options: dict[str, Any] = {"content": pieces.content(piece)}
        if piece.buttons:
            options["view"] = pieces.view(piece.buttons)
        if reply_to:
            reference = {"message_id": reply_to, "channel_id": chat.id, "fail_if_not_exists": False}
            options["message_reference"] = reference
        async with named():
            return self._note(chat, await self._send(chat, key, options))

    async def send_file(self, chat: Chat, name: str, content: bytes, *, key: str, caption: str = "") -> str:
        options: dict[str, Any] = {"file": discord.File(io.BytesIO(content), filename=name)}
        if caption:
            options["content"] = discord_text(caption)
        async with named(_UPLOAD_SECONDS):
            return str(await self._send(chat, key, options))

    async def _send(self, chat: Chat, key: str, options: Mapping[str, Any]) -> int:
        """Send a message without previews of links: Discord would fetch an address that the model has written. Of the
        answer only the id is read, because what came after it may not fail once the message is there."""
        with handle_message_parameters(
            nonce=self._copies.nonce(key),
            flags=discord.MessageFlags(suppress_embeds=True),
            previous_allowed_mentions=_NO_MENTIONS,
            **options,
        ) as parameters:
            message = await self._opened().client.http.send_message(int(chat.id), params=parameters)
        return int(message["id"])

    def newest(self, chat: Chat) -> str | None:
        number = self._newest.get(chat.id)
        return str(number) if number else None

    async def find(
        self, chat: Chat, piece: Piece, *, key: str, after: str, known: Collection[str] = (), file: bool = False
    ) -> str | None:
        login = self._opened()
        channel = self._channel(chat)
        start, most = (discord.Object(int(after)), _MOST_SEARCHED) if after else (None, _NEWEST_SEARCHED)
        async with named():
            history = channel.history(limit=most, after=start)
            own = [message async for message in history if message.author.id == login.user]
        unknown = [message for message in own if str(message.id) not in known]
        found = pieces.choose(unknown, piece, nonce_of(key), file=file)
        if found is None:
            return None
        if not pieces.looks_like(found, piece):
            await self.edit(chat, str(found.id), piece)
        return str(found.id)

    async def edit(self, chat: Chat, message_id: str, piece: Piece) -> None:
        view = pieces.view(piece.buttons)
        with handle_message_parameters(
            pieces.content(piece), view=view, previous_allowed_mentions=_NO_MENTIONS
        ) as parameters:
            async with named():
                await self._opened().client.http.edit_message(int(chat.id), int(message_id), params=parameters)

    async def delete(self, chat: Chat, message_id: str) -> None:
        with suppress(MessageGone):
            async with named():
                await self._channel(chat).get_partial_message(int(message_id)).delete()

    def download(self, file: IncomingFile) -> AsyncGenerator[bytes]:
        return download(self._opened().client, file)

    async def show_typing(self, chat: Chat) -> None:
        async with named():
            await self._channel(chat).typing()

    async def acknowledge(self, interaction: str, text: str = "") -> None:
        """The press itself was acknowledged when it was stored."""
        login = self._opened()
        if text:
            await login.interactions.tell(login.application, interaction, text)

    # ---------------------------------------------------------------- parts

    def _opened(self) -> _Login:
        if self._login is None or self._login.client.is_closed():
            raise TemporarilyUnavailable("the bot is not logged in to Discord (any more): open it first", refused=True)
        return self._login

    def _note(self, chat: Chat, number: int) -> str:
        """Note a message that exists, and return its id."""
        self._newest[chat.id] = max(number, self._newest.get(chat.id, 0))
        return str(number)

    def _channel(self, chat: Chat) -> discord.PartialMessageable:
        return self._opened().client.get_partial_messageable(int(chat.id))


async def _register(client: Client, application: int, commands: Sequence[Command]) -> None:
    """Register the commands. A bot that may not do that understands them all the same, as texts."""
    try:
        await client.http.bulk_upsert_global_commands(application, slash_commands(commands))
    except discord.HTTPException as error:
        if isinstance(by_name(error), TokenRejected | TemporarilyUnavailable):
            raise
        _log.warning("The commands of the bot are not registered with Discord: %s", error)
