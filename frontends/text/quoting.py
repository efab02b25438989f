"""Texts of our own around what others have chosen: names, paths, arguments of tools."""

from __future__ import annotations

import json
import re

from agent_common.json_reader import JsonLimits, JsonRefused, read_json

from .characters import beginning, revealed, utf16_length

_SIGNS = re.compile(r"[!-/:-@\[-`{-~]")
_FENCES = re.compile("`{3,}")
_JSON = JsonLimits(max_bytes=64 * 1024, max_values=2_000, max_depth=20)
_LEFT_OUT = "\n… {count:,} characters left out …\n"
_NOTE_LENGTH = 60
"""For that line."""


def escape(text: str) -> str:
    """Return Markdown that shows this text in one line, and nothing of it as markup."""
    return _SIGNS.sub(r"\\\g<0>", revealed(" ".join(text.split())))


def code_block(text: str, language: str = "", limit: int = 1200) -> str:
    """Return Markdown that shows a text as code of at most `limit` UTF-16 code units: JSON with a line for each member,
    nothing invisible, and the middle left out. Who approves a command must see what it does."""
    pretty = _pretty(text)
    if pretty != text:
        language = language or "json"
    shown = _shortened(pretty.replace("\r\n", "\n"), limit)
    fence = "`" * (max(map(len, _FENCES.findall(shown)), default=2) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _shortened(text: str, limit: int) -> str:
    whole = _revealed_lines(text[: 2 * limit])
    if len(text) <= 2 * limit and utf16_length(whole) <= limit:
        return whole
    kept = max(limit - _NOTE_LENGTH, 0)
    head = text[: kept * 2 // 3]
    tail = text[-(kept // 3) :]
    while utf16_length(_revealed_lines(head)) > kept * 2 // 3:
        head = beginning(head, utf16_length(head) * 3 // 4)
    while utf16_length(_revealed_lines(tail)) > kept // 3:
        tail = tail[max(1, len(tail) // 4) :]
    count = len(text) - len(head) - len(tail)
    return f"{_revealed_lines(head)}{_LEFT_OUT.format(count=count)}{_revealed_lines(tail)}"


def _revealed_lines(text: str) -> str:
    return "\n".join(revealed(line.replace("\t", "    ")) for line in text.split("\n"))


def _pretty(text: str) -> str:
    """Return JSON in lines, and anything else as it is: also what two readers may understand differently."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.dumps(read_json(text.encode(), _JSON), indent=2, ensure_ascii=False)
    except (JsonRefused, UnicodeEncodeError):
        return text
