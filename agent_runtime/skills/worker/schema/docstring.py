"""Parse a docstring into a description and a text for each argument. Google, NumPy and Sphinx styles."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

_ARGUMENTS = re.compile(r"((keyword|other) )?(arg(ument)?s|param(eter)?s)|attributes|fields", re.IGNORECASE)
_OTHER_SECTIONS = re.compile(
    r"returns?|yields?|raises?|except(ion)?s?|warn(ing)?s?|examples?|notes?|see also|references?|todo|usage",
    re.IGNORECASE,
)
"""Titles of sections. The description ends before the first of them."""

_TITLE = re.compile(r"(\w[\w ]*?)\s*:?\s*")
_UNDERLINE = re.compile(r"[-=]{3,}\s*")
_FIELD = re.compile(r":(param|parameter|arg|argument|key|keyword|type|returns?|rtype|yields?|ytype|raises?|meta|var)\b")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")
_SPHINX_ENTRY = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s(?:[^:]*\s)?\s*\*{0,2}(\w+)\s*:\s*(.*)")


class Doc(NamedTuple):
    """The parts of a docstring."""

    about: str
    """The text before the first section."""
    arguments: dict[str, str]
    """The text about each argument, on one line."""


class _Section(NamedTuple):
    entry: re.Pattern[str] | None
    """Matches the first line of an entry; None when the section is not about arguments."""
    lines: list[str]
    ends_at_margin: bool


def parse(text: str | None) -> Doc:
    """Parse any text; what has no known form is part of the description."""
    first, *sections = _sections(inspect.cleandoc(text or "").splitlines())
    arguments: dict[str, str] = {}
    for section in sections:
        for names, description in _entries(section):
            for name in names:
                arguments.setdefault(name, description)
    return Doc(
        "\n".join(first.lines).strip(), {name: description for name, description in arguments.items() if description}
    )


def _sections(lines: Sequence[str]) -> list[_Section]:
    """Return the sections; the first is the description."""
    found = [_Section(None, [], ends_at_margin=False)]
    rest = zip_longest(lines, lines[1:], fillvalue="")
    for line, following in rest:
        if (begun := _section_start(line, following)) is not None:
            found.append(begun)
            if begun.entry is _SPHINX_ENTRY:
                begun.lines.append(line)
            elif _UNDERLINE.fullmatch(following):
                next(rest)
            continue
        if found[-1].ends_at_margin and line.strip() and not line[0].isspace():
            found.append(_Section(None, [], ends_at_margin=False))
        found[-1].lines.append(line)
    return found


def _section_start(line: str, following: str) -> _Section | None:
    """Return the section that begins with this line; None if none does."""
    if _FIELD.match(line):
        return _Section(_SPHINX_ENTRY, [], ends_at_margin=True)
    title = _TITLE.fullmatch(line)
    of_arguments = title is not None and _ARGUMENTS.fullmatch(title[1]) is not None
    if title is None or not (of_arguments or _OTHER_SECTIONS.fullmatch(title[1])):
        return None
    if _UNDERLINE.fullmatch(following):
        return _Section(_NUMPY_ENTRY if of_arguments else None, [], ends_at_margin=False)
    if line.rstrip().endswith(":"):
        return _Section(_GOOGLE_ENTRY if of_arguments else None, [], ends_at_margin=True)
    return None


def _entries(section: _Section) -> Iterator[tuple[list[str], str]]:
    """Yield the names of an entry, of which NumPy may put several on a line, and its text."""
    if section.entry is None:
        return
    names: list[str] = []
    pieces: list[str] = []
    for line in inspect.cleandoc("\n" + "\n".join(section.lines)).splitlines():
        if not line[:1].isspace() and (entry := section.entry.fullmatch(line)):
            yield names, " ".join(pieces)
            names = re.findall(r"\w+", entry[1])
            pieces = [entry[2].strip()] if entry[2] else []
        elif line.strip():
            pieces.append(line.strip())
    yield names, " ".join(pieces)
