"""Channels, threads, guilds and members over REST."""

from __future__ import annotations

from ..world import channels, errors, payloads
from ..world.bodies import ChannelChanges, RecipientBody, ThreadBody, parse
from ..world.entities import JSON, Channel
from .call import Answer, Call, Route

_CHANNEL = "/channels/{channel_id}"
_GUILD = "/guilds/{guild_id}"


def _shown(call: Call, channel: Channel) -> JSON:
    return payloads.channel(channel, call.bot)


def open_private_chat(call: Call) -> Answer:
    person = call.world.accounts.get(parse(RecipientBody, call.body).recipient_id)
    if person is None:
        raise errors.invalid_form(["recipient_id"], "USER_INVALID", "Unknown user")
    if person.is_bot:
        raise errors.cannot_message_user()
    return _shown(call, channels.private_chat(call.world, person, call.bot))


def read_channel(call: Call) -> Answer:
    return _shown(call, call.channel())


def change_channel(call: Call) -> Answer:
    channel = call.channel()
    changes = parse(ChannelChanges, call.body)
    if channel.kind == "dm":
        raise errors.Refused(400, 50003, "Cannot execute action on a DM channel")
    channel.name = changes.name or channel.name
    if channel.kind == "thread":
        channel.archived = channel.archived if changes.archived is None else changes.archived
        channel.locked = channel.locked if changes.locked is None else changes.locked
    channels.publish(call.world, "THREAD_UPDATE" if channel.kind == "thread" else "CHANNEL_UPDATE", channel)
    return _shown(call, channel)


def delete_channel(call: Call) -> Answer:
    channel = call.channel()
    shown = _shown(call, channel)
    if channel.kind != "dm":
        channels.delete_channel(call.world, channel)
    return shown


def start_thread(call: Call) -> Answer:
    return _start_thread(call, call.channel())


def start_thread_from_message(call: Call) -> Answer:
    message = call.message()
    if message.thread is not None:
        raise errors.Refused(400, 160004, "A thread has already been created for this message")
    return _start_thread(call, message.channel)


def _start_thread(call: Call, parent: Channel) -> Answer:
    body = parse(ThreadBody, call.body)
    if parent.kind != "text":
        raise errors.wrong_channel_type()
    if parent.read_only:
        raise errors.missing_permissions()
    starter = call.message() if "message_id" in call.parameters else None
    return _shown(call, channels.thread(call.world, parent, body.name, call.bot, starter))


def join_thread(call: Call) -> Answer:
    if call.channel().kind != "thread":
        raise errors.wrong_channel_type()
    return None


def read_guild(call: Call) -> Answer:
    shown = payloads.guild(call.world.guild(call.number("guild_id"), call.bot), call.bot)
    only_in_events = {"members", "channels", "threads", "voice_states", "presences", "unavailable", "joined_at"}
    return {name: value for name, value in shown.items() if name not in only_in_events}


def read_guilds(call: Call) -> Answer:
    guilds = [each for each in call.world.guilds.values() if call.bot.id in each.members]
    return [{"id": str(each.id), "name": each.name, "icon": None, "owner": False, "features": []} for each in guilds]


def read_guild_channels(call: Call) -> Answer:
    return list(payloads.guild(call.world.guild(call.number("guild_id"), call.bot), call.bot)["channels"])


def read_active_threads(call: Call) -> Answer:
    guild = call.world.guild(call.number("guild_id"), call.bot)
    return {"threads": payloads.guild(guild, call.bot)["threads"], "members": [], "has_more": False}


def read_roles(call: Call) -> Answer:
    return [payloads.role(call.world.guild(call.number("guild_id"), call.bot))]


def read_member(call: Call) -> Answer:
    member = call.world.guild(call.number("guild_id"), call.bot).members.get(call.number("user_id"))
    if member is None:
        raise errors.unknown_member()
    return payloads.member(member)


def read_members(call: Call) -> Answer:
    if not call.bot.members:
        raise errors.missing_access()
    guild = call.world.guild(call.number("guild_id"), call.bot)
    return [payloads.member(each) for each in list(guild.members.values())[: call.integer("limit", 1)]]


def leave_guild(call: Call) -> Answer:
    channels.kick(call.world, call.world.guild(call.number("guild_id"), call.bot), call.bot)
    return None


ROUTES = (
    Route("POST", "/users/@me/channels", open_private_chat),
    Route("GET", _CHANNEL, read_channel),
    Route("PATCH", _CHANNEL, change_channel),
    Route("DELETE", _CHANNEL, delete_channel),
    Route("POST", _CHANNEL + "/threads", start_thread, status=201),
    Route("POST", _CHANNEL + "/messages/{message_id}/threads", start_thread_from_message, status=201),
    Route("PUT", _CHANNEL + "/thread-members/@me", join_thread),
    Route("DELETE", _CHANNEL + "/thread-members/@me", join_thread),
    Route("GET", "/users/@me/guilds", read_guilds),
    Route("DELETE", "/users/@me/guilds/{guild_id}", leave_guild),
    Route("GET", _GUILD, read_guild),
    Route("GET", _GUILD + "/channels", read_guild_channels),
    Route("GET", _GUILD + "/threads/active", read_active_threads),
    Route("GET", _GUILD + "/roles", read_roles),
    Route("GET", _GUILD + "/members", read_members),
    Route("GET", _GUILD + "/members/{user_id}", read_member),
)
