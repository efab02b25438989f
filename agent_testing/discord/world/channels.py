"""Making and deleting channels, threads and guilds. Call these under the lock of the world."""

from __future__ import annotations

from . import intents, payloads
from .entities import JSON, Account, Bot, Channel, Guild, Message
from .state import World

_INTENTS = (intents.GUILDS, intents.GUILDS)


def private_chat(world: World, person: Account, bot: Bot) -> Channel:
    """The private chat of a person and a bot; there is one."""
    for channel in world.channels.values():
        if channel.kind == "dm" and set(channel.recipients) == {person, bot}:
            return channel
    return _add(world, Channel(world.new_id(), "dm", recipients=(person, bot)))


def text_channel(world: World, guild: Guild, name: str) -> Channel:
    channel = _add(world, Channel(world.new_id(), "text", name, guild))
    guild.channels.append(channel)
    publish(world, "CHANNEL_CREATE", channel)
    return channel


def thread(world: World, parent: Channel, name: str, owner: Account, starter: Message | None = None) -> Channel:
    """Open a thread; one that is started from a message has the id of the message."""
    number = starter.id if starter else world.new_id()
    channel = _add(world, Channel(number, "thread", name, parent.guild, parent, starter, owner))
    if parent.guild:
        parent.guild.channels.append(channel)
    if starter:
        starter.thread = channel
    world.publish(
        "THREAD_CREATE",
        lambda bot, _contents: payloads.channel(channel, bot) | {"newly_created": True},
        channel=channel,
        intent=_INTENTS,
    )
    return channel


def _add(world: World, channel: Channel) -> Channel:
    world.channels[channel.id] = channel
    world.changed()
    return channel


def delete_channel(world: World, channel: Channel) -> None:
    """Delete a channel with its threads."""
    publish(world, "THREAD_DELETE" if channel.kind == "thread" else "CHANNEL_DELETE", channel)
    channel.deleted = True
    world.changed()


def publish(world: World, name: str, channel: Channel) -> None:
    def payload(bot: Bot, _contents: bool) -> JSON:
        return payloads.channel(channel, bot)

    world.publish(name, payload, channel=channel, intent=_INTENTS)


def join(world: World, guild: Guild, account: Account) -> None:
    """Add a member; a bot is shown the guild."""
    guild.members[account.id] = account
    if isinstance(account, Bot):
        world.publish_to(account, "GUILD_CREATE", payloads.guild(guild, account), intents.GUILDS)
        return
    data = payloads.member(account) | {"guild_id": str(guild.id)}
    for bot in [each for each in guild.members.values() if isinstance(each, Bot)]:
        world.publish_to(bot, "GUILD_MEMBER_ADD", data, intents.GUILD_MEMBERS)


def kick(world: World, guild: Guild, account: Account) -> None:
    """Remove a member; a bot does not see the guild any more."""
    guild.members.pop(account.id, None)
    if isinstance(account, Bot):
        world.publish_to(account, "GUILD_DELETE", {"id": str(guild.id)}, intents.GUILDS)
        return
    data = {"user": payloads.user(account), "guild_id": str(guild.id)}
    for bot in [each for each in guild.members.values() if isinstance(each, Bot)]:
        world.publish_to(bot, "GUILD_MEMBER_REMOVE", data, intents.GUILD_MEMBERS)
