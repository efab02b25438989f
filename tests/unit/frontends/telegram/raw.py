"""Updates as the Bot API gives them."""

from __future__ import annotations

from typing import Any

from telegram import User

ME = User(id=7, first_name="Helper", is_bot=True, username="helper_bot")
ANN: dict[str, Any] = {"id": 1001, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
PRIVATE: dict[str, Any] = {"id": 1001, "type": "private", "first_name": "Ann"}
GROUP: dict[str, Any] = {"id": -1000000000005, "type": "supergroup", "title": "Team"}


def message(text: str | None = None, *, chat: dict[str, Any] = PRIVATE, **fields: Any) -> dict[str, Any]:
    shown = {} if text is None else {"text": text}
    return {"message_id": 5, "date": 1_800_000_000, "chat": chat, "from": ANN, **shown, **fields}


def update(number: int = 100, kind: str = "message", **fields: Any) -> dict[str, Any]:
    return {"update_id": number, kind: fields.pop("body", None) or message(**fields)}


def entity(kind: str, text: str, part: str, **more: Any) -> dict[str, Any]:
    """An entity over the first place of a part of a text, counted as Telegram counts."""
    before = text[: text.index(part)]
    return {"type": kind, "offset": units(before), "length": units(part), **more}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
