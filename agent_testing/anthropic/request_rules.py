"""Rules of a request that its shape does not say: tools, thinking, sampling, cache breakpoints, the window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from .errors import Refusal
from .models import ModelRules
from .schema import CacheControl, CountedRequest, Message, MessagesRequest, Text, ToolResult, ToolUse

OLD_VERSION = "2023-06-01"
VERSIONS = (OLD_VERSION, "2026-10-21")
MOST_BREAKPOINTS = 4
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_UNSUPPORTED = frozenset((
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("maxItems", "uniqueItems", "oneOf"),
))  # fmt: skip
"""Keywords that the schema of an answer may not have."""
_SAMPLING = ("temperature", "top_p", "top_k")


def check_request(request: CountedRequest, model: ModelRules, version: str) -> None:
    """Raise Refusal for the first rule that is broken, in the API's words."""
    if not request.messages:
        raise Refusal("messages: at least one message is required")
    _check_tools(request)
    _check_choice(request, model)
    _check_thinking(request, model)
    if request.output_config is not None and request.output_config.format is not None:
        _check_schema(request.output_config.format.get("schema"))
    if isinstance(request, MessagesRequest):
        _check_sampling(request, version)
        if request.max_tokens > model.output:
            raise Refusal(
                f"max_tokens: {request.max_tokens} > {model.output}, which is the maximum allowed number of output "
                f"tokens for {request.model}"
            )
        if any(not sequence.strip() for sequence in request.stop_sequences or ()):
            raise Refusal("stop_sequences: each stop sequence must contain non-whitespace")
    _check_breakpoints(request)


def thinks(request: CountedRequest, model: ModelRules) -> bool:
    """Whether the model thinks about this request."""
    return model.thinks if request.thinking is None else request.thinking.type != "disabled"


def _check_tools(request: CountedRequest) -> None:
    tools = request.tools or []
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise Refusal("tools: Tool names must be unique.")
    for at, tool in enumerate(tools):
        if {"oneOf", "anyOf", "allOf"} & set(tool.input_schema.model_extra or {}):
            raise Refusal(
                f"tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
        if any(_PROPERTY.fullmatch(name) is None for name in tool.input_schema.properties or {}):
            raise Refusal(
                f"tools.{at}.custom.input_schema.properties: Property keys should match pattern '^{_PROPERTY.pattern}$'"
            )
    if not tools and any(isinstance(block, ToolUse | ToolResult) for block in _blocks(request.messages)):
        raise Refusal("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _check_choice(request: CountedRequest, model: ModelRules) -> None:
    tools = request.tools or []
    choice = request.tool_choice
    if choice is None:
        return
    if not tools and choice.type != "none":
        raise Refusal("tool_choice may only be specified while providing tools")
    if choice.type == "tool" and choice.name not in [tool.name for tool in tools]:
        raise Refusal(f"Tool '{choice.name}' not found in provided tools")
    if choice.type in ("any", "tool") and not model.forced_tools:
        raise Refusal('tool_choice: type "tool" and "any" are not supported for this model.')
    if choice.type in ("any", "tool") and request.thinking is not None and request.thinking.type != "disabled":
        raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")


def _check_thinking(request: CountedRequest, model: ModelRules) -> None:
    thinking = request.thinking
    if thinking is None or (thinking.type == "disabled" and model.disabled):
        return
    if thinking.type == "adaptive":
        if not model.adaptive:
            raise Refusal("adaptive thinking is not supported on this model")
        return
    if thinking.type == "disabled" or not model.budget:
        raise Refusal(
            f'"thinking.type.{thinking.type}" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    if isinstance(request, MessagesRequest) and request.max_tokens <= thinking.budget_tokens:
        raise Refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_schema(schema: object) -> None:
    """Check the schema of an answer, and all within it."""
    if not isinstance(schema, dict):
        return
    node = cast("dict[str, Any]", schema)
    kind = node.get("type")
    where = "output_config.format.schema"
    if kind == "object" and node.get("additionalProperties") is not False:
        raise Refusal(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    if found := sorted(_UNSUPPORTED & node.keys()):
        raise Refusal(f"{where}: For '{kind}' type, properties {', '.join(found)} are not supported")
    for name in ("properties", "$defs"):
        for inner in node.get(name, {}).values():
            _check_schema(inner)
    for inner in (*node.get("anyOf", ()), *node.get("allOf", ()), node.get("items")):
        _check_schema(inner)


def _check_sampling(request: MessagesRequest, version: str) -> None:
    given = [name for name in _SAMPLING if name in request.model_fields_set]
    if given and version != OLD_VERSION:
        raise Refusal(f"{given[0]}: Extra inputs are not permitted")
    if request.temperature is not None and request.top_p is not None:
        raise Refusal("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    if request.thinking is None or request.thinking.type == "disabled":
        return
    if request.temperature not in (None, 1):
        raise Refusal("`temperature` may only be set to 1 when thinking is enabled.")
    if request.top_k is not None:
        raise Refusal("`top_k` must be unset when thinking is enabled.")
    if request.top_p is not None and request.top_p < 0.95:
        raise Refusal("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")


def _check_breakpoints(request: CountedRequest) -> None:
    marks = sum(control is not None for control in _controls(request))
    if marks > MOST_BREAKPOINTS:
        raise Refusal(f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {marks}.")
    for at, message in enumerate(request.messages):
        for number, block in enumerate(message.blocks):
            if isinstance(block, Text) and block.cache_control is not None and not block.text:
                raise Refusal(f"messages.{at}.content.{number}.text: cache_control cannot be set for empty text blocks")


def _controls(request: CountedRequest) -> Iterator[CacheControl | None]:
    yield request.cache_control
    yield from (tool.cache_control for tool in request.tools or ())
    if isinstance(request.system, list):
        yield from (text.cache_control for text in request.system)
    yield from (getattr(block, "cache_control", None) for block in _blocks(request.messages))


def _blocks(messages: list[Message]) -> Iterator[object]:
    for message in messages:
        yield from message.blocks
