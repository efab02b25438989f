"""What the items of an answer say in words."""

from __future__ import annotations

from typing import Any

from ...json_access import object_list


def words_of(item: dict[str, Any]) -> dict[str, str]:
    """Return the words of an item by the members of a chat message: `content`, `refusal`, `reasoning`."""
    parts = object_list(item.get("content"))
    match item.get("type"):
        case "message":
            words = {"content": _texts(parts, "text"), "refusal": _texts(parts, "refusal")}
            return {member: "".join(texts) for member, texts in words.items() if texts}
        case "reasoning" if texts := _texts(object_list(item.get("summary")) or parts, "text"):
            return {"reasoning": "\n\n".join(texts)}
        case _:
            return {}


def _texts(parts: list[dict[str, Any]], member: str) -> list[str]:
    return [str(part[member]) for part in parts if part.get(member)]
