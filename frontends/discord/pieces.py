"""A piece as Discord's message: its text, its buttons, and which message of the history is it."""

from __future__ import annotations

from collections.abc import Sequence

import discord

from ..platform import Button, Piece, PlatformError
from ..text import discord_text

_LABEL = 80
_ROWS = _IN_A_ROW = 5


def content(piece: Piece) -> str:
    return discord_text(piece.markdown)


def view(buttons: Sequence[Sequence[Button]]) -> discord.ui.View | None:
    """Return the buttons. Nothing listens to them in this process: a press comes as an update, also to the next one.
    Rows that Discord does not take are filled anew."""
    if not buttons:
        return None
    shown = discord.ui.View(timeout=None)
    fits = len(buttons) <= _ROWS and all(len(row) <= _IN_A_ROW for row in buttons)
    if sum(map(len, buttons)) > _ROWS * _IN_A_ROW:
        raise PlatformError(f"a message on Discord has at most {_ROWS * _IN_A_ROW} buttons")
    for number, row in enumerate(buttons):
        for button in row:
            row_number = number if fits else None
            shown.add_item(discord.ui.Button(label=button.label[:_LABEL], custom_id=button.data, row=row_number))
    shown.stop()
    return shown


def looks_like(message: discord.Message, piece: Piece) -> bool:
    """Whether a message shows this piece."""
    text = content(piece).strip() if piece.markdown else ""
    wanted = [button.data for row in piece.buttons for button in row]
    return message.content.strip() == text and _custom_ids(message) == wanted


def choose(messages: Sequence[discord.Message], piece: Piece, nonce: str, *, file: bool) -> discord.Message | None:
    """Return the message that was sent under the nonce. Discord forgets nonces in time: without one it is the message
    that shows the piece, or the only one that it can be."""
    if named := next((message for message in messages if message.nonce == nonce), None):
        return named
    possible = [message for message in messages if message.nonce is None and bool(message.attachments) == file]
    same = next((message for message in possible if looks_like(message, piece)), None)
    return same or (possible[0] if len(possible) == 1 else None)


def _custom_ids(message: discord.Message) -> list[str | None]:
    rows = [row for row in message.components if isinstance(row, discord.ActionRow)]
    return [child.custom_id for row in rows for child in row.children if isinstance(child, discord.Button)]
