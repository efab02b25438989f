"""How a piece looks in Telegram: a plain text, entities that say which parts of it are bold or code, and buttons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity

from ..platform import Button, Piece
from ..text import split, telegram_measure, telegram_text

_LONGEST_CAPTION = 1024


@dataclass(frozen=True, slots=True)
class Look:
    """What Telegram is given to show."""

    text: str
    entities: Sequence[MessageEntity]
    buttons: InlineKeyboardMarkup | None = None


def look_of(piece: Piece) -> Look:
    """Return the text, entities and buttons of a piece."""
    return _look(piece.markdown, _keyboard(piece.buttons))


def caption_of(markdown: str) -> Look:
    """Return a caption, or the part of it for which there is room; an empty one is none."""
    parts = split(markdown, _LONGEST_CAPTION, telegram_measure)
    return _look(parts[0]) if parts else Look("", ())


def _look(markdown: str, buttons: InlineKeyboardMarkup | None = None) -> Look:
    message = telegram_text(markdown)
    entities = [
        MessageEntity(each.type, each.offset, each.length, url=each.url, language=each.language)
        for each in message.entities
    ]
    return Look(message.text, entities, buttons)


def _keyboard(rows: Sequence[Sequence[Button]]) -> InlineKeyboardMarkup | None:
    keyboard = [[InlineKeyboardButton(each.label, callback_data=each.data) for each in row] for row in rows if row]
    return InlineKeyboardMarkup(keyboard) if keyboard else None
