"""What a message of Discord says, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import discord

EMBED_CHARACTERS = 6000
"""Of all embeds of a message; Discord has the same limit."""
_EMOJI = re.compile(r"<a?:(\w+):\d+>")


def text_of(message: discord.Message, me: int) -> str:
    """Return the text without the mention of the bot, and with names in place of numbers. Of a message that is
    forwarded without a comment it is the text of that one."""
    sources = [message] if message.content or not message.message_snapshots else message.message_snapshots
    text = "\n".join(filter(None, map(_shown_text, sources)))
    for person in message.mentions:
        name = "" if person.id == me else f"@{person.display_name}"
        text = re.sub(rf"<@!?{person.id}>", lambda _, name=name: name, text)
    own = own_roles(message, me)
    for role in message.role_mentions:
        text = text.replace(role.mention, "" if role in own else f"@{role.name}")
    for channel in message.channel_mentions:
        text = text.replace(channel.mention, f"#{channel.name}")
    return _EMOJI.sub(r":\1:", text).strip()


def own_roles(message: discord.Message, me: int) -> list[discord.Role]:
    """Return the role that Discord gave to the bot. It has the bot's name, so that people pick it from the list
    instead."""
    return [role for role in message.role_mentions if role.tags is not None and role.tags.bot_id == me]


def _shown_text(shown: discord.Message | discord.MessageSnapshot) -> str:
    """Return the text, with what a program shows beside it. A text of a person is all that they have said: Discord adds
    previews of the links in it."""
    if shown.content and isinstance(shown, discord.Message) and not (shown.author.bot or shown.webhook_id):
        return shown.content
    embeds = [embed for embed in shown.embeds if embed.type == "rich" or not shown.content]
    beside = "\n".join(line for embed in embeds for line in _lines(embed))[:EMBED_CHARACTERS]
    stickers = (f"[a sticker: {sticker.name}]" for sticker in shown.stickers)
    return "\n".join(filter(None, (shown.content, beside, *stickers)))


def _lines(embed: discord.Embed) -> Iterator[str]:
    yield from filter(None, (embed.title, embed.url, embed.description))
    yield from (f"{field.name}: {field.value}" for field in embed.fields)
