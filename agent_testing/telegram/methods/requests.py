"""What many calls have in common: the chat, the text, the buttons, the message replied to."""

from __future__ import annotations

from typing import Any, cast

from ..api_error import ApiError, bad_request, forbidden
from ..formatting import formatted_text, length
from ..formatting.entities import read_entities
from ..model import Account, Button, Buttons, Chat, Content, Message
from ..parameters import Parameters
from ..world import World

MOST_TEXT = 4096
MOST_CAPTION = 1024
_MOST_DATA_BYTES = 64
_MOST_BUTTONS = 100
_MOST_BUTTONS_IN_ROW = 8
_ADDRESSES = ("http://", "https://", "tg://")

# ---------------------------------------------------------------- chats


def named_chat(world: World, parameters: Parameters) -> Chat:
    """Return the chat of `chat_id`. Raises ApiError."""
    name = parameters.text("chat_id")
    if not name:
        raise bad_request("chat_id is empty")
    if name.startswith("@"):
        chats = (chat for chat in world.chats.values() if chat.username and chat.kind != "private")
        found = next((chat for chat in chats if f"@{chat.username}".lower() == name.lower()), None)
    else:
        found = world.chats.get(parameters.integer("chat_id"))
    if found is None:
        raise bad_request("chat not found")
    return found


def writable_chat(world: World, parameters: Parameters) -> Chat:
    """Return the chat of `chat_id`, if the bot may write to it. Raises ApiError."""
    chat = named_chat(world, parameters)
    if chat.kind == "private":
        _check_person(world.accounts[chat.id])
    else:
        _check_group(chat, world.bot)
    return chat


def _check_person(person: Account) -> None:
    if person.deactivated:
        raise forbidden("user is deactivated")
    if person.has_blocked_bot:
        raise forbidden("bot was blocked by the user")
    if person.is_bot:
        raise forbidden("bots can't send messages to bots")
    if not person.started:
        raise forbidden("bot can't initiate conversation with a user")


def _check_group(chat: Chat, bot: Account) -> None:
    if chat.migrated_to is not None:
        reason = "Bad Request: group chat was upgraded to a supergroup chat"
        raise ApiError(400, reason, migrate_to_chat_id=chat.migrated_to)
    if chat.deleted:
        raise forbidden("the group chat was deleted") if chat.kind == "group" else bad_request("chat not found")
    name = f"{chat.kind} chat"
    match chat.members.get(bot.id, "left"):
        case "kicked":
            raise forbidden(f"bot was kicked from the {name}")
        case "left":
            raise forbidden(f"bot is not a member of the {name}")
        case "restricted":
            raise bad_request("not enough rights to send text messages to the chat")
        case _:
            pass


def topic_of(chat: Chat, parameters: Parameters) -> int | None:
    """Return the topic of `message_thread_id`. Raises ApiError."""
    topic = parameters.integer("message_thread_id")
    if not topic:
        return None
    if topic not in (chat.topics or {}):
        raise bad_request("message thread not found")
    return topic


# ---------------------------------------------------------------- messages


def named_message(chat: Chat, parameters: Parameters, purpose: str) -> Message:
    """Return the message of `message_id`. Raises ApiError that says that the message to `purpose` was not found."""
    if not parameters.text("message_id"):
        raise bad_request("message identifier is not specified")
    message = chat.find(parameters.integer("message_id"))
    if message is None:
        raise bad_request(f"message to {purpose} not found")
    return message


def replied_message(chat: Chat, parameters: Parameters) -> Message | None:
    """Return the message of `reply_parameters` or of the older `reply_to_message_id`. Raises ApiError."""
    reply = parameters.json("reply_parameters", "reply parameters")
    if reply is None:
        reply = {"message_id": parameters.integer("reply_to_message_id")}
        reply["allow_sending_without_reply"] = parameters.flag("allow_sending_without_reply")
    if not isinstance(reply, dict):
        raise bad_request("object expected as reply parameters")
    fields = cast(dict[str, Any], reply)
    if not (number := fields.get("message_id")):
        return None
    found = chat.find(int(number)) if str(number).isdecimal() else None
    if found is None and not fields.get("allow_sending_without_reply"):
        raise bad_request("message to be replied not found")
    return found


def read_text(world: World, parameters: Parameters) -> Content:
    """Return the text of a message. Raises ApiError."""
    if not parameters.text("text"):
        raise bad_request("message text is empty")
    content = _formatted(world, parameters, "text", "entities")
    if not content.text:
        raise bad_request("text must be non-empty")
    if length(content.text) > MOST_TEXT:
        raise bad_request("message is too long")
    return content


def read_caption(world: World, parameters: Parameters) -> Content:
    """Return the caption of a file. Raises ApiError."""
    content = _formatted(world, parameters, "caption", "caption_entities")
    if length(content.text) > MOST_CAPTION:
        raise bad_request("message caption is too long")
    return content


def _formatted(world: World, parameters: Parameters, text: str, entities: str) -> Content:
    decoded = parameters.json(entities, "entities")
    mode = parameters.text("parse_mode")
    sent = [] if decoded is None or mode else read_entities(decoded, world.accounts)
    return formatted_text(parameters.text(text), mode, sent, world.accounts)


# ---------------------------------------------------------------- buttons


def read_buttons(parameters: Parameters) -> Buttons:
    """Return the inline keyboard of `reply_markup`. Raises ApiError."""
    markup = parameters.json("reply_markup", "reply keyboard markup")
    if markup is None:
        return ()
    if not isinstance(markup, dict):
        raise bad_request("object expected as reply markup")
    rows = cast(dict[str, Any], markup).get("inline_keyboard", [])
    if not isinstance(rows, list):
        raise bad_request('field "inline_keyboard" must be of type Array')
    buttons = [_row(row) for row in cast(list[Any], rows)]
    if sum(map(len, buttons)) > _MOST_BUTTONS or any(len(row) > _MOST_BUTTONS_IN_ROW for row in buttons):
        raise bad_request("reply markup is too long")
    return tuple(row for row in buttons if row)


def _row(row: Any) -> tuple[Button, ...]:
    if not isinstance(row, list):
        raise bad_request('field "inline_keyboard" must be an Array of Arrays')
    return tuple(_button(button) for button in cast(list[Any], row))


def _button(button: Any) -> Button:
    broken = "can't parse inline keyboard button"
    if not isinstance(button, dict):
        raise bad_request(f"{broken}: InlineKeyboardButton must be an Object")
    fields = cast(dict[str, Any], button)
    text, data, url = (fields.get(name) for name in ("text", "callback_data", "url"))
    if text is None:
        raise bad_request(f'{broken}: Can\'t find field "text"')
    for name, value in (("text", text), ("callback_data", data), ("url", url)):
        if value is not None and not isinstance(value, str):
            raise bad_request(f'{broken}: Field "{name}" must be of type String')
    if not text.strip():
        raise bad_request("inline keyboard button text must be non-empty")
    if data is None and url is None:
        raise bad_request(f"{broken}: Text buttons are unallowed in the inline keyboard")
    if data is not None and not 1 <= len(data.encode()) <= _MOST_DATA_BYTES:
        raise bad_request("BUTTON_DATA_INVALID")
    if url is not None and not url.startswith(_ADDRESSES):
        raise bad_request(f"inline keyboard button URL '{url}' is invalid: Wrong HTTP URL")
    return Button(text, data, url)
