"""What to do next so that the messages of a post show it: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...platform import Piece
from ...store import Post, PostMessage


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message: it is the next one of its post."""

    message: PostMessage


@dataclass(frozen=True, slots=True)
class Edit:
    """Change a message."""

    message: PostMessage
    piece: Piece


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a message that the post does not need any more."""

    message: PostMessage


Change = Send | Edit | Delete


def next_change(post: Post, pieces: Sequence[Piece], last_message: str | None) -> Change | None:
    """Return the first change that is missing; None if the post looks like these pieces. None of its messages may be
    lost."""
    messages = {message.number: message for message in post.messages}
    for number, piece in enumerate(pieces):
        message = messages.get(number)
        if message is None or message.absent:
            key = f"{post.key}-{number}" if message is None else message.key  # the same in each process
            return Send(PostMessage(number, key, last_message, piece, None))
        if not _same(message.piece, piece):
            return Edit(message, piece)
    surplus = [message for message in post.messages if message.number >= len(pieces) and not message.absent]
    return Delete(surplus[-1]) if surplus else None


def _same(one: Piece, other: Piece) -> bool:
    """Whether two pieces look the same. Rows of buttons that were read from the database are lists."""
    rows = [[*row] for row in one.buttons], [[*row] for row in other.buttons]
    return one.markdown == other.markdown and rows[0] == rows[1]
