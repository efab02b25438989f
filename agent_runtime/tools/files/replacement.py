"""Replace one text in a file by another, where the file writes the same text a little differently.

A model reproduces what it has read from memory: straight quotes for curly ones, composed letters for decomposed ones, a
line feed for whatever ends the lines. A text that is not in the file as it stands is looked for in all these forms. The
file keeps its own: those of the replaced text that the new text repeats, and its line ends.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice

from ...context import unescape
from ...errors import ToolFailure
from .paths import TEXT_LIMIT, too_large_error
from .quotes import Token, new_quotes, with_roles
from .text_forms import LINE_END, clusters_of, form_of, forms_in, pattern_of

MAX_TOLERANT = 20_000
"""Characters of a text that is looked for in other forms; of a longer one only the line ends may differ."""
MAX_WORK = 30_000_000
"""Characters of the text times those of the file, which is what looking for it in other forms costs at worst."""
MAX_REPEATED = 3_000_000
"""Characters of the text times the places of the file where one like it may begin: of blanks alone, that is everywhere,
and nothing else runs meanwhile."""
MAX_LOOSE = 300_000
"""The same where there may be other blanks between all of them."""
MAX_CANDIDATES = 10
"""Places of the file at which it is looked how far the text agrees."""
MAX_COMPARED = 4_000
"""Characters of old and new text that are compared one by one, which takes the square of their number."""
MAX_FORMS = 12_000_000
"""The product of both lengths for each form in which the file has the old text, of all forms."""
MAX_PLACES = 100_000
"""Places that are replaced one by one, because the file writes them, or ends its lines, in more than one way."""
MAX_RESULT = 2 * TEXT_LIMIT
"""Bytes of the file with the replacement, as UTF-8, of which UTF-16 may need two thirds. More are not even made."""
MAX_COUNTED = 1_000
"""Places in other forms that are counted for a fault."""
MAX_LINES_NAMED = 8
MIN_PREFIX = 8
"""Characters that must agree before a difference is named, wherever they are."""
SHORT_PREFIXES = (6, 4)
"""Fewer of them must not be in more than MAX_CANDIDATES places."""
MAX_SKIPPED = 12
"""Characters before those that agree."""
_BLANKS = r"\s{0,80}"
_WIDTH = ord("\uff01") - ord("!")
_WIDE = {sign: sign + _WIDTH for sign in range(ord("!"), ord("~") + 1)}
_OTHER_WIDTH = {**_WIDE, **{wide: sign for sign, wide in _WIDE.items()}}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file with the replacement."""

    data: bytes
    count: int
    lines_removed: int
    lines_added: int


def replace_text(data: bytes, old: str, new: str, *, every: bool, shown: str) -> Replaced:
    """Return the file with `new` in place of `old`, which must occur once unless `every`. `shown`: its name.

    Raises ToolFailure. What is not UTF-8 around the match stays as it is.
    """
    found = _find(data, old, new)
    first = list(islice(found.spans(data), MAX_LINES_NAMED + 1))
    if not first:
        raise ToolFailure(f"old_string: is not in {shown}; {_difference(data, old)}", kind="invalid")
    if len(first) > 1 and not every:
        raise ToolFailure(
            f"old_string: occurs {_counted(data, found)} times in {shown}, on lines {_line_numbers(data, first)}; "
            "add the text around the one you mean, or set replace_all",
            kind="invalid",
        )
    put = _NewText(data, found.old, found.new)
    if found.exact is None or not put.is_alike:
        return _replace_each(data, found, put, shown)
    return _replace_alike(data, found.exact, put.at(*first[0]), shown)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the old text is, and both texts as they were found."""

    old: str
    new: str
    exact: bytes | None = None
    """What is there, if that is the same at all places."""
    text: str = ""
    pattern: str | None = None
    """What it looks like in the decoded file, otherwise; None: it is nowhere."""

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the places in the file."""
        if self.exact is not None:
            return _spans(data, self.exact)
        return iter(()) if self.pattern is None else _byte_spans(self.text, re.finditer(self.pattern, self.text))


def _replace_alike(data: bytes, old: bytes, put: bytes, shown: str) -> Replaced:
    """Replace the same bytes by the same bytes at all places, which may be millions."""
    count = data.count(old)
    _check_size(len(data) + count * (len(put) - len(old)), shown)
    return Replaced(data.replace(old, put), count, count * _lines(old), count * _lines(put) if put else 0)


def _replace_each(data: bytes, found: _Found, new: _NewText, shown: str) -> Replaced:
    pieces: list[bytes] = []
    end = removed = added = count = 0
    size = len(data)  # of the file with what has been replaced so far
    for start, stop in found.spans(data):
        if (count := count + 1) > MAX_PLACES:
            text = f"old_string: is in {shown} more than {MAX_PLACES} times, in several forms; replace less at once"
            raise ToolFailure(text, kind="invalid")
        put = new.at(start, stop)
        size += len(put) - (stop - start)
        _check_size(size, shown)
        pieces += [data[end:start], put]
        end = stop
        removed += _lines(data[start:stop])
        added += _lines(put) if put else 0
    return Replaced(b"".join((*pieces, data[end:])), count, removed, added)


def _check_size(size: int, shown: str) -> None:
    if size > MAX_RESULT:
        raise too_large_error(f"{shown} after the edit", size)


def _find(data: bytes, old: str, new: str) -> _Found:
    """Find the old text. The model sees characters that are unseen otherwise as escapes, and copies them so: where the
    text itself is not in the file, they stand for those characters, also where the new text repeats them."""
    exact = _encode(old)
    if exact in data:
        return _Found(old, new, exact)
    if (true := unescape(old)) != old and _encode(true) in data:
        return _Found(true, unescape(new, only=true), _encode(true))
    plain = old.replace("\r\n", "\n")
    for line_end in (b"\r\n", b"\n", b"\r"):
        if "\n" in plain and (written := _encode(plain).replace(b"\n", line_end)) in data:
            return _Found(old, new, written)
    text = _decode(data)
    if len(plain) > MAX_TOLERANT or len(plain) * len(text) > MAX_WORK:
        return _Found(old, new)
    clusters = clusters_of(plain)
    if _begins_too_often(clusters, text):
        return _Found(old, new)
    return _Found(old, new, text=text, pattern=pattern_of(clusters))


def _begins_too_often(clusters: Sequence[str], text: str) -> bool:
    if len(clusters) <= MIN_PREFIX:
        return False
    most = MAX_REPEATED // len(clusters)
    begins = re.finditer(f"(?={pattern_of(clusters[:MIN_PREFIX])})", text)
    return next(islice(begins, most, None), None) is not None


def _spans(data: bytes, text: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(text)
    while at >= 0:
        yield at, at + len(text)
        at = data.find(text, at + len(text))


def _byte_spans(text: str, found: Iterator[re.Match[str]]) -> Iterator[tuple[int, int]]:
    at = size = 0
    for start, stop in (one.span() for one in found):
        first = size + len(_encode_exact(text[at:start]))
        size = first + len(_encode_exact(text[start:stop]))
        at = stop
        yield first, size


# ---------------------------------------------------------------- what is put there


class _NewText:
    """The new text as it is put at each place, with the line ends of the file and the file's own form of what it
    repeats. The places are asked for in their order."""

    def __init__(self, data: bytes, old: str, new: str) -> None:
        self._data = data
        self._old = old
        self._new = new
        self._plain_old = old.replace("\r\n", "\n")
        self._plain_new = new.replace("\r\n", "\n")
        self._compared = len(self._plain_old) + len(self._plain_new) <= MAX_COMPARED
        self._line_breaks = _LineBreaks(data)
        self._made: dict[tuple[str, str], bytes] = {}
        self._work = 0

    @property
    def is_alike(self) -> bool:
        """Whether it is the same at all places with the same old text."""
        return "\n" not in self._plain_new or self._line_breaks.are_alike

    @cached_property
    def _tokens(self) -> tuple[list[Token], list[Token]]:
        return with_roles(clusters_of(self._plain_old)), with_roles(clusters_of(self._plain_new))

    def at(self, start: int, stop: int) -> bytes:
        """Return what is put at a place. Raises ToolFailure if there are too many forms of the old text."""
        if self._plain_old == self._plain_new:  # the line ends themselves are changed
            return _encode(self._new)
        line_end = self._line_breaks.at(start)
        there = _decode(self._data[start:stop]) if self._compared else self._old
        made = self._made.get((there, line_end))
        if made is None:
            made = self._made[there, line_end] = self._make(there, line_end)
        return made

    def _make(self, there: str, line_end: str) -> bytes:
        if there == self._old:
            return _encode(self._plain_new.replace("\n", line_end))
        self._work += len(self._plain_old) * len(self._plain_new)
        if self._work > MAX_FORMS:
            raise ToolFailure("old_string: is there in too many forms; replace less at once", kind="invalid")
        olds, news = self._tokens
        forms = forms_in([sign for sign, _ in olds], there)
        kept: list[str | None] = [None] * len(news)
        for at, begin, size in SequenceMatcher(None, olds, news, autojunk=False).get_matching_blocks():
            kept[begin : begin + size] = forms[at : at + size]
        quotes = new_quotes(olds, forms, news, kept)
        pieces = [
            quotes.get(index, sign).replace("\n", line_end) if form is None else form
            for index, (form, (sign, _)) in enumerate(zip(kept, news, strict=True))
        ]
        return _encode_exact("".join(pieces))


class _LineBreaks:
    """What ends the lines at places of a file that are asked for in their order: the file is searched once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = data.find(b"\n")
        self._last = data.rfind(b"\n")
        self._without = "\r" if self._last < 0 and b"\r" in data else "\n"

    @property
    def are_alike(self) -> bool:
        """Whether all lines end alike."""
        return self._data.count(b"\r\n") in (0, self._data.count(b"\n"))

    def at(self, start: int) -> str:
        """Return what ends lines in the text, else after it, else before it."""
        if self._last < 0:
            return self._without
        if start > self._last:
            at = self._last
        else:
            if self._next < start:
                self._next = self._data.find(b"\n", start)
            at = self._next
        return "\r\n" if self._data[at - 1 : at] == b"\r" else "\n"


# ---------------------------------------------------------------- faults


def _difference(data: bytes, old: str) -> str:
    """Return what to do about a text that is not in the file: the place where it begins to differ, if there is one."""
    advice = "read it and copy the exact text"
    clusters = clusters_of(old.replace("\r\n", "\n")[:MAX_TOLERANT])
    text = _decode(data)
    found = (
        _difference_from(clusters, text, MIN_PREFIX)
        or _difference_in_blanks(clusters, text)
        or next(filter(None, (_difference_from(clusters, text, length) for length in SHORT_PREFIXES)), "")
    )
    return f"{found}; {advice}" if found else advice


def _difference_from(clusters: Sequence[str], text: str, length: int) -> str:
    """Return how the text differs after its first characters, or before some that follow them, of which `length` are in
    the file; nothing if they are not."""
    at_begin = _occurrences(clusters[: _indented(clusters) + length], text)
    if at_begin and (length == MIN_PREFIX or len(at_begin) <= MAX_CANDIDATES):
        agreed, end = max(_agreement(clusters, text, start) for start in at_begin[:MAX_CANDIDATES])
        return _difference_after(clusters, text, agreed, end) if length <= agreed < len(clusters) else ""
    if len(text) * length * MAX_SKIPPED > MAX_WORK:
        return ""
    for skipped in range(1, min(MAX_SKIPPED, len(clusters) - length) + 1):
        piece = clusters[skipped : skipped + length]
        later = [] if _indented(piece) == length else _occurrences(piece, text)
        if later and (length == MIN_PREFIX or len(later) <= MAX_CANDIDATES):
            return _difference_before(clusters, text, skipped, later[0])
    return ""


def _occurrences(clusters: Sequence[str], text: str) -> list[int]:
    """Return where the characters are in the file; one more than MAX_CANDIDATES at most."""
    return [one.start() for one in islice(re.finditer(pattern_of(clusters), text), MAX_CANDIDATES + 1)]


def _indented(clusters: Sequence[str]) -> int:
    """Return the number of blanks before the first character."""
    return next((number for number, cluster in enumerate(clusters) if not cluster.isspace()), len(clusters))


def _difference_in_blanks(clusters: Sequence[str], text: str) -> str:
    """Return how the text differs from one with other blanks, or characters of another width, that is in the file."""
    indented = _indented(clusters)
    signs = [_form_of_any_width(cluster) for cluster in clusters[:MAX_COMPARED] if not cluster.isspace()]
    if not signs or len(text) * MIN_PREFIX > MAX_WORK:
        return ""
    begins = re.finditer(f"(?={_BLANKS.join(signs[:MIN_PREFIX])})", text)
    if next(islice(begins, MAX_LOOSE // len(signs), None), None) is not None:
        return ""
    starts = [one.start() for one in islice(re.finditer(_BLANKS.join(signs), text), MAX_CANDIDATES)]
    found = [(*_agreement(clusters, text, max(0, start - indented)), start) for start in starts]
    agreed, end, start = max(found, default=(0, 0, 0))
    if not found or agreed == len(clusters):  # the text has more, which is not compared
        return ""
    if agreed >= indented:
        return _difference_after(clusters, text, agreed, end)
    return _difference_before(clusters, text, indented, start)


def _form_of_any_width(cluster: str) -> str:
    other = cluster.translate(_OTHER_WIDTH)
    return form_of(cluster) if other == cluster else f"(?:{form_of(cluster)}|{re.escape(other)})"


def _difference_after(clusters: Sequence[str], text: str, agreed: int, end: int) -> str:
    """Return how the text differs after its first `agreed` characters, which end at `end` in the file."""
    line = len(re.findall(LINE_END, text[:end])) + 1
    there = _named(text[end]) if end < len(text) else "its end"
    where = f"its first {agreed} characters are, up to line {line}"
    return f"{where}: there the file has {there}, and old_string {_named(clusters[agreed])}"


def _difference_before(clusters: Sequence[str], text: str, skipped: int, start: int) -> str:
    """Return how the text differs before its character number `skipped`, which is at `start` in the file."""
    line = len(re.findall(LINE_END, text[:start])) + 1
    while start and skipped > 1 and re.fullmatch(form_of(clusters[skipped - 1]), text[start - 1]):
        start -= 1
        skipped -= 1
    there = _named(text[start - 1]) if start else "its beginning"
    where = f"it is from its character {skipped + 1} on, on line {line}"
    return f"{where}: before that the file has {there}, and old_string {_named(clusters[skipped - 1])}"


def _agreement(clusters: Sequence[str], text: str, start: int) -> tuple[int, int]:
    """Return how many of the characters stand at a place, and where they end there."""
    at = start
    for number, cluster in enumerate(clusters):
        found = re.compile(form_of(cluster)).match(text, at)
        if found is None:
            return number, at
        at = found.end()
    return len(clusters), at


def _named(cluster: str) -> str:
    sign = cluster[0]
    return f"{sign!r} (U+{ord(sign):04X} {unicodedata.name(sign, '').lower()}".rstrip() + ")"


def _counted(data: bytes, found: _Found) -> str:
    if found.exact is not None:
        return str(data.count(found.exact))
    count = sum(1 for _ in islice(found.spans(data), MAX_COUNTED + 1))
    return str(count) if count <= MAX_COUNTED else f"more than {MAX_COUNTED}"


def _line_numbers(data: bytes, spans: Sequence[tuple[int, int]]) -> str:
    numbers = [str(data.count(b"\n", 0, start) + 1) for start, _ in islice(spans, MAX_LINES_NAMED)]
    return ", ".join(numbers) + (", ..." if len(spans) > MAX_LINES_NAMED else "")


def _lines(text: bytes) -> int:
    return text.count(b"\n") + 1


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


def _decode(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _encode_exact(text: str) -> bytes:
    """Undo `_decode`; what it cannot have made, a lone surrogate of the model's, is replaced."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return _encode(text)
