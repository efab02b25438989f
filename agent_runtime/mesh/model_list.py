"""Read a list of models in any shape: OpenAI's envelope, a bare list, with the names that others give to the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic import ValidationError

from agent_common.json_reader import JsonLimits, read_json
from agent_common.protocol import ModelCard, is_object

MAX_LIST_BYTES = 4 * 1024 * 1024
_LIMITS = JsonLimits(max_bytes=MAX_LIST_BYTES, refuse_ambiguous=False)
_IDS = ("id", "slug", "name", "model", "model_name")
_WINDOWS = (
    *("context_limit", "loaded_context_length", "n_ctx"),  # as it is loaded, which may be smaller than what it can be
    *("context_length", "max_model_len", "context_window", "max_context_length", "inputTokenLimit"),
    *("max_input_tokens", "max_context_window_tokens", "context_size", "contextWindow", "context"),
)
_OUTPUTS = ("max_output_tokens", "max_completion_tokens", "outputTokenLimit", "max_output_length", "output")
_LISTS = ("data", "models", "result")
_PLAIN = ("id", "context_limit", "max_output_tokens")
_INNER = (("top_provider",), ("limits",), ("limit",), ("metadata",), ("meta",), ("capabilities", "limits"))
"""Paths of the objects in an entry that may have its sizes."""
_MAX_DIGITS = 12


def read_model_list(body: bytes) -> Sequence[ModelCard]:
    """Return the cards in a list; an entry that is none is left out. Raises ValueError if the body is no list."""
    found: Any = read_json(body, _LIMITS)
    if is_object(found):
        lists: list[Any] = [found[name] for name in _LISTS if isinstance(found.get(name, ""), list | None)]
        found = next((one for one in lists if one), list[Any]() if lists else None)
    if not isinstance(found, list):
        raise ValueError("the answer is not a list of models")
    cards = (_card({"id": entry} if isinstance(entry, str) else entry) for entry in cast("list[Any]", found))
    return [card for card in cards if card is not None]


def _card(entry: Any) -> ModelCard | None:
    if not is_object(entry):
        return None
    objects = [entry, *(inner for path in _INNER if (inner := _inner(entry, path)) is not None)]
    given = {
        **entry,
        "id": next((entry[name] for name in _IDS if entry.get(name)), None),
        "context_limit": min(_windows(entry, objects), default=None),
        "max_output_tokens": _size(objects, _OUTPUTS),
    }
    for members in (given, {name: given[name] for name in _PLAIN}):  # others have prices of another shape
        try:
            return ModelCard.model_validate(members)
        except ValidationError:
            continue
    return None


def _windows(entry: dict[str, Any], objects: Sequence[dict[str, Any]]) -> Iterator[int]:
    """Yield the window of the model itself, and as each of those has it who may answer in a gateway."""
    providers = entry.get("providers")
    served = [entry.get("top_provider"), *(cast("list[Any]", providers) if isinstance(providers, list) else ())]
    for several in (objects, *([one] for one in served if is_object(one))):
        if size := _size(several, _WINDOWS):
            yield size


def _inner(entry: dict[str, Any], path: Sequence[str]) -> dict[str, Any] | None:
    found: Any = entry
    for name in path:
        found = found.get(name) if is_object(found) else None
    return found if is_object(found) else None


def _size(objects: Sequence[dict[str, Any]], names: Sequence[str]) -> int | None:
    """Return the first size under one of the names, in the order of the names."""
    sizes = (_whole(one.get(name)) for name in names for one in objects)
    return next((size for size in sizes if size), None)


def _whole(value: Any) -> int | None:
    """Return the tokens in a number, or in a text that is one; None if it has none."""
    text = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
