"""Updates of the Bot API, as updates of the port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter
from telegram import CallbackQuery, Message, User
from telegram import Chat as TelegramChat
from telegram import Update as TelegramUpdate

from agent_common.telemetry import logger

from ...platform import Chat, Quote, Sender, Update, UpdateKind
from .contents import attached_files, author_of, text_of
from .mentions import Mentions, utf8_text

log = logger(__name__)

WANTED = ("message", "edited_message", "callback_query")
QUOTE_CHARACTERS = 1000
_HIGHEST = 2**63 - 1
"""Numbers of Telegram fit into 64 bits, as those of the database do."""


def read_updates(batch: Sequence[Mapping[str, Any]], me: User) -> Iterator[Update]:
    """Yield the updates in the order in which they were made. One that cannot be read is logged and left out."""
    for raw in sorted(batch, key=update_id):
        try:
            update = read_update(raw, me)
        except Exception as error:  # noqa: BLE001  a parser may raise anything on what it does not expect
            log.warning("update of Telegram cannot be read", update_id=update_id(raw), error=type(error).__name__)
        else:
            if update is not None:
                yield update


def album_of(raw: Mapping[str, Any]) -> str | None:
    """Return the album of which a message is a part."""
    message = raw.get("message")
    album = cast("Mapping[str, Any]", message).get("media_group_id") if isinstance(message, Mapping) else None
    return album if isinstance(album, str) else None


def update_id(raw: Mapping[str, Any]) -> int:
    """Return the number of an update, -1 if it has none."""
    number = raw.get("update_id")
    return number if isinstance(number, int) else -1


def read_update(raw: Mapping[str, Any], me: User) -> Update | None:
    """Return the update; None if it has no message or press that a bot may answer. The library checks no types, so this
    checks that the update can be stored and read again."""
    found = _read(raw, me)
    return None if found is None else _adapter().validate_python(asdict(found))


@cache
def _adapter() -> TypeAdapter[Update]:
    return TypeAdapter(Update)


def _read(raw: Mapping[str, Any], me: User) -> Update | None:
    update = TelegramUpdate.de_json({name: raw[name] for name in ("update_id", *WANTED) if name in raw}, None)
    if update.callback_query:
        return _press(update.update_id, update.callback_query)
    if edit := update.edited_message:  # a place that is shared live changes at each movement, and nobody has said more
        return None if edit.location else _message(update.update_id, "edit", edit, me)
    return _message(update.update_id, "message", update.message, me) if update.message else None


def _id(number: int) -> str:
    """Return a number of Telegram as an id. Raises ValueError if it is none."""
    if type(number) is not int or not -_HIGHEST <= number <= _HIGHEST:
        raise ValueError("this is no number of Telegram")
    return str(number)


def _press(number: int, query: CallbackQuery) -> Update | None:
    message = query.message
    if message is None or query.data is None:  # a game, or a message that was sent in the name of a person
        return None
    topic = message.message_thread_id if isinstance(message, Message) and message.is_topic_message else None
    return Update(
        id=_id(number),
        kind="button",
        chat=_chat(message.chat, topic),
        sender=_person(query.from_user),
        message_id=_id(message.message_id),
        order=number,
        text=utf8_text(query.data),
        interaction=str(query.id),
    )


def _message(number: int, kind: UpdateKind, message: Message, me: User) -> Update | None:
    if (move := _move(number, message)) is not None:
        return move
    text, entities = text_of(message)
    mentions = Mentions(text, entities, me)
    text = mentions.text
    files = tuple(attached_files(message))
    if not text and not files and not mentions.addressed:  # a person has joined, or the like
        return None
    private = message.chat.type == TelegramChat.PRIVATE
    replied = _replied(message)
    to_me = replied is not None and replied.from_user is not None and replied.from_user.id == me.id
    return Update(
        id=_id(number),
        kind=kind,
        chat=_chat(message.chat, _topic(message)),
        sender=_sender(message),
        message_id=_id(message.message_id),
        order=number,
        text=text,
        addressed=_is_person(message) and (private or mentions.addressed or (to_me and not mentions.for_another)),
        reply_to=_id(replied.message_id) if replied else None,
        quote=_quote(message, replied, me),
        forwarded_from=author_of(message.forward_origin) if message.forward_origin else None,
        files=files,
        album=str(message.media_group_id) if kind == "message" and message.media_group_id else None,
    )


def _move(number: int, message: Message) -> Update | None:
    """Return the update of a group that has become a supergroup, which both of them report."""
    before = message.migrate_from_chat_id
    now = message.migrate_to_chat_id
    if before is None and now is None:
        return None
    return Update(
        id=_id(number),
        kind="move",
        chat=Chat(_id(message.chat.id if before is None else before), private=False, title=_title(message.chat)),
        sender=_sender(message),
        message_id=_id(message.message_id),
        order=number,
        text=_id(message.chat.id if now is None else now),
    )


def _topic(message: Message) -> int | None:
    """Return the number of the topic. Outside of topics, a thread of replies has a number too."""
    return message.message_thread_id if message.is_topic_message or not message.reply_to_message else None


def _replied(message: Message) -> Message | None:
    """Return the message to which a person replies. In a topic, all others reply to the one that opened it."""
    replied = message.reply_to_message
    if replied and message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    return replied


def _quote(message: Message, replied: Message | None, me: User) -> Quote | None:
    """Return what a message replies to: the part that the person has chosen, else all of it. Nothing can be asked of
    the Bot API later."""
    part = message.quote
    if replied is not None:
        sender = _sender(replied)
    elif part is not None and message.external_reply is not None:
        sender = Sender("", author_of(message.external_reply.origin))
    else:
        return None
    text, entities = (part.text, part.entities or ()) if part else text_of(replied) if replied else ("", ())
    text = Mentions(text, entities, me).text
    if not text and replied is not None:
        text = "\n".join(f"[a file: {file.name}]" for file in attached_files(replied))
    return Quote(text[:QUOTE_CHARACTERS], sender, sender.id == _id(me.id), part is not None) if text else None


def _is_person(message: Message) -> bool:
    """Whether a person wrote it in their own name: not a bot, a channel, or an administrator who hides as the group."""
    return message.sender_chat is None and message.from_user is not None and not message.from_user.is_bot


def _sender(message: Message) -> Sender:
    if message.sender_chat or not message.from_user:
        chat = message.sender_chat or message.chat
        return Sender(_id(chat.id), _title(chat))
    return _person(message.from_user)


def _person(user: User) -> Sender:
    return Sender(_id(user.id), utf8_text(user.full_name))


def _chat(chat: TelegramChat, topic: int | None) -> Chat:
    identity = _id(chat.id) if topic is None else f"{_id(chat.id)}/{_id(topic)}"
    return Chat(identity, private=chat.type == TelegramChat.PRIVATE, title=_title(chat))


def _title(chat: TelegramChat) -> str:
    return utf8_text(chat.effective_name or "")
