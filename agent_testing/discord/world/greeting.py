"""What the gateway sends a new session, and the members that a bot asks for. Call these under the lock of the world."""

from __future__ import annotations

from . import intents, payloads
from .entities import JSON
from .sessions import Session
from .state import World


def greet(world: World, session: Session) -> None:
    """READY, and then the guilds that the bot is in."""
    bot = session.bot
    guilds = [each for each in world.guilds.values() if bot.id in each.members]
    ready: JSON = {
        "v": 10,
        "user": payloads.user(bot) | {"verified": True, "email": None, "mfa_enabled": True},
        "guilds": [{"id": str(each.id), "unavailable": True} for each in guilds],
        "session_id": session.id,
        "session_type": "normal",
        "resume_gateway_url": world.gateway_url,
        "shard": [0, 1],
        "application": {"id": str(bot.id), "flags": intents.application_flags(bot)},
        "private_channels": [],
        "relationships": [],
        "presences": [],
    }
    session.dispatch("READY", ready)
    if session.intents & intents.GUILDS:
        for guild in guilds:
            session.dispatch("GUILD_CREATE", payloads.guild(guild, bot))


def send_members(world: World, session: Session, guild_id: int, wanted: set[int], nonce: object) -> None:
    """The wanted members of a guild, or all, in one chunk; nothing if the bot is not in it."""
    guild = world.guilds.get(guild_id)
    if guild is None or session.bot.id not in guild.members:
        return
    members = [each for each in guild.members.values() if not wanted or each.id in wanted]
    chunk: JSON = {
        "guild_id": str(guild.id),
        "members": [payloads.member(each) for each in members],
        "chunk_index": 0,
        "chunk_count": 1,
    }
    session.dispatch("GUILD_MEMBERS_CHUNK", chunk | ({"nonce": nonce} if nonce else {}))
