"""A text that a bot sends: parsed, trimmed, checked, and with what Telegram finds in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..api_error import bad_request
from ..model import Account, Content, Entity
from .detection import detect
from .entities import MOST_ENTITIES, check_entities, outside_code
from .html import parse_html
from .markdown import parse_markdown
from .markdown_v2 import parse_markdown_v2
from .utf16 import length

_Parser = Callable[[str, Mapping[int, Account]], tuple[str, list[Entity]]]
_PARSERS: Mapping[str, _Parser] = {
    "markdownv2": parse_markdown_v2,
    "markdown": parse_markdown,
    "html": parse_html,
}


def formatted_text(text: str, parse_mode: str, entities: Sequence[Entity], accounts: Mapping[int, Account]) -> Content:
    """Return a text as people will see it. Raises ApiError."""
    text = text.replace("\r\n", "\n").replace("\0", " ")
    if parse_mode and parse_mode.lower() != "none":
        parser = _PARSERS.get(parse_mode.lower())
        if parser is None:
            raise bad_request("unsupported parse_mode")
        text, found = parser(text, accounts)
        entities = outside_code(found)[:MOST_ENTITIES]
    text, ordered = _trimmed(text, check_entities(text, entities))
    detected = detect(text, ordered)
    everything = sorted([*ordered, *detected], key=lambda entity: (entity.offset, -entity.end))
    mentions = [entity for entity in ordered if entity.type == "text_mention"]
    return Content(text, everything, detected=[*detected, *mentions])


def _trimmed(text: str, entities: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """Remove blank characters at both ends, and the parts of entities in them."""
    start = length(text) - length(text.lstrip())
    trimmed = text.strip()
    end = start + length(trimmed)
    kept = list[Entity]()
    for entity in entities:
        first = max(entity.offset, start)
        last = min(entity.end, end)
        if first < last:
            kept.append(replace(entity, offset=first - start, length=last - first))
    return trimmed, kept
