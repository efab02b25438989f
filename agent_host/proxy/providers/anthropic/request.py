"""Convert a request of OpenAI's shape to one of the Messages API."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  reads calls that the proxy has checked

from agent_common.profiles import fitted_schema, with_plain_names

from ....errors import ProviderFailed
from ...catalog.claude import ClaudeGeneration
from ...json_access import as_list, as_object, object_list
from ..base import ProviderCall
from .answer_schema import closed_schema
from .breakpoints import mark_breakpoints
from .conversation import Conversation
from .thinking import pass_over_bound_thinking, thinking_fields

DEFAULT_MAX_TOKENS = 32_000
"""Claude must be told a limit. Every model from 4 on takes this one."""
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_UNSUPPORTED = {"n": 1, "logprobs": False, "modalities": ["text"], "audio": None}
"""Fields that Claude has nothing for, with the value that changes nothing."""


def build_request(call: ProviderCall, passes_over: bool = False) -> bytes:
    """Return the body for the Messages API. Raises ProviderFailed, with status 400, for what Claude cannot be asked.

    `passes_over`: thinking behind something that has changed is dropped by Claude, and not refused.

    Sampling parameters are left out, because Anthropic's API refuses them since its version 2026-10-21.
    """
    payload: dict[str, Any] = from_json(call.content)
    _check_fields(payload)
    model = str(payload["model"])
    conversation = Conversation(payload["messages"])
    limit = payload.get("max_completion_tokens") or payload.get("max_tokens") or call.max_output or DEFAULT_MAX_TOKENS
    if not isinstance(limit, int):
        raise refused("max_tokens: must be a number")
    request: dict[str, Any] = {"model": model, "max_tokens": min(limit, call.max_output or limit)}
    tools = _tools(payload) or conversation.used_tools()
    generation = ClaudeGeneration.of(model)
    instruction = ""
    if tools:
        request["tools"] = tools
        choice = _tool_choice(payload)
        if not generation.forced_tools:
            choice, instruction = _unforced(choice)
        request |= {} if choice == {"type": "auto"} else {"tool_choice": choice}
    if conversation.system:
        request["system"] = conversation.system
    request["messages"] = conversation.messages
    request |= _output(payload)
    request |= thinking_fields(payload, request, generation, call.effort, conversation)
    if passes_over:
        pass_over_bound_thinking(request)
    if call.cached:
        mark_breakpoints(request)
    if instruction:  # behind the breakpoints: the next request does not have it
        conversation.add_instruction(instruction)
    if call.streamed:
        request["stream"] = True
    return to_json(request)


def _check_fields(payload: dict[str, Any]) -> None:
    for name, neutral in _UNSUPPORTED.items():
        if payload.get(name) not in (None, neutral):
            raise refused(f"{name}: Claude does not offer this; leave it out")


def refused(message: str) -> ProviderFailed:
    """Return the error for a request that cannot be converted."""
    error = ProviderFailed(message, code="invalid_request")
    error.status = 400
    return error


def _tools(payload: dict[str, Any]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    for tool in object_list(payload.get("tools")):
        function = as_object(tool.get("function"))
        name = str(function.get("name") or "")
        if not name or _BAD_NAME.search(name):
            raise refused(f"tools: the name {name!r} must have letters, digits, _ and - only")
        schema = fitted_schema(as_object(function.get("parameters")), "object")
        description, schema = with_plain_names(str(function.get("description") or ""), schema)
        described = {"description": description} if description else {}
        tools.append({"name": name, **described, "input_schema": schema})
    return tools


def _tool_choice(payload: dict[str, Any]) -> dict[str, Any]:
    given: Any = payload.get("tool_choice")
    if not payload.get("tools") or given == "none":
        return {"type": "none"}
    name = as_object(as_object(given).get("function")).get("name")
    choice: dict[str, Any] = {"type": "any" if given == "required" else "auto"}
    if name:
        choice = {"type": "tool", "name": name}
    if payload.get("parallel_tool_calls") is False:
        choice["disable_parallel_tool_use"] = True
    return choice


def _unforced(choice: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the choice without force, and the words that say instead what the model must do; none if it was free."""
    match choice["type"]:
        case "any":
            instruction = "Answer this by calling one of the tools."
        case "tool":
            instruction = f"Answer this by calling the tool {choice['name']}."
        case _:
            return choice, ""
    return {**{name: value for name, value in choice.items() if name != "name"}, "type": "auto"}, instruction


def _output(payload: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    stops: Any = payload.get("stop")
    sequences = [one for one in ([stops] if isinstance(stops, str) else as_list(stops)) if str(one).strip()]
    if sequences:
        fields["stop_sequences"] = sequences
    if isinstance(user := payload.get("user"), str) and user:
        fields["metadata"] = {"user_id": user[:256]}
    schema = as_object(as_object(payload.get("response_format")).get("json_schema")).get("schema")
    if schema:
        fields["output_config"] = {"format": {"type": "json_schema", "schema": closed_schema(schema)}}
    return fields
