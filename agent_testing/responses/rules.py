"""Rules that the shapes do not say: parameters by model, tools, pairs of calls and results, reasoning in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .encryption import is_encrypted
from .errors import Refusal
from .models import ModelRules
from .schema import CallItem, Item, MessageItem, OutputItem, ReasoningItem, ResponsesRequest

ENCRYPTED = "reasoning.encrypted_content"
_INCLUDABLE = frozenset((ENCRYPTED, "message.output_text.logprobs", "message.input_image.image_url"))
Given = Mapping[str, Sequence[dict[str, Any]]]
"""Id of an item -> the items before it, from the reasoning on, and itself."""


def check_request(request: ResponsesRequest, model: ModelRules) -> None:
    """Raise Refusal for the first parameter that the model does not take."""
    for name in ("temperature", "top_p"):
        if model.reasons and getattr(request, name) not in (None, 1):
            text = f"Unsupported parameter: '{name}' is not supported with this model."
            raise Refusal(text, name, "unsupported_parameter")
    if request.reasoning is not None and not model.reasons:
        text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
        raise Refusal(text, "reasoning.effort", "unsupported_parameter")
    for name in request.include or ():
        if name not in _INCLUDABLE:
            raise Refusal(f"Invalid value: '{name}'.", "include[0]", "invalid_value")
        if name == ENCRYPTED and not model.reasons:
            raise Refusal("Encrypted content is not supported with this model.", "include")
    _check_tools(request)


def _check_tools(request: ResponsesRequest) -> None:
    tools = request.tools or []
    names = [tool.name for tool in tools]
    for at, tool in enumerate(tools):
        kind = (tool.parameters or {}).get("type")
        if kind != "object":
            raise Refusal(
                f"Invalid schema for function '{tool.name}': schema must be a JSON Schema of 'type: \"object\"', got "
                f"'type: \"{kind}\"'.",
                f"tools[{at}].parameters",
                "invalid_function_parameters",
            )
    choice = request.tool_choice
    if choice is None or choice in ("none", "auto"):
        return
    if not tools:
        raise Refusal("Tool choice must be 'none' or 'auto' when no tools are provided.", "tool_choice")
    wanted = [] if isinstance(choice, str) else [choice.name] if choice.type == "function" else [
        one.name for one in choice.tools
    ]  # fmt: skip
    if missing := [name for name in wanted if name not in names]:
        raise Refusal(f"Tool choice 'function' '{missing[0]}' not found in 'tools' parameter.", "tool_choice")


def check_items(items: Sequence[Item], given: Given, *, stored: bool) -> None:
    """Raise Refusal for the first broken rule of the conversation. `given`: what the double has answered before."""
    if not items:
        raise Refusal('One of "input" or "previous_response_id" or \'prompt\' must be provided.', "input")
    _check_ids(items)
    _check_calls(items)
    for at, item in enumerate(items):
        if isinstance(item, ReasoningItem):
            _check_reasoning(at, items, given, stored=stored)
        else:
            _check_reasoning_before(at, items, given)


def _check_ids(items: Sequence[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.id is not None and item.id in seen:
            text = f"Duplicate item found with id {item.id}. Remove duplicate items from your input and try again."
            raise Refusal(text, "input")
        seen.add(item.id or "")


def _check_calls(items: Sequence[Item]) -> None:
    open_calls: set[str] = set()
    for item in items:
        if isinstance(item, CallItem):
            open_calls.add(item.call_id)
        elif isinstance(item, OutputItem):
            if item.call_id not in open_calls:
                text = f"No tool call found for function call output with call_id {item.call_id}."
                raise Refusal(text, "input")
            open_calls.remove(item.call_id)
    if open_calls:
        raise Refusal(f"No tool output found for function call {min(open_calls)}.", "input")


def _check_reasoning(at: int, items: Sequence[Item], given: Given, *, stored: bool) -> None:
    item = items[at]
    assert isinstance(item, ReasoningItem)  # noqa: S101  what was asked for
    if item.encrypted_content is None:
        if not stored:
            raise Refusal(
                f"Item with id '{item.id}' not found. Items are not persisted when `store` is set to false. Try again "
                "with `store` set to true, or remove this item from your input.",
                "input",
                status=404,
            )
    elif not is_encrypted(item.id, item.encrypted_content):
        text = f"The encrypted content for item {item.id} could not be verified."
        raise Refusal(text, "input", "invalid_encrypted_content")
    following = items[at + 1] if at + 1 < len(items) else None
    if isinstance(following, OutputItem) or following is None or getattr(following, "role", "") == "user":
        text = f"Item '{item.id}' of type 'reasoning' was provided without its required following item."
        raise Refusal(text, "input")
    _check_unchanged(item, given)


def _check_reasoning_before(at: int, items: Sequence[Item], given: Given) -> None:
    """Refuse an item without the reasoning that came before it. One without an id is not known as the double's."""
    item = items[at]
    known = given.get(item.id or "")
    if known is None or isinstance(item, OutputItem):
        return
    *before, _ = known
    for back, one in enumerate(reversed(before), 1):
        found = items[at - back] if at >= back else None
        if one["type"] == "reasoning" and (not isinstance(found, ReasoningItem) or found.id != one["id"]):
            raise Refusal(
                f"Item '{item.id}' of type '{item.type}' was provided without its required 'reasoning' item: "
                f"'{one['id']}'.",
                "input",
            )
    if item.id is not None:
        _check_unchanged(item, given)


def _check_unchanged(item: MessageItem | ReasoningItem | CallItem, given: Given) -> None:
    """Refuse an item that bears an id of the double's and is not what was given with it."""
    known = given.get(item.id or "")
    if known is not None and _comparable(item.model_dump(exclude_unset=True, warnings=False)) != _comparable(known[-1]):
        raise Refusal(f"Item '{item.id}' of type '{item.type}' cannot be modified.", "input")


def _comparable(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its arguments as a value: blanks in them may differ."""
    try:
        return {**item, "arguments": json.loads(item["arguments"])} if "arguments" in item else item
    except ValueError:
        return item
