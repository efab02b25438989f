"""Parse the front matter of a SKILL.md: two texts that go into prompts, from a file of unknown origin.

Only `name`, `description` and `disable-model-invocation` are read. All other lines are ignored, even if they are not
YAML, and so are the format's other fields: license, compatibility, metadata, allowed-tools.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...agents import safe_yaml

FENCE = "---"
NAME_PATTERN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1024
"""Characters of a description; a longer one is cut."""
MAX_BYTES = 16 * 1024
"""Bytes of front matter."""
MAX_FIELD_LENGTH = 3 * MAX_DESCRIPTION_LENGTH
"""Characters of a field as it is written that are read, which bounds what a hostile file costs."""
INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that Python calls printable and that show nothing."""
_KEY = re.compile(r"""["']?([A-Za-z][A-Za-z0-9_-]*)["']?[ \t]*:(?=[ \t]|$)""")
_LONGEST_ESCAPE = len(r"\U0001f4c4")
_STRUCTURE = ("|", ">", "- ")
_NOT_IN_NAME = re.compile(r"[^a-z0-9]+")
_PERSON_ONLY = "disable-model-invocation"
_YES = frozenset({"true", "yes", "y", "on", "1"})
_NO_TEXT = frozenset({"", "~", "null", "Null", "NULL"})
_SWALLOWED = re.compile(r"&|!(?!!)")
"""With which a text begins whose first word YAML takes for an anchor or a tag."""
NAME_RULE = f"lower-case letters, digits and single hyphens, at most {MAX_NAME_LENGTH}"


class InvalidPackage(Exception):
    """The folder is not a valid skill package; the text says why."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The texts that sessions are offered, each one line of visible characters."""

    name: str
    description: str
    person_only: bool = False
    """Whether only a person may have it used, so that a model is not offered it."""
    warning: str = ""
    """Why the package is not called as it says."""


def parse(head: str, folder: str = "") -> FrontMatter:
    """Parse the front matter in `head`, the first bytes of a SKILL.md. `folder`: the name of its folder, after which a
    package without a valid name is called. Raises InvalidPackage."""
    fields = _fields(_front_matter_lines(head))
    name, warning = _name(fields, folder)
    description = one_line(_field_text(fields, "description"))
    if not description:
        raise InvalidPackage("description: is empty; say what the package does and when to use it")
    if len(description) > MAX_DESCRIPTION_LENGTH:
        description = f"{description[: MAX_DESCRIPTION_LENGTH - 1].rstrip()}…"
    person_only = _PERSON_ONLY in fields and is_yes(_field_text(fields, _PERSON_ONLY))
    return FrontMatter(name, description, person_only, warning)


def _name(fields: dict[str, str], folder: str) -> tuple[str, str]:
    """Return the name of a package, and why it is that of its folder if it is. Raises InvalidPackage."""
    written = _field_text(fields, "name") if "name" in fields else ""
    written = "" if written in _NO_TEXT else written
    if _is_name(written):
        return written, ""
    fault = f"name: must be {NAME_RULE}, not {one_line(written)[:80]!r}" if written else "name: is missing"
    found = _NOT_IN_NAME.sub("-", folder.lower()).strip("-")
    if not _is_name(found):
        raise InvalidPackage(f"{fault}; its folder's name makes none either: rename one of them")
    return found, f"{fault}; it is called {found}, as its folder"


def _is_name(text: str) -> bool:
    return NAME_PATTERN.fullmatch(text) is not None and len(text) <= MAX_NAME_LENGTH


def is_yes(text: str) -> bool:
    """Return whether a text is one of the words for true."""
    return text.strip().lower() in _YES


def body(text: str) -> str:
    """Return the text below the front matter. Raises InvalidPackage."""
    return "".join(text.splitlines(keepends=True)[len(_front_matter_lines(text)) + 2 :]).strip()


def one_line(text: str) -> str:
    """Return a text on one line, without invisible characters: control and format characters, tags, selectors."""
    seen = (char if _is_visible(char) else " " if char.isspace() else "" for char in text)
    return " ".join("".join(seen).split())


def _is_visible(char: str) -> bool:
    selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return char.isprintable() and char not in INVISIBLE and not selector


def _front_matter_lines(text: str) -> list[str]:
    """Return the lines between the two fences. Raises InvalidPackage."""
    lines = text.splitlines(keepends=True)
    if lines and lines[0].rstrip() == FENCE:
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() == FENCE:
                return lines[1:number]
    size = f"{MAX_BYTES // 1024} KiB"
    raise InvalidPackage(f"must begin with front matter: YAML between two lines of {FENCE}, at most {size} of it")


def _fields(lines: list[str]) -> dict[str, str]:
    """Return each field as it is written, with its continuation lines, by its name in lower case with hyphens. Raises
    InvalidPackage for a repeated one."""
    found: dict[str, str] = {}
    current = ""
    for line in lines:
        key = _KEY.match(line)
        if key is not None:
            current = key[1].lower().replace("_", "-")
            if current in found and current in ("name", "description"):
                raise InvalidPackage(f"{current}: is there twice")
            found[current] = line
        elif current:
            found[current] += line
    return found


def _field_text(fields: dict[str, str], key: str) -> str:
    """Return a field's value as YAML. A value that is not YAML, such as unquoted text with a colon, is taken literally:
    many published packages have such values. Raises InvalidPackage."""
    written = fields.get(key)
    if written is None:
        raise InvalidPackage(f"{key}: is missing; add it to the front matter")
    written = _cut(written)
    words = written.partition(":")[2].strip()
    if _SWALLOWED.match(words):
        return words
    try:
        return safe_yaml.load_pair(written)[1]
    except safe_yaml.UnsafeYaml as error:
        if not words or (words.startswith(_STRUCTURE) and "\n" in written.strip()):
            raise InvalidPackage(f"{key}: {error}") from None
        return words


def _cut(written: str) -> str:
    """Return a field of bounded length; a quoted value keeps its closing quote, and no half of an escape before it."""
    if len(written) <= MAX_FIELD_LENGTH:
        return written
    kept = written[: MAX_FIELD_LENGTH - 2].rstrip()
    quote = written.partition(":")[2].lstrip()[:1]
    if quote not in ("'", '"'):
        return f"{kept}…"
    escape = kept.rfind("\\", -_LONGEST_ESCAPE)
    return f"{kept[:escape].rstrip(quote + chr(92))}…{quote}" if escape >= 0 else f"{kept.rstrip(quote)}…{quote}"
