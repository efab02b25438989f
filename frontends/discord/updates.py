"""What people do on Discord, as updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import discord

from ..platform import Chat, IncomingFile, Quote, Sender, Update
from .words import own_roles, text_of

QUOTE_CHARACTERS = 1000
_WRITTEN = {discord.MessageType.default, discord.MessageType.reply}
"""Other types are notes of Discord itself: a pin, a new member."""


def of_message(message: discord.Message, me: int) -> Update | None:
    """Return a message as an update; None for one that no person wrote."""
    if message.author.bot or message.webhook_id is not None or message.type not in _WRITTEN:
        return None
    chat = _chat(message.channel)
    return Update(
        id=str(message.id),
        kind="message",
        chat=chat,
        sender=_sender(message.author),
        message_id=str(message.id),
        order=message.id,
        text=text_of(message, me),
        addressed=chat.private or _addressed(message, me),
        reply_to=_reply_to(message),
        quote=_quote(message, me),
        forwarded_from="an unknown sender" if message.message_snapshots and not message.content else None,
        files=tuple(_files(message)),
    )


def of_edit(message: discord.Message, me: int) -> Update | None:
    """Return an edited message as an update; None if its text has never been changed: Discord reports a preview of a
    link that it added as well."""
    written = of_message(message, me)
    if written is None or message.edited_at is None:
        return None
    at = discord.utils.time_snowflake(message.edited_at, high=True)
    return replace(written, id=f"{written.id}-{at}", kind="edit", order=at)


def of_interaction(interaction: discord.Interaction) -> Update | None:
    """Return the press of a button, or a slash command; None for anything else."""
    channel = interaction.channel
    data = cast("Mapping[str, Any]", interaction.data or {})
    if channel is None or interaction.user.bot:
        return None
    update = Update(
        id=str(interaction.id),
        kind="message",
        chat=Chat(id=str(channel.id), private=interaction.guild_id is None, title=_title(channel)),
        sender=_sender(interaction.user),
        message_id=str(interaction.id),
        order=interaction.id,
    )
    if interaction.type is discord.InteractionType.application_command:
        return replace(update, text=command_text(data))
    if interaction.type is discord.InteractionType.component and interaction.message:
        press = str(data.get("custom_id", ""))
        message = str(interaction.message.id)
        return replace(update, kind="button", message_id=message, text=press, interaction=interaction.token)
    return None


def command_text(data: Mapping[str, Any]) -> str:
    """Return a slash command as somebody would type it."""
    values = [str(option.get("value", "")) for option in data.get("options") or ()]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()


def _chat(channel: object) -> Chat:
    number = cast("discord.abc.Snowflake", channel).id
    return Chat(id=str(number), private=isinstance(channel, discord.DMChannel), title=_title(channel))


def _title(channel: object) -> str:
    return "" if isinstance(channel, discord.DMChannel) else str(getattr(channel, "name", None) or "")


def _sender(user: discord.abc.User) -> Sender:
    return Sender(id=str(user.id), name=user.display_name)


def _addressed(message: discord.Message, me: int) -> bool:
    replied = message.reference.resolved if message.reference else None
    return (
        any(each.id == me for each in message.mentions)
        or bool(own_roles(message, me))
        or (isinstance(replied, discord.Message) and replied.author.id == me)
    )


def _reply_to(message: discord.Message) -> str | None:
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    return str(message.reference.message_id) if message.reference.message_id else None


def _quote(message: discord.Message, me: int) -> Quote | None:
    """Return what a message replies to, if it is still there."""
    replied = message.reference.resolved if message.reference and _reply_to(message) else None
    if not isinstance(replied, discord.Message):
        return None
    text = text_of(replied, me) or "\n".join(f"[a file: {file.filename}]" for file in attachments(replied))
    return Quote(text[:QUOTE_CHARACTERS], _sender(replied.author), replied.author.id == me) if text else None


def attachments(message: discord.Message) -> list[discord.Attachment]:
    """Return the files of a message, and of the one that it forwards."""
    forwarded = [each for snapshot in message.message_snapshots for each in snapshot.attachments]
    return [*message.attachments, *forwarded]


def _files(message: discord.Message) -> list[IncomingFile]:
    """A file's address expires in a day, so the reference names the message that has it, too."""
    return [
        IncomingFile(
            reference=f"{message.channel.id}/{message.id}/{file.id} {file.url}",
            name=file.filename,
            media_type=(file.content_type or "application/octet-stream").partition(";")[0],
            size=file.size,
        )
        for file in attachments(message)
    ]
