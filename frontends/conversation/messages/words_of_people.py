"""A person's message as the model reads it: who wrote it, what, and with which files. No name and no text can forge the
lines that the bot adds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.line_text import first_visible
from agent_common.lookalikes import escape_lookalikes

from ...platform import PlatformName, Quote, Sender
from ...text import without_invisible
from ..replies import HINT
from ..words import one_line

NAME_CHARACTERS = 40
QUOTE_CHARACTERS = 500
_BRACKET = re.compile(r"([\s\u2800]*+)[\[\uff3b\ufe47][\s\u2800]*+")
_ADDED = re.compile(r"(?:from|forwarded|reply|file|to\s+send)\b", re.IGNORECASE)
_WORD = re.compile(r"\w*")
_BREAKS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What counts as the end of a line anywhere."""
_NOT_IN_NAMES = re.compile(r"[^\w .'-]")
_QUOTATION_MARKS = re.compile('["\u201c-\u201f\u301d\u301e\uff02]')
_HINT_LINE = f"[{HINT}]"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a person sent, in the workspace."""

    path: str
    media_type: str
    size: int

    def line(self) -> str:
        return f"[file {self.path}: {self.media_type}, {self.size} bytes]"


def shown_name(sender: Sender) -> str:
    """Return the name of a sender as one line without marks."""
    return _plain_name(sender.name)


def message_of(
    text: str,
    sender: Sender,
    platform: PlatformName,
    *,
    private: bool,
    author: str | None = None,
    quote: Quote | None = None,
    files: Sequence[str] = (),
    first: bool = False,
) -> str:
    """Return the message for the model. `author` is who wrote a forwarded one, `quote` what it replies to, `files` are
    the lines about files, `first` asks for the hint that begins a session."""
    who = [] if private else [f'[from "{shown_name(sender)}" ({platform}:{sender.id})]']
    if author is not None:
        who.append(f"[forwarded from {_plain_name(author)}]")
    if quote is not None and first_visible(quote.text) is not None:
        who.append(_quote_line(quote, platform))
    below = [*files, *([_HINT_LINE] if first else [])]
    return _joined(who, text, below)


def edited(message: str, text: str) -> str:
    """Return a message for the model with another text of the person in it."""
    lines = message.splitlines()
    who = [line for line in lines[:3] if line.startswith(("[from ", "[forwarded from ", "[reply to "))]
    below = [line for line in lines if line.startswith("[file ") or line == _HINT_LINE]
    return _joined(who, text, below)


def without_hint(title: str | None) -> str:
    """Return the title of a session, "" if it has none. It is the beginning of the first message: the hint is left out,
    of which it may have a part."""
    shown = (title or "").removesuffix("…")
    begins = (at for at, character in enumerate(shown) if character == "[" and _HINT_LINE.startswith(shown[at:]))
    begin = next(begins, None)
    return title or "" if begin is None else shown[:begin].rstrip()


def _quote_line(quote: Quote, platform: PlatformName) -> str:
    """Return the line about what a message replies to. Words in it cannot end it, as it has the only quotation mark."""
    sender = quote.sender
    known = f" ({platform}:{sender.id})" if sender.id else ""
    who = "you" if quote.own else f'"{shown_name(sender)}"{known}'
    words = _QUOTATION_MARKS.sub("'", one_line(quote.text, QUOTE_CHARACTERS))
    return f'[reply to {who}: "{words}"]'


def _joined(who: Sequence[str], text: str, below: Sequence[str]) -> str:
    """Return the lines of the bot around a text, in which no line looks like one of them."""
    body = "\n".join(map(_unlike_added, _BREAKS.sub("\n", text).strip().split("\n")))
    return "\n\n".join(filter(None, ("\n".join((*who, body)).strip(), "\n".join(below))))


def _unlike_added(line: str) -> str:
    """Return a line of a person; one that looks like a line of the bot has another bracket, and nothing invisible."""
    seen = without_invisible(line)
    bracket = _BRACKET.match(seen)
    if bracket is None:
        return line
    after = unicodedata.normalize("NFKC", seen[bracket.end() :])
    word = _WORD.match(after)
    is_disguised = word is not None and not escape_lookalikes(after).startswith(word[0])
    if not is_disguised and _ADDED.match(after) is None:
        return line
    return f"{bracket[1]}({seen[bracket.end() :]}"


def _plain_name(name: str) -> str:
    return one_line(_NOT_IN_NAMES.sub("", one_line(name, 200)), NAME_CHARACTERS).strip() or "unnamed"
