"""The front matter of a SKILL.md: two texts that go into prompts, read from a file that anybody may have written.

Only `name` and `description` are read. Whatever else stands there is left alone, also where it is no YAML, and so is
what the published format knows and this product has no use for: license, compatibility, metadata, allowed-tools.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...agents import safe_yaml

FENCE = "---"
NAME_PATTERN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1024
"""Characters of a description; more are cut."""
MAX_BYTES = 16 * 1024
"""Bytes of front matter."""
MAX_FIELD_LENGTH = 3 * MAX_DESCRIPTION_LENGTH
"""Characters that a field may take as it is written. It bounds what a hostile file costs."""
INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that count as letters or signs and show nothing."""
_KEY = re.compile(r"""["']?([A-Za-z][A-Za-z0-9_-]*)["']?[ \t]*:(?=[ \t]|$)""")
_STRUCTURE = ("|", ">", "[", "{")


class InvalidPackage(Exception):
    """The folder is no skill package; says why."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What is advertised. Both are one line of harmless text."""

    name: str
    description: str


def parse(head: str) -> FrontMatter:
    """The front matter at the beginning of a SKILL.md, of which this is the first piece. Raises BadPackage."""
    fields = _fields(_front_matter_lines(head))
    name = _field_text(fields, "name")
    if not NAME_PATTERN.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        rule = f"must be lower-case letters, digits and single hyphens, at most {MAX_NAME_LENGTH}"
        raise InvalidPackage(f"name: {rule}, not {one_line(name)[:80]!r}")
    description = one_line(_field_text(fields, "description"))
    if not description:
        raise InvalidPackage("description: is empty; say what the package does and when to use it")
    if len(description) > MAX_DESCRIPTION_LENGTH:
        description = f"{description[: MAX_DESCRIPTION_LENGTH - 1].rstrip()}…"
    return FrontMatter(name, description)


def body(text: str) -> str:
    """What stands below the front matter."""
    return "".join(text.splitlines(keepends=True)[len(_front_matter_lines(text)) + 2 :]).strip()


def one_line(text: str) -> str:
    """The text on one line, without what a reader would not see: control and format signs, tags, stray selectors."""
    seen = (sign if _is_visible(sign) else " " if sign.isspace() else "" for sign in text)
    return " ".join("".join(seen).split())


def _is_visible(sign: str) -> bool:
    selector = "\ufe00" <= sign <= "\ufe0f" or "\U000e0100" <= sign <= "\U000e01ef"
    return sign.isprintable() and sign not in INVISIBLE and not selector


def _front_matter_lines(text: str) -> list[str]:
    """The lines between the two fences."""
    lines = text.splitlines(keepends=True)
    if lines and lines[0].rstrip() == FENCE:
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() == FENCE:
                return lines[1:number]
    size = f"{MAX_BYTES // 1024} KiB"
    raise InvalidPackage(f"must begin with front matter: YAML between two lines of {FENCE}, at most {size} of it")


def _fields(lines: list[str]) -> dict[str, str]:
    """The fields of the two names as they are written, each with the lines that go on with it."""
    found: dict[str, str] = {}
    current = ""
    for line in lines:
        key = _KEY.match(line)
        if key is not None:
            current = key[1]
            if current in found and current in ("name", "description"):
                raise InvalidPackage(f"{current}: is there twice")
            found[current] = line
        elif current:
            found[current] += line
    return found


def _field_text(fields: dict[str, str], key: str) -> str:
    """A field as YAML reads it. Where it is none, as with a colon in a text without quotes, it is taken word for word:
    many published packages are written so."""
    written = fields.get(key)
    if written is None:
        raise InvalidPackage(f"{key}: is missing")
    if len(written) > MAX_FIELD_LENGTH:
        raise InvalidPackage(f"{key}: takes more than {MAX_FIELD_LENGTH} characters")
    try:
        return safe_yaml.load_pair(written)[1]
    except safe_yaml.UnsafeYaml as error:
        words = written.partition(":")[2].strip()
        if not words or words.startswith(_STRUCTURE) or words.startswith("- "):
            raise InvalidPackage(f"{key}: {error}") from None
        return words
