"""The parse mode Markdown, which Telegram keeps for old bots."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..model import Account, Entity
from .builder import TextBuilder, unparsable

_FENCE = re.compile(r"```(?:([^\s`]+)(?=\s))?\s?(.*?)```", re.DOTALL)
_SPANS = {"*": "bold", "_": "italic", "`": "code"}


def parse_markdown(source: str, accounts: Mapping[int, Account]) -> tuple[str, list[Entity]]:
    """Return the text and its entities, which do not nest. Raises ApiError as Telegram does."""
    result = TextBuilder(accounts)
    at = 0
    while at < len(source):
        character = source[at]
        if character == "\\" and source[at + 1 : at + 2] in tuple("_*`["):
            result.append(source[at + 1])
            at += 2
        elif character in _SPANS or character == "[":
            at = _entity(source, at, result)
        else:
            result.append(character)
            at += 1
    return result.text, result.entities


def _entity(source: str, at: int, result: TextBuilder) -> int:
    """Read one entity and return where it ends."""
    start = result.size
    if source.startswith("```", at):
        if not (fence := _FENCE.match(source, at)):
            raise _endless(source, at)
        result.append(fence[2])
        result.close("pre", start, language=fence[1])
        return fence.end()
    close = "]" if source[at] == "[" else source[at]
    end = source.find(close, at + 1)
    if end < 0:
        raise _endless(source, at)
    result.append(source[at + 1 : end])
    if close != "]":
        result.close(_SPANS[close], start)
        return end + 1
    url = re.compile(r"\(([^)]*)\)").match(source, end + 1)
    result.close_link(start, url[1] if url else result.since(start))
    return url.end() if url else end + 1


def _endless(source: str, at: int) -> Exception:
    return unparsable(f"Can't find end of the entity starting at byte offset {len(source[:at].encode())}")
