"""Texts: send, edit, delete, react, show that the bot is writing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ..api_error import bad_request
from ..model import ChatAction, Content, Message
from ..parameters import Parameters
from ..world import World
from .requests import (
    named_chat,
    named_message,
    read_buttons,
    read_caption,
    read_text,
    replied_message,
    topic_of,
    writable_chat,
)

_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
_ACTIONS = """
    typing upload_photo record_video upload_video record_voice upload_voice record_audio upload_audio
    upload_document choose_sticker find_location record_video_note upload_video_note cancel
"""
_REACTIONS = """
    ❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾
    💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾
    🤷\u200d♂ 🤷 🤷\u200d♀ 😡
"""


def send_message(world: World, parameters: Parameters) -> Any:
    content = read_text(world, parameters)
    buttons = read_buttons(parameters)
    chat = writable_chat(world, parameters)
    reply_to = replied_message(chat, parameters)
    topic = topic_of(chat, parameters)
    world.limiter.admit("sendMessage", chat)
    silent = parameters.flag("disable_notification")
    content = replace(content, buttons=buttons)
    return world.post(chat, world.bot, content, reply_to=reply_to, topic=topic, silent=silent).to_json()


def send_message_draft(world: World, parameters: Parameters) -> Any:
    content = read_text(world, parameters) if parameters.text("text") else Content()
    chat = writable_chat(world, parameters)
    if chat.kind != "private":
        raise bad_request("message drafts can be sent only in private chats")
    if not (draft := parameters.integer("draft_id")):
        raise bad_request("draft identifier must be non-zero")
    topic_of(chat, parameters)
    world.limiter.admit("sendMessageDraft", chat)
    chat.drafts[draft] = content
    return True


def edit_message_text(world: World, parameters: Parameters) -> Any:
    content = read_text(world, parameters)
    buttons = read_buttons(parameters)
    message = _editable(world, parameters)
    if message.file:
        raise bad_request("there is no text in the message to edit")
    return _edit(world, "editMessageText", message, replace(content, buttons=buttons))


def edit_message_caption(world: World, parameters: Parameters) -> Any:
    content = read_caption(world, parameters)
    buttons = read_buttons(parameters)
    message = _editable(world, parameters)
    if not message.file:
        raise bad_request("there is no caption in the message to edit")
    return _edit(world, "editMessageCaption", message, replace(content, buttons=buttons, file=message.file))


def edit_message_reply_markup(world: World, parameters: Parameters) -> Any:
    buttons = read_buttons(parameters)
    message = _editable(world, parameters)
    return _edit(world, "editMessageReplyMarkup", message, replace(message.content, buttons=buttons))


def _editable(world: World, parameters: Parameters) -> Message:
    message = named_message(writable_chat(world, parameters), parameters, "edit")
    if message.sender is not world.bot:
        raise bad_request("message can't be edited")
    return message


def _edit(world: World, method: str, message: Message, content: Content) -> Any:
    world.limiter.admit(method, message.chat)
    if content == message.content:
        raise bad_request(_NOT_MODIFIED)
    world.change(message, content)
    return message.to_json()


def delete_message(world: World, parameters: Parameters) -> Any:
    chat = writable_chat(world, parameters)
    message = named_message(chat, parameters, "delete")
    is_admin = chat.members.get(world.bot.id) in ("administrator", "creator")
    if message.sender is not world.bot and chat.kind != "private" and not is_admin:
        raise bad_request("message can't be deleted")
    world.delete([message])
    return True


def send_chat_action(world: World, parameters: Parameters) -> Any:
    chat = writable_chat(world, parameters)
    action = parameters.text("action").lower()
    if action not in _ACTIONS.split():
        raise bad_request("wrong parameter action in request")
    chat.actions.append(ChatAction(action, world.clock(), topic_of(chat, parameters)))
    return True


def set_message_reaction(world: World, parameters: Parameters) -> Any:
    reactions = parameters.json("reaction", "reaction types")
    message = named_message(named_chat(world, parameters), parameters, "react")
    if not isinstance(reactions if reactions is not None else [], list):
        raise bad_request("expected an Array of ReactionType")
    emojis = tuple(str(one.get("emoji", "")) for one in cast(list[dict[str, Any]], reactions or []))
    if len(emojis) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    if not set(emojis) <= set(_REACTIONS.split()):
        raise bad_request("REACTION_INVALID")
    message.reactions = emojis
    return True
