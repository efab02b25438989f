"""The messages of a reply: a text that is very long ends as a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...platform import Piece

MAX_MESSAGES = 5
MOST = 5000
"""Characters that are split for each of the messages: more than one of any platform holds. To split all of a text of
megabytes takes seconds, in which nothing else goes on."""
MAX_PARTS = 50
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
    limit = MAX_MESSAGES + max(min(len(parts), MAX_PARTS) - 1, 0)
    texts: list[str] = []
    whole = True
    for part in parts:
        texts += split(part[: limit * MOST])
        whole = len(part) <= limit * MOST
        if not whole or len(texts) > limit:
            break
    if whole and len(texts) <= limit:
        return Layout([Piece(text) for text in texts], None)
    texts = [*texts[: limit - 1], _COMPLETE if complete else _RUNNING]
    return Layout([Piece(text) for text in texts], "\n\n".join(parts) if complete else None)
