"""Buttons, menus and commands: what people do, and how a bot answers. Call these under the lock of the world."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from . import errors, payloads
from .bodies import CallbackBody, MessageBody, parse_message
from .entities import (
    EPHEMERAL,
    JSON,
    LOADING,
    Account,
    AnswerKind,
    Bot,
    Channel,
    Interaction,
    InteractionKind,
    Message,
    Upload,
)
from .messages import delete, draft_of, edit, write
from .state import World

TOKEN_SECONDS = 15 * 60.0
_TYPES = {"command": 2, "button": 3, "select": 3}
_ANSWERS: dict[int, AnswerKind] = {
    4: "message",
    5: "deferred-message",
    6: "deferred-update",
    7: "update",
    8: "autocomplete",
    9: "modal",
}


def begin(
    world: World,
    kind: InteractionKind,
    user: Account,
    bot: Bot,
    channel: Channel,
    data: JSON,
    *,
    message: Message | None = None,
) -> Interaction:
    """Tell the sessions of the bot that a person did something."""
    number = world.new_id()
    token = world.new_token()
    interaction = Interaction(number, token, kind, user, bot, channel, data, time.monotonic(), message)
    world.interactions[token] = interaction
    world.publish_to(bot, "INTERACTION_CREATE", _payload(interaction))
    return interaction


def _payload(interaction: Interaction) -> JSON:
    channel = interaction.channel
    bot = interaction.bot
    user = interaction.user
    body: JSON = {
        "id": str(interaction.id),
        "application_id": str(bot.id),
        "type": _TYPES[interaction.kind],
        "token": interaction.token,
        "version": 1,
        "data": interaction.data,
        "channel_id": str(channel.id),
        "channel": payloads.channel(channel, bot) | {"permissions": payloads.PERMISSIONS},
        "locale": "en-US",
        "app_permissions": payloads.PERMISSIONS,
        "entitlements": [],
        "authorizing_integration_owners": {"0": str(channel.guild.id if channel.guild else 0)},
        "context": 0 if channel.guild else 1,
        "attachment_size_limit": 10 << 20,
    }
    if channel.guild:
        guild: JSON = {"id": str(channel.guild.id), "locale": "en-US", "features": []}
        member = payloads.member(user) | {"permissions": payloads.PERMISSIONS}
        body |= {"guild_id": str(channel.guild.id), "guild": guild, "guild_locale": "en-US", "member": member}
    else:
        body["user"] = payloads.user(user)
    if interaction.message:
        body["message"] = payloads.message(interaction.message, bot, contents=True)
    return body


def answer(
    world: World, number: int, token: str, body: CallbackBody, uploads: Sequence[Upload], seconds: float
) -> Interaction:
    """The first answer of the bot, within `seconds`. Raises Refused."""
    interaction = world.interactions.get(token)
    if interaction is None or interaction.id != number:
        raise errors.unknown_interaction()
    if interaction.answer is not None:
        raise errors.already_acknowledged()
    if time.monotonic() - interaction.created > seconds:
        raise errors.unknown_interaction()
    kind = _ANSWERS.get(body.type)
    if kind is None or (kind in {"update", "deferred-update"} and interaction.message is None):
        raise errors.invalid_form(["type"], "BASE_TYPE_CHOICES", f"Value must not be {body.type} for this interaction.")
    _apply(world, interaction, kind, body, uploads)
    interaction.answer = kind
    world.changed()
    return interaction


def _apply(
    world: World, interaction: Interaction, kind: AnswerKind, body: CallbackBody, uploads: Sequence[Upload]
) -> None:
    if kind in {"autocomplete", "modal"}:
        interaction.modal = body.data
        return
    content = parse_message(body.data or {})
    if kind == "message":
        interaction.original = _write(world, interaction, content, uploads)
    elif kind == "deferred-message":
        interaction.original = _write(world, interaction, content, uploads, loading=True)
    else:
        interaction.original = interaction.message
        if kind == "update" and interaction.message and (content.model_fields_set or uploads):
            edit(world, interaction.message, content, uploads)


def _write(
    world: World, interaction: Interaction, body: MessageBody, uploads: Sequence[Upload], *, loading: bool = False
) -> Message:
    draft = draft_of(body, uploads)
    only_for = interaction.user if draft.flags & EPHEMERAL else None
    flags = draft.flags | (LOADING if loading else 0)
    draft = replace(draft, flags=flags, only_for=only_for, interaction=interaction.id)
    return write(world, interaction.channel, interaction.bot, draft)


def find(world: World, application: int, token: str) -> Interaction:
    """The answered interaction of a webhook's address. Raises Refused."""
    interaction = world.interactions.get(token)
    if interaction is None or interaction.bot.id != application:
        raise errors.unknown_webhook()
    if time.monotonic() - interaction.created > TOKEN_SECONDS:
        raise errors.invalid_webhook_token()
    if interaction.answer is None:
        raise errors.unknown_webhook()
    return interaction


def message_of(interaction: Interaction, name: str) -> Message:
    """`@original` or the id of a followup. Raises Refused."""
    known = [interaction.original, *interaction.followups]
    for message in known:
        is_named = message is not None and (name == str(message.id) or (name == "@original" and message is known[0]))
        if message is not None and is_named and not message.deleted:
            return message
    raise errors.unknown_message()


def follow_up(world: World, interaction: Interaction, body: MessageBody, uploads: Sequence[Upload]) -> Message:
    """A further message; after a deferred answer the first one is that answer."""
    original = interaction.original
    if original is not None and original.loading:
        return edit(world, original, body, uploads)
    message = _write(world, interaction, body, uploads)
    interaction.followups.append(message)
    return message


def remove(world: World, interaction: Interaction, name: str) -> None:
    delete(world, message_of(interaction, name))
