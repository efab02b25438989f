"""Entities as the JSON objects of the API, version 10."""

from __future__ import annotations

from datetime import UTC, datetime

from . import intents
from .entities import JSON, Account, Attachment, Bot, Channel, Guild, Message

PERMISSIONS = str((1 << 50) - 1)
"""Every member may do everything; `Channel.hidden` and `read_only` take it away from bots."""
_TYPES = {"dm": 1, "text": 0, "thread": 11}
_EPOCH = 1420070400.0


def time_of(snowflake: int) -> float:
    """Seconds since the epoch at which an id was made."""
    return (snowflake >> 22) / 1000 + _EPOCH


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def user(account: Account) -> JSON:
    return {
        "id": str(account.id),
        "username": account.name,
        "global_name": None if account.is_bot else account.name,
        "discriminator": "0000" if account.is_bot else "0",
        "avatar": None,
        "bot": account.is_bot,
        "public_flags": 0,
        "flags": 0,
    }


def member(account: Account, *, with_user: bool = True) -> JSON:
    body: JSON = {
        "roles": [],
        "nick": None,
        "avatar": None,
        "joined_at": timestamp(time_of(account.id)),
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": None,
    }
    return {"user": user(account), **body} if with_user else body


def application(bot: Bot) -> JSON:
    return {
        "id": str(bot.id),
        "name": bot.name,
        "icon": None,
        "description": "",
        "bot_public": True,
        "bot_require_code_grant": False,
        "flags": intents.application_flags(bot),
        "summary": "",
        "verify_key": "0" * 64,
        "team": None,
        "owner": user(bot),
        "bot": user(bot),
    }


def channel(each: Channel, viewer: Account) -> JSON:
    last = each.messages
    body: JSON = {"id": str(each.id), "type": _TYPES[each.kind], "flags": 0}
    body["last_message_id"] = str(last[-1].id) if last else None
    if each.kind == "dm":
        return body | {"recipients": [user(one) for one in each.recipients if one is not viewer]}
    body |= {
        "name": each.name,
        "guild_id": str(each.guild.id) if each.guild else None,
        "parent_id": str(each.parent.id) if each.parent else None,
        "rate_limit_per_user": 0,
    }
    if each.kind == "text":
        return body | {"position": 0, "permission_overwrites": [], "topic": None, "nsfw": False}
    return body | _thread(each)


def _thread(thread: Channel) -> JSON:
    begun = timestamp(time_of(thread.id))
    count = len(thread.messages)
    return {
        "owner_id": str(thread.owner.id if thread.owner else 0),
        "message_count": count,
        "total_message_sent": count,
        "member_count": 2,
        "thread_metadata": {
            "archived": thread.archived,
            "locked": thread.locked,
            "auto_archive_duration": 1440,
            "archive_timestamp": begun,
            "create_timestamp": begun,
        },
    }


def role(guild: Guild) -> JSON:
    """The role that everyone has."""
    return {
        "id": str(guild.id),
        "name": "@everyone",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 0,
        "permissions": PERMISSIONS,
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }


def guild(each: Guild, viewer: Account) -> JSON:
    open_channels = [one for one in each.channels if not one.deleted]
    return {
        "id": str(each.id),
        "name": each.name,
        "icon": None,
        "owner_id": str(each.owner.id),
        "roles": [role(each)],
        "emojis": [],
        "stickers": [],
        "features": [],
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": 0,
        "preferred_locale": "en-US",
        "afk_timeout": 300,
        "system_channel_flags": 0,
        "joined_at": timestamp(time_of(each.id)),
        "large": False,
        "unavailable": False,
        "member_count": len(each.members),
        "members": [member(one) for one in each.members.values()],
        "channels": [channel(one, viewer) for one in open_channels if one.kind == "text"],
        "threads": [channel(one, viewer) for one in open_channels if one.kind == "thread" and not one.archived],
        "voice_states": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def attachment(each: Attachment) -> JSON:
    body: JSON = {
        "id": str(each.id),
        "filename": each.name,
        "size": len(each.data),
        "url": each.url,
        "proxy_url": each.url,
        "content_type": each.content_type,
    }
    return body | ({"description": each.description} if each.description else {})


def message(each: Message, viewer: Bot, *, contents: bool, with_reply: bool = True) -> JSON:
    """A message as a bot sees it; without the intent of `contents` only if it is meant for the bot."""
    shown = contents or each.author is viewer or each.channel.kind == "dm" or viewer in each.mentions
    body: JSON = {
        "id": str(each.id),
        "channel_id": str(each.channel.id),
        "author": user(each.author),
        "content": each.content if shown else "",
        "timestamp": timestamp(each.created),
        "edited_timestamp": None if each.edited is None else timestamp(each.edited),
        "tts": False,
        "mention_everyone": each.mentions_everyone,
        "mentions": [user(one) for one in each.mentions],
        "mention_roles": [],
        "attachments": [attachment(one) for one in each.attachments] if shown else [],
        "embeds": list(each.embeds) if shown else [],
        "components": list(each.components) if shown else [],
        "pinned": False,
        "flags": each.flags,
        "type": 20 if each.interaction and not each.reply_to else 19 if each.reply_to else 0,
    }
    if each.reactions:
        body["reactions"] = [_reaction(emoji, accounts, viewer) for emoji, accounts in each.reactions.items()]
    if each.interaction or each.author.is_bot:
        body["application_id"] = str(each.author.id)
    if each.interaction:
        body["webhook_id"] = str(each.author.id)
    if each.thread is not None:
        body["thread"] = channel(each.thread, viewer)
    if each.reply_to is not None and with_reply:
        body |= _reply(each.reply_to, viewer, contents)
    return body


def _reply(original: Message, viewer: Bot, contents: bool) -> JSON:
    where: JSON = {"type": 0, "message_id": str(original.id), "channel_id": str(original.channel.id)}
    if original.channel.guild:
        where["guild_id"] = str(original.channel.guild.id)
    shown = None if original.deleted else message(original, viewer, contents=contents, with_reply=False)
    return {"message_reference": where, "referenced_message": shown}


def _reaction(emoji: str, accounts: list[Account], viewer: Account) -> JSON:
    return {
        "emoji": {"id": None, "name": emoji},
        "count": len(accounts),
        "count_details": {"burst": 0, "normal": len(accounts)},
        "me": viewer in accounts,
        "me_burst": False,
        "burst_colors": [],
    }


def message_event(each: Message, viewer: Bot, *, contents: bool) -> JSON:
    """The body of MESSAGE_CREATE and MESSAGE_UPDATE."""
    body = message(each, viewer, contents=contents) | {"channel_type": _TYPES[each.channel.kind]}
    if each.nonce is not None and each.author is viewer:
        body["nonce"] = each.nonce
    if each.channel.guild:
        body |= {"guild_id": str(each.channel.guild.id), "member": member(each.author, with_user=False)}
    return body
