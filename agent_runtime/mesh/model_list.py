"""Read a list of models in any shape: OpenAI's envelope, a bare list, with the names that others give to the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pydantic import ValidationError

from agent_common.json_reader import JsonLimits, read_json
from agent_common.protocol import ModelCard, is_object

MAX_LIST_BYTES = 4 * 1024 * 1024
_LIMITS = JsonLimits(max_bytes=MAX_LIST_BYTES, refuse_ambiguous=False)
_WINDOWS = (
    "context_limit",
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "inputTokenLimit",
)
_OUTPUTS = ("max_output_tokens", "max_completion_tokens", "outputTokenLimit")


def read_model_list(body: bytes) -> Sequence[ModelCard]:
    """Return the cards in a list; an entry that is none is left out. Raises ValueError if the body is no list."""
    found: Any = read_json(body, _LIMITS)
    if is_object(found):
        found = next((found[name] for name in ("data", "models") if isinstance(found.get(name), list)), None)
    if not isinstance(found, list):
        raise ValueError("the answer is not a list of models")
    entries = cast("list[Any]", found)
    return [card for entry in entries if is_object(entry) and (card := _card(entry)) is not None]


def _card(entry: dict[str, Any]) -> ModelCard | None:
    given = {
        **entry,
        "id": entry.get("id") or entry.get("name") or entry.get("model"),
        "context_limit": _size(entry, _WINDOWS),
        "max_output_tokens": _size(entry, _OUTPUTS),
    }
    for members in (given, {name: given[name] for name in _PLAIN}):  # others have prices of another shape
        try:
            return ModelCard.model_validate(members)
        except ValidationError:
            continue
    return None


_PLAIN = ("id", "context_limit", "max_output_tokens")


def _size(entry: dict[str, Any], names: Sequence[str]) -> int | None:
    return next((entry[name] for name in names if type(entry.get(name)) is int and entry[name] > 0), None)
