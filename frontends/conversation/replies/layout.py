"""The messages of a reply: a text that is very long ends as a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...platform import Piece

MAX_MESSAGES = 5
FILE_NAME = "answer.md"
_RUNNING = "… *The answer is too long for this chat: all of it comes as a file when it is complete.*"
_COMPLETE = f"… *The answer is too long for this chat: all of it is in* `{FILE_NAME}`*.*"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a document looks in a chat."""

    pieces: Sequence[Piece]
    whole: str | None
    """The document, if it has to be sent as a file."""


def laid_out(parts: Sequence[str], split: Callable[[str], list[str]], *, complete: bool) -> Layout:
    """Return the messages for the parts of a document, each of which begins a message."""
    texts = [text for part in parts for text in split(part)]
    limit = MAX_MESSAGES + max(len(parts) - 1, 0)
    if len(texts) <= limit:
        return Layout([Piece(text) for text in texts], None)
    texts = [*texts[: limit - 1], _COMPLETE if complete else _RUNNING]
    return Layout([Piece(text) for text in texts], "\n\n".join(parts) if complete else None)
