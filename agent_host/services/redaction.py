"""Takes secrets out of answers: as they are, backwards, encoded as in URLs, JSON, HTML, mails, hex, Base64 and UTF-16,
as lists of bytes and characters, and in pieces.

Each character of a form may be written in several ways, so that `a%62\\u0063` is found for `abc`.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from itertools import chain, pairwise, starmap

MARK = b"[redacted]"
_SEARCHED = 64
"""Characters of a form that its pattern has; the rest is compared where they are found. A pattern of 1,200 characters
takes seconds to build."""
_MIN_BASE64 = 6
"""Characters of Base64 that are left of a secret when those that depend on its neighbours are taken away."""
_BREAKS = (b"", b" ", b"\n", b"\r\n", b"\\n", b"\\r\\n", b"%0A", b"%0D%0A", b"%0a", b"%0d%0a")
"""What may stand between two characters of Base64 that is broken into lines or groups."""
_ENTITIES = {
    character: tuple(sorted(f"&{name}".encode().lower() for name, one in html5.items() if one == character))
    for character in string.punctuation
}
"""The named entities of a character, with and without the semicolon where both are valid."""
_SEPARATORS = (b"", b":", b"-", b" ", b",", b", ", b" 0x", b", 0x", b"\\x", b"\n", b"\r\n", b"\\n", b"\\r\\n")
"""What may stand between two bytes in hex."""
_COMMAS = (b",", b", ", *(b",\n" + b" " * indent for indent in (0, 2, 4, 6, 8)))
"""What may stand between two members of a list."""
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_SOFT_BREAKS = (b"", b"=\n", b"=\r\n", b"=\\n", b"=\\r\\n")
"""What may stand between two bytes of quoted-printable text."""
Options = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Form:
    """One way to write a secret."""

    characters: tuple[Options, ...]
    """Of each character the byte strings that may stand for it; in lower case if case is ignored."""
    ignore_case: bool
    beginning: re.Pattern[bytes]
    """Finds the first characters."""
    rest: tuple[Options, ...]
    """The characters that it leaves."""

    @property
    def longest(self) -> int:
        return sum(max(map(len, options)) for options in self.characters)

    def find_end(self, text: bytes, start: int) -> int:
        """Return where this form ends if it begins at `start`, else `start`. The text is in lower case if case is
        ignored."""
        found = self.beginning.match(text, start)
        reached = {found.end()} if found is not None else set[int]()
        for options in self.rest:
            if not reached:
                return start
            reached = {at + len(option) for at in reached for option in options if text.startswith(option, at)}
        return max(reached, default=start)

    def may_begin(self, text: bytes, start: int) -> bool:
        """Whether the text from there on is the beginning of this form, so that the rest of it may follow. It is in
        lower case if case is ignored."""
        reached = {start}
        for options in self.characters:
            following: set[int] = set()
            for at in reached:
                left = len(text) - at
                for option in options:
                    if len(option) >= left:
                        if option.startswith(text[at:]):
                            return True
                    elif text.startswith(option, at):
                        following.add(at + len(option))
            if not following:
                return False
            reached = following
        return False


class Redactor:
    """Finds some secrets."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = [form for secret in secrets if secret for form in _forms(secret)]
        self._pattern = re.compile(b"|".join(form.beginning.pattern for form in self._forms)) if self._forms else None
        self.longest = max((form.longest for form in self._forms), default=0)
        self._by_first = _by_first_byte(self._forms)
        self._beginning = _one_of(self._by_first)

    def redact(self, data: bytes) -> bytes:
        """Return the data without the secrets."""
        done = bytearray()
        at = 0
        for start, end in self._find(data):
            done += data[at:start] + MARK
            at = end
        return bytes(done + data[at:]) if at else data

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the data without the secrets as far as that is certain, and the rest, in which one may have begun."""
        if self._pattern is None:
            return data, b""
        done = bytearray()
        at = 0
        held_from = self._held_from(data)
        for start, found_end in self._find(data):
            if start >= held_from:
                break
            done += data[at:start] + MARK
            at = found_end
        end = max(at, held_from)
        return bytes(done + data[at:end]), data[end:]

    def _find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield from where to where each secret stands."""
        if self._pattern is None or (found := self._pattern.search(data)) is None:
            return
        lowered = data.lower()
        while found is not None:
            start = found.start()
            forms = self._by_first[data[start : start + 1]]
            end = max(form.find_end(lowered if form.ignore_case else data, start) for form in forms)
            if end > start:
                yield start, end
            found = self._pattern.search(data, max(end, start + 1))

    def _held_from(self, data: bytes) -> int:
        """Return where the first form begins that the end of the data may have cut off."""
        lowered = data.lower()
        for found in self._beginning.finditer(data, max(0, len(data) - self.longest + 1)):
            at = found.start()
            forms = self._by_first[found[0]]
            if any(form.may_begin(lowered if form.ignore_case else data, at) for form in forms):
                return at
        return len(data)


class Redactors:
    """Several, one after the other: each is made once, however they are put together."""

    def __init__(self, parts: Sequence[Redactor] = ()) -> None:
        self.parts = tuple(parts)

    def redact(self, data: bytes) -> bytes:
        """Return the data without the secrets of all."""
        for part in self.parts:
            data = part.redact(data)
        return data


@lru_cache(maxsize=256)
def make_redactor(*secrets: str) -> Redactor:
    """Return the redactor of these secrets, made once. For a long secret that takes a while: use a thread."""
    return Redactor(secrets)


class StreamRedactor:
    """Takes secrets out of a stream, also those that two pieces share. Only what may be the beginning of one waits."""

    def __init__(self, redactors: Redactors) -> None:
        self._parts = redactors.parts
        self._held = [b""] * len(self._parts)

    def feed(self, piece: bytes) -> bytes:
        """Return what can be passed on."""
        for at, part in enumerate(self._parts):
            piece, self._held[at] = part.split(self._held[at] + piece)
        return piece

    def finish(self) -> bytes:
        """Return the rest, at the end of the stream."""
        rest = b""
        for at, part in enumerate(self._parts):
            rest = part.redact(self._held[at] + rest)
            self._held[at] = b""
        return rest


def _by_first_byte(forms: Sequence[_Form]) -> dict[bytes, list[_Form]]:
    """Return the forms by the bytes with which they can begin."""
    found: dict[bytes, list[_Form]] = {}
    for form in forms:
        first = {option[:1] for option in form.characters[0]}
        for byte in {case for one in first for case in (one.lower(), one.upper())}:
            found.setdefault(byte, []).append(form)
    return found


def _one_of(first: Iterable[bytes]) -> re.Pattern[bytes]:
    """Return a pattern for one of these bytes."""
    listed = b"".join(map(re.escape, sorted(first)))
    return re.compile(b"[%b]" % listed if listed else b"(?!)")


@lru_cache(maxsize=1024)
def _source(options: Options) -> bytes:
    """Return a pattern of some byte strings, the longest first. What several begin with is in it once: a pattern takes
    the longer to build the more it says."""
    following: dict[bytes, list[bytes]] = {}
    for option in options:
        if option:
            following.setdefault(option[:1], []).append(option[1:])
    branches = [re.escape(first) + _source(tuple(rest)) for first, rest in following.items()]
    if b"" in options:
        return b"(?:%b)?" % b"|".join(branches) if branches else b""
    return branches[0] if len(branches) == 1 else b"(?:%b)" % b"|".join(branches)


def _forms(secret: str) -> Iterable[_Form]:
    data = secret.encode("utf-8")
    yield _form(map(_character, secret), ignore_case=True)
    yield _form(((one.lower().encode("utf-8"),) for one in reversed(secret)), ignore_case=True)
    yield _joined([(b"%02x" % byte,) for byte in data], _SEPARATORS, ignore_case=True)
    yield _joined([(b"%d" % byte,) for byte in data], (*_COMMAS, b" "), ignore_case=False)
    for encoding in _WIDE:
        yield _form(((one.encode(encoding).lower(),) for one in secret), ignore_case=True)
    between = tuple(quote + comma + quote for quote in (b'"', b"'") for comma in _COMMAS)
    listed = [one.lower().encode("utf-8") for one in secret]
    yield _joined([(one, b"\\" + one) for one in listed], between, ignore_case=True)
    quoted = [(bytes((byte,)).lower(), b"=%02x" % byte) for byte in data]
    yield _joined(quoted, _SOFT_BREAKS, ignore_case=True)
    for offset in range(3):
        row = _base64_row(data, offset)
        if len(row) >= _MIN_BASE64:
            yield _joined([_base64_character(one) for one in row], _BREAKS, ignore_case=False)


def _form(characters: Iterable[Options], *, ignore_case: bool) -> _Form:
    options = tuple(characters)
    searched = _SEARCHED if all(starmap(_is_end_certain, pairwise(options[: _SEARCHED + 1]))) else len(options)
    source = b"".join(map(_source, options[:searched]))
    beginning = re.compile((b"(?i:%b)" if ignore_case else b"(?:%b)") % source)
    return _Form(options, ignore_case, beginning, options[searched:])


@lru_cache(maxsize=4096)
def _is_end_certain(options: Options, following: Options) -> bool:
    """Whether a text in which one of the options stands before one of the others can be divided in one way only. Where
    `&#97` and `&#97;` are options, a semicolon cannot follow."""
    return not any(
        longer != option and longer.startswith(option) and _can_begin(longer.removeprefix(option), following)
        for option in options
        for longer in options
    )


def _can_begin(text: bytes, options: Options) -> bool:
    return any(text.startswith(option) or option.startswith(text) for option in options)


def _joined(characters: Iterable[Options], between: Options, *, ignore_case: bool) -> _Form:
    """Return the form of these characters, with one of the others between each two."""
    options = tuple(chain.from_iterable((one, between) for one in characters))
    return _form(options[:-1], ignore_case=ignore_case)


def _character(character: str) -> Options:
    """Return the forms of one character of a text, each once: a pattern tries one that is there twice again and again.
    Patterns ignore the case of ASCII alone."""
    cases = dict.fromkeys((character, character.lower(), character.upper()))
    return tuple(dict.fromkeys(form.lower() for one in cases if len(one) == 1 for form in _character_forms(one)))


def _character_forms(character: str) -> Iterable[bytes]:
    encoded = character.encode("utf-8")
    code = ord(character)
    percent = b"".join(b"%%%02x" % byte for byte in encoded)
    units = character.encode("utf-16-be")
    escaped = b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
    yield from (encoded, percent, percent.replace(b"%", b"%25"), escaped, b"\\" + escaped)
    yield from (b"\\" * count + encoded for count in (1, 2, 3))  # in JSON, and in JSON inside JSON
    yield from (b"%%u%04x" % code, b"\\u{%x}" % code, b"\\U%08x" % code)
    yield b"".join(b"\\%03o" % byte for byte in encoded)
    for zeros in (b"", b"0"):
        for number in (b"&#%b%d" % (zeros, code), b"&#x%b%x" % (zeros, code)):
            yield from (number, number + b";")
    if code < 256:
        yield b"\\x%02x" % code
    yield from _ENTITIES.get(character, ())
    if character == " ":
        yield b"+"


def _base64_row(data: bytes, offset: int) -> bytes:
    """Return the characters of Base64 that the secret alone decides, `offset` bytes behind the beginning of a group."""
    encoded = base64.b64encode(b"\0" * offset + data)
    first = -(-offset * 8 // 6)
    last = (offset + len(data)) * 8 // 6
    return encoded[first:last]


def _base64_character(code: int) -> Options:
    """Return the forms to write one character of Base64, of the alphabet for URLs too."""
    one = bytes((code,))
    if one == b"+":
        return b"+", b"-", b"%2B", b"%2b", b"\\u002b", b"\\u002B"
    if one == b"/":
        return b"/", b"_", b"%2F", b"%2f", b"\\/"
    return (one,)
