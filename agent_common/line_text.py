"""Text of any origin on its way into a note: one line, nothing hidden in it, never long, known when it comes again."""

from __future__ import annotations

import hashlib
import re

HEAD = 2048
TAIL = 1024
"""Characters that are kept of a text before anything else is done with it."""
GAP = " [...] "
JOINERS = "\u200c\u200d"
"""Scripts and pictures are spelled with these: between two of their signs they hide nothing."""
HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
    "|(?<![^\0-\x7f])[\u200c\u200d\ufe0e\ufe0f](?!\u20e3)|[\u200c\u200d](?![^\0-\x7f])"
)
"""Selectors and fillers count as printable, show nothing, and can carry any text. So do joiners that join nothing."""
_VISIBLE = re.compile(
    r"[^\s\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`")
_HEX = r"\b(?:0x)?(?=[0-9a-f-]{0,64}[0-9])[0-9a-f]{2}[0-9a-f-]{4,}\b"
_ID = r"\b[a-z]{2,6}[_-](?=\w{0,64}\d)\w{6,}\b"
_NAMED = re.compile(f"{_HEX}|{_ID}")
_FILE = re.compile(r"\W{0,2}[\w-]{1,100}\.[a-z][a-z0-9]{0,4}\W{0,2}$")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def truncate_middle(text: str) -> str:
    """The beginning and the end of a text that is too long to be looked at."""
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}{GAP}{text[-TAIL:]}"


def first_visible(text: str) -> int | None:
    """Where the first character stands that shows; None if the text holds blanks and signs without a width alone."""
    found = _VISIBLE.search(text)
    return found.start() if found is not None else None


def one_line(text: str, limit: int) -> str:
    """The text in one line of at most so many characters: the end of an error often says more than its middle."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    line = escape_invisible("\\n".join(line for line in lines if line))
    if len(line) <= limit:
        return line
    tail = (limit - len(GAP)) // 3
    return f"{line[: limit - tail - len(GAP)].rstrip()}{GAP}{line[len(line) - tail :].lstrip()}"


def comparable_text(text: str) -> str:
    """Return the text with files, numbers and names replaced, so that two reports of the same thing compare equal."""
    words = ("/" if "/" in word or _FILE.match(word) else word for word in _QUOTED.sub("''", text.casefold()).split())
    return _NUMBER.sub("0", _NAMED.sub("0", " ".join(words)))


def note_key(kind: str, *facts: str) -> str:
    """A name for all notes of that kind with the same facts."""
    facts_in_one = "\0".join(facts).encode(errors="surrogatepass")
    return f"{kind}-{hashlib.sha256(facts_in_one).hexdigest()[:10]}"


def escape_invisible(text: str) -> str:
    """The text with escapes in the place of all that does not show."""
    if text.isascii() and text.isprintable():
        return text
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char in JOINERS else escape(char) for char in text)
    return HIDDEN.sub(lambda found: escape(found[0]), text)


def escape(char: str) -> str:
    """The escape of one character, as programs write it."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
