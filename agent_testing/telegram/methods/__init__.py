"""The methods of the Bot API, by their names in lower case: Telegram does not tell cases apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..parameters import Parameters
from ..world import World
from .buttons import answer_callback_query
from .chats import delete_my_commands, get_chat, get_chat_member, get_my_commands, set_my_commands
from .files import get_file, send_file
from .messages import (
    delete_message,
    edit_message_caption,
    edit_message_reply_markup,
    edit_message_text,
    send_chat_action,
    send_message,
    send_message_draft,
    set_message_reaction,
)
from .updates import delete_webhook, get_me, get_webhook_info, log_out, set_allowed_updates, set_webhook

Method = Callable[[World, Parameters], Any]

METHODS: Mapping[str, Method] = {
    "answercallbackquery": answer_callback_query,
    "close": log_out,
    "deletemessage": delete_message,
    "deletemycommands": delete_my_commands,
    "deletewebhook": delete_webhook,
    "editmessagecaption": edit_message_caption,
    "editmessagereplymarkup": edit_message_reply_markup,
    "editmessagetext": edit_message_text,
    "getchat": get_chat,
    "getchatmember": get_chat_member,
    "getfile": get_file,
    "getme": get_me,
    "getmycommands": get_my_commands,
    "getwebhookinfo": get_webhook_info,
    "logout": log_out,
    "sendchataction": send_chat_action,
    "senddocument": send_file("document"),
    "sendmessage": send_message,
    "sendmessagedraft": send_message_draft,
    "sendphoto": send_file("photo"),
    "sendvoice": send_file("voice"),
    "setmessagereaction": set_message_reaction,
    "setmycommands": set_my_commands,
    "setwebhook": set_webhook,
}

__all__ = ["METHODS", "Method", "set_allowed_updates"]
