"""Entities that a bot sends beside its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..api_error import bad_request
from ..model import Account, Entity
from .utf16 import utf16_offsets

MOST_ENTITIES = 100
_FOUND_BY_TELEGRAM = frozenset(
    ("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card")
)
_STYLES = frozenset(("bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote"))
_MARKED = _STYLES | {"code", "pre", "text_link", "text_mention", "custom_emoji"}
_HOLDS_NOTHING = frozenset(("code", "pre"))


class _User(BaseModel):
    id: int


class _Entity(BaseModel):
    model_config = ConfigDict(strict=True)

    type: str
    offset: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(ge=0)]
    url: str | None = None
    user: _User | None = None
    language: str | None = None
    custom_emoji_id: str | None = None


_adapter = TypeAdapter(list[_Entity])


def read_entities(decoded: object, accounts: Mapping[int, Account]) -> list[Entity]:
    """Return the entities of a JSON value. A mention of an unknown person is ignored. Raises ApiError."""
    try:
        sent = _adapter.validate_python(decoded)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise bad_request(f"can't parse MessageEntity: {field}: {first['msg']}") from None
    entities = list[Entity]()
    for one in sent[:MOST_ENTITIES]:
        if one.type not in _MARKED | _FOUND_BY_TELEGRAM:
            raise bad_request("can't parse MessageEntity: Unsupported type specified")
        user = accounts.get(one.user.id) if one.user else None
        if not one.length or (one.type == "text_mention" and not user):
            continue
        entities.append(Entity(one.type, one.offset, one.length, one.url, user, one.language, one.custom_emoji_id))
    return entities


def outside_code(entities: Sequence[Entity]) -> list[Entity]:
    """Return entities without those inside of code, as Telegram does with what a parse mode has found."""
    code = sorted(
        (entity for entity in entities if entity.type in _HOLDS_NOTHING),
        key=lambda entity: (entity.offset, -entity.end, entity.type != "pre"),
    )
    outer = [
        entity for position, entity in enumerate(code) if not any(other.end >= entity.end for other in code[:position])
    ]
    return [
        entity
        for entity in entities
        if entity in outer or not any(one.offset <= entity.offset and entity.end <= one.end for one in outer)
    ]


def check_entities(text: str, entities: Sequence[Entity]) -> list[Entity]:
    """Return entities in their order, without those that Telegram finds by itself. Raises ApiError for one outside the
    text, across half a character, or across the end of another."""
    boundaries = utf16_offsets(text)
    for entity in entities:
        _check_range(entity, set(boundaries), boundaries[-1])
    marked = [entity for entity in entities if entity.type in _MARKED]
    ordered = sorted(marked, key=lambda entity: (entity.offset, -entity.end))
    open_ones = list[Entity]()
    for entity in ordered:
        while open_ones and open_ones[-1].end <= entity.offset:
            open_ones.pop()
        if open_ones and open_ones[-1].end < entity.end:
            raise bad_request(f"entity beginning at UTF-16 offset {entity.offset} overlaps the end of another entity")
        if open_ones and open_ones[-1].type in _HOLDS_NOTHING:
            raise bad_request(f"entity beginning at UTF-16 offset {entity.offset} is inside of a code entity")
        open_ones.append(entity)
    return ordered


def _check_range(entity: Entity, boundaries: set[int], end: int) -> None:
    if entity.offset >= end:
        raise bad_request(f"entity begins after the end of the text at UTF-16 offset {entity.offset}")
    if entity.end > end:
        reason = f"entity beginning at UTF-16 offset {entity.offset} ends after the end of the text"
        raise bad_request(f"{reason} at UTF-16 offset {entity.end}")
    if entity.offset not in boundaries:
        raise bad_request(f"entity begins in a middle of a UTF-16 symbol at UTF-16 offset {entity.offset}")
    if entity.end not in boundaries:
        reason = f"entity beginning at UTF-16 offset {entity.offset} ends in a middle of a UTF-16 symbol"
        raise bad_request(f"{reason} at UTF-16 offset {entity.end}")
