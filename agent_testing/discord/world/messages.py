"""Writing, changing and deleting messages. Call these under the lock of the world."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from . import errors, intents, payloads
from .bodies import AllowedMentions, MessageBody
from .entities import (
    EPHEMERAL,
    JSON,
    LOADING,
    SUPPRESS_EMBEDS,
    SUPPRESS_NOTIFICATIONS,
    Account,
    Attachment,
    Bot,
    Channel,
    Message,
    Upload,
    Version,
)
from .mentions import Mentions, mentions_of
from .state import World

NONCE_SECONDS = 300.0
_MOST_FILES = 10
_INTENTS = (intents.GUILD_MESSAGES, intents.DIRECT_MESSAGES)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is to be written."""

    text: str = ""
    uploads: Sequence[Upload] = ()
    components: Sequence[JSON] = ()
    embeds: Sequence[JSON] = ()
    flags: int = 0
    reply_to: Message | None = None
    nonce: str | int | None = None
    allowed: AllowedMentions | None = None
    only_for: Account | None = None
    interaction: int | None = None

    @property
    def empty(self) -> bool:
        return not (self.text or self.uploads or self.components or self.embeds or self.flags & LOADING)


def write(world: World, channel: Channel, author: Account, draft: Draft) -> Message:
    """Add a message to a channel, and tell the gateway unless one person only sees it."""
    if draft.empty:
        raise errors.empty_message()
    found = mentions_of(world, channel, author, draft.text, draft.reply_to, draft.allowed)
    if draft.only_for is not None or draft.flags & SUPPRESS_NOTIFICATIONS:
        found = replace(found, notified=())
    message = _new_message(world, channel, author, draft, found)
    world.messages[message.id] = message
    channel.log.append(message)
    channel.archived = False
    if draft.only_for is None:
        _publish(world, "MESSAGE_CREATE", message)
    world.changed()
    return message


def _new_message(world: World, channel: Channel, author: Account, draft: Draft, found: Mentions) -> Message:
    return Message(
        world.new_id(),
        channel,
        author,
        draft.text,
        time.time(),
        components=draft.components,
        embeds=draft.embeds,
        attachments=[keep(world, channel, upload) for upload in draft.uploads],
        flags=draft.flags,
        reply_to=draft.reply_to,
        mentions=found.shown,
        notified=found.notified,
        mentions_everyone=found.everyone,
        nonce=draft.nonce,
        only_for=draft.only_for,
        interaction=draft.interaction,
    )


def keep(world: World, channel: Channel, upload: Upload) -> Attachment:
    """Store a file; its address is on the double."""
    number = world.new_id()
    url = f"{world.base_url}/attachments/{channel.id}/{number}/{quote(upload.name)}"
    kept = Attachment(number, upload.name, upload.data, upload.content_type, url, upload.description)
    world.attachments[number] = kept
    return kept


def post(world: World, bot: Bot, channel: Channel, body: MessageBody, uploads: Sequence[Upload]) -> Message:
    """Write a message for a bot, as `POST /channels/ID/messages` does. Raises Refused."""
    refuse_unwritable(world, channel)
    if body.enforce_nonce and body.nonce is not None and (existing := _with_nonce(channel, bot, body.nonce)):
        return existing
    draft = draft_of(body, uploads)
    flags = draft.flags & ~EPHEMERAL  # for answers to interactions only
    reply_to = _reply_to(world, channel, body)
    return write(world, channel, bot, replace(draft, flags=flags, reply_to=reply_to, nonce=body.nonce))


def draft_of(body: MessageBody, uploads: Sequence[Upload]) -> Draft:
    """The draft of what a bot sent, with what it says about its files."""
    if len(uploads) > _MOST_FILES:
        raise errors.Refused(400, 30015, "Maximum number of attachments in a message reached (10)")
    described = {each.id: each for each in body.attachments or ()}
    named = [
        replace(upload, name=about.filename or upload.name, description=about.description)
        if (about := described.get(number))
        else upload
        for number, upload in enumerate(uploads)
    ]
    flags = (body.flags or 0) & (EPHEMERAL | SUPPRESS_EMBEDS | SUPPRESS_NOTIFICATIONS)
    return Draft(body.text, named, body.rows, body.embed_objects, flags, allowed=body.allowed_mentions)


def refuse_unwritable(world: World, channel: Channel) -> None:
    """Raises Refused if bots cannot write there."""
    if any(each.id in world.closed_to_bots for each in channel.recipients):
        raise errors.cannot_message_user()
    if channel.read_only:
        raise errors.missing_permissions()
    if channel.locked:
        raise errors.archived_thread()


def _with_nonce(channel: Channel, author: Account, nonce: str | int) -> Message | None:
    since = time.time() - NONCE_SECONDS
    newest = (each for each in reversed(channel.log) if each.author is author and each.created > since)
    return next((each for each in newest if str(each.nonce) == str(nonce)), None)


def _reply_to(world: World, channel: Channel, body: MessageBody) -> Message | None:
    reference = body.message_reference
    if reference is None:
        return None
    found = world.messages.get(reference.message_id)
    if found is not None and not found.deleted and found.channel is channel and found.only_for is None:
        return found
    if reference.fail_if_not_exists:
        raise errors.invalid_form(["message_reference"], "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")
    return None


def edit(world: World, message: Message, body: MessageBody, uploads: Sequence[Upload] = ()) -> Message:
    """Change what is present in the body. Raises Refused if nothing would be left."""
    given = body.model_fields_set
    content = body.text if "content" in given else message.content
    components = body.rows if "components" in given else message.components
    embeds = body.embed_objects if "embeds" in given else message.embeds
    kept = {each.id for each in body.attachments or ()} if "attachments" in given else None
    attachments = [each for each in message.attachments if kept is None or each.id in kept]
    if not (content or components or embeds or attachments or uploads):
        raise errors.empty_message()
    message.history.append(Version(message.content, message.components, time.monotonic()))
    message.content = content
    message.components = components
    message.embeds = embeds
    message.attachments = [
        *attachments,
        *(keep(world, message.channel, each) for each in draft_of(body, uploads).uploads),
    ]
    message.flags &= ~LOADING
    if "flags" in given:
        message.flags = message.flags & ~SUPPRESS_EMBEDS | (body.flags or 0) & SUPPRESS_EMBEDS
    message.edited = time.time()
    message.mentions = mentions_of(world, message.channel, message.author, content, message.reply_to, None).shown
    if message.only_for is None:
        _publish(world, "MESSAGE_UPDATE", message)
    world.changed()
    return message


def delete(world: World, message: Message) -> None:
    message.deleted = True
    data = {"id": str(message.id), "channel_id": str(message.channel.id)}
    guild = message.channel.guild
    data |= {"guild_id": str(guild.id)} if guild else {}
    if message.only_for is None:
        world.publish("MESSAGE_DELETE", lambda _bot, _contents: data, channel=message.channel, intent=_INTENTS)
    world.changed()


def _publish(world: World, name: str, message: Message) -> None:
    def payload(bot: Bot, contents: bool) -> JSON:
        return payloads.message_event(message, bot, contents=contents)

    world.publish(name, payload, channel=message.channel, intent=_INTENTS)


def react(world: World, message: Message, account: Account, emoji: str, *, add: bool) -> None:
    """Add or remove a reaction."""
    accounts = message.reactions.setdefault(emoji, [])
    if add == (account in accounts):
        return
    if add:
        accounts.append(account)
    else:
        accounts.remove(account)
    message.reactions = {name: those for name, those in message.reactions.items() if those}
    data: JSON = {
        "user_id": str(account.id),
        "channel_id": str(message.channel.id),
        "message_id": str(message.id),
        "emoji": {"id": None, "name": emoji},
        "burst": False,
        "type": 0,
        "message_author_id": str(message.author.id),
    }
    if message.channel.guild:
        data |= {"guild_id": str(message.channel.guild.id)} | ({"member": payloads.member(account)} if add else {})
    intent = (intents.GUILD_MESSAGE_REACTIONS, intents.DIRECT_MESSAGE_REACTIONS)
    name = "MESSAGE_REACTION_ADD" if add else "MESSAGE_REACTION_REMOVE"
    world.publish(name, lambda _bot, _contents: data, channel=message.channel, intent=intent)


def begin_typing(world: World, channel: Channel, account: Account) -> None:
    channel.typing.append(account)
    data: JSON = {"channel_id": str(channel.id), "user_id": str(account.id), "timestamp": int(time.time())}
    if channel.guild:
        data |= {"guild_id": str(channel.guild.id), "member": payloads.member(account)}
    intent = (intents.GUILD_MESSAGE_TYPING, intents.DIRECT_MESSAGE_TYPING)
    world.publish("TYPING_START", lambda _bot, _contents: data, channel=channel, intent=intent)
