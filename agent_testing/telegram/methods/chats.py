"""Questions about chats, and the commands that clients offer."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from ..api_error import bad_request
from ..parameters import Parameters
from ..world import World
from .requests import named_chat

_MOST_COMMANDS = 100
_MOST_DESCRIPTION = 256
_COMMAND = re.compile(r"/?[a-z0-9_]{1,32}")
_SCOPES = frozenset(
    (
        "default",
        "all_private_chats",
        "all_group_chats",
        "all_chat_administrators",
        "chat",
        "chat_administrators",
        "chat_member",
    )
)
_GIFTS = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")
_ADMINISTRATOR_RIGHTS = """
    can_be_edited can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members can_promote_members
    can_change_info can_invite_users can_post_stories can_edit_stories can_delete_stories
"""
_MEMBER_RIGHTS = """
    can_change_info can_invite_users can_pin_messages can_send_messages can_send_polls can_send_other_messages
    can_add_web_page_previews can_manage_topics can_send_audios can_send_documents can_send_photos can_send_videos
    can_send_video_notes can_send_voice_notes can_edit_tag can_react_to_messages
"""
DEFAULT_SCOPE = '{"type":"default"}'


def get_chat(world: World, parameters: Parameters) -> Any:
    fields: dict[str, Any] = {"accent_color_id": 0, "max_reaction_count": 11}
    return {**named_chat(world, parameters).to_json(), **fields, "accepted_gift_types": dict.fromkeys(_GIFTS, False)}


def get_chat_member(world: World, parameters: Parameters) -> Any:
    chat = named_chat(world, parameters)
    account = world.accounts.get(parameters.integer("user_id"))
    if account is None:
        raise bad_request("user not found")
    status = chat.members.get(account.id, "left")
    if chat.kind == "private":
        status = "member" if account.id in (chat.id, world.bot.id) else "left"
    member: dict[str, Any] = {"user": account.to_json(), "status": status}
    match status:
        case "creator":
            return {**member, "is_anonymous": False}
        case "administrator":
            return {**member, **dict.fromkeys(_ADMINISTRATOR_RIGHTS.split(), True), "is_anonymous": False}
        case "restricted":
            return {**member, **dict.fromkeys(_MEMBER_RIGHTS.split(), False), "is_member": True, "until_date": 0}
        case "kicked":
            return {**member, "until_date": 0}
        case _:
            return member


def set_my_commands(world: World, parameters: Parameters) -> Any:
    commands = parameters.json("commands", "commands")
    if not isinstance(commands, list):
        raise bad_request("expected an Array of BotCommand")
    if len(cast(list[Any], commands)) > _MOST_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    checked = [_command(command) for command in cast(list[Any], commands)]
    world.commands[_scope(world, parameters)] = checked
    return True


def delete_my_commands(world: World, parameters: Parameters) -> Any:
    world.commands.pop(_scope(world, parameters), None)
    return True


def get_my_commands(world: World, parameters: Parameters) -> Any:
    return world.commands.get(_scope(world, parameters), [])


def _command(command: Any) -> dict[str, str]:
    if not isinstance(command, dict):
        raise bad_request("can't parse BotCommand: expected an Object")
    fields = cast(dict[str, Any], command)
    name = fields.get("command")
    description = fields.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        raise bad_request('can\'t parse BotCommand: Can\'t find field "command" or "description"')
    if not _COMMAND.fullmatch(name):
        raise bad_request("BOT_COMMAND_INVALID")
    if not 1 <= len(description.strip()) <= _MOST_DESCRIPTION:
        raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    return {"command": name.removeprefix("/"), "description": description}


def _scope(world: World, parameters: Parameters) -> tuple[str, str]:
    scope = parameters.json("scope", "BotCommandScope")
    language = parameters.text("language_code")
    if language and not re.fullmatch("[a-z]{2}", language):
        raise bad_request("invalid language code specified")
    if scope is None:
        return DEFAULT_SCOPE, language
    if not isinstance(scope, dict) or cast(dict[str, Any], scope).get("type") not in _SCOPES:
        raise bad_request("can't parse BotCommandScope: Unsupported type specified")
    fields = cast(dict[str, Any], scope)
    if str(fields["type"]).startswith("chat"):
        named_chat(world, Parameters({"chat_id": str(fields.get("chat_id", ""))}))
    return json.dumps(fields, sort_keys=True, separators=(",", ":")), language
