"""Convert a request for a chat completion to one of the Responses API."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  reads calls that the proxy has checked

from ...json_access import as_list, as_object, object_list
from ..base import ProviderCall
from .conversation import InputItems
from .parts import refused

MIN_OUTPUT_TOKENS = 16
"""OpenAI refuses a smaller limit of an answer."""
ENCRYPTED = "reasoning.encrypted_content"
_PLAIN_MODELS = re.compile(r"(?:^|/)(?:gpt-[34]|chatgpt|gpt-\d[\d.]*-chat)", re.IGNORECASE)
"""OpenAI's models that do not reason; all others do."""
_UNSUPPORTED = {"n": 1, "stop": [], "logprobs": False, "modalities": ["text"], "audio": None, "prediction": None}
"""Fields that the API has nothing for, with the value that changes nothing."""
# fmt: off
_CONVERTED = frozenset((
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "response_format", "verbosity",
    "max_tokens", "max_completion_tokens", "reasoning_effort", "reasoning", "include", "text",
))
_LEFT_OUT = frozenset((
    "seed", "presence_penalty", "frequency_penalty", "logit_bias", "top_k", "min_p", "repetition_penalty",
    "top_logprobs", "functions", "function_call",
))
"""Fields of chat that the API does not take, and that change the sampling only or are out of use."""
# fmt: on


def build_request(call: ProviderCall, refused_members: Collection[str] = ()) -> bytes:
    """Return the body for the Responses API. Raises ProviderFailed, with status 400, for what it cannot be asked.

    `refused_members`: `include` or `summary`, if the model has refused it.
    """
    payload: dict[str, Any] = from_json(call.content)
    for name, neutral in _UNSUPPORTED.items():
        if payload.pop(name, None) not in (None, neutral):
            raise refused(f"{name}: the Responses API does not offer this; leave it out")
    conversation = InputItems(payload["messages"])
    model = str(payload["model"])
    request: dict[str, Any] = {"model": model, "store": False}
    if conversation.instructions:
        request["instructions"] = "\n\n".join(conversation.instructions)
    request["input"] = conversation.items
    request |= _limits(payload, call.max_output)
    request |= _tools(payload)
    request |= _text(payload)
    if not _PLAIN_MODELS.search(model):
        request |= _reasoning(payload, call.effort, refused_members)
    request |= {name: value for name, value in payload.items() if name not in _CONVERTED | _LEFT_OUT}
    if call.streamed:
        request["stream"] = True
    return to_json(request)


def _limits(payload: dict[str, Any], most: int | None) -> dict[str, Any]:
    limit = payload.get("max_completion_tokens") or payload.get("max_tokens") or most
    if limit is None:
        return {}
    if not isinstance(limit, int):
        raise refused("max_tokens: must be a number")
    return {"max_output_tokens": max(min(limit, most or limit), MIN_OUTPUT_TOKENS)}


def _tools(payload: dict[str, Any]) -> dict[str, Any]:
    tools = [_tool(tool) for tool in object_list(payload.get("tools"))]
    if not tools:
        return {}
    choice: Any = payload.get("tool_choice")
    return {"tools": tools, **({"tool_choice": _choice(choice)} if choice else {})}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    inner = as_object(tool.get("function") or tool.get("custom"))
    if tool.get("type") not in ("function", "custom") or not inner:
        return tool  # one that OpenAI runs
    known = {name: value for name, value in inner.items() if value is not None}
    if tool["type"] == "custom":
        raise refused("tools: the host converts tools of the type function only")
    return {"type": "function", "parameters": {"type": "object", "properties": {}}, "strict": False, **known}


def _choice(given: Any) -> Any:
    """Return a choice of tools, whose members stand one level higher than in chat completions."""
    about = as_object(given)
    match about.get("type"):
        case "function":
            return {"type": "function", "name": as_object(about.get("function")).get("name")}
        case "allowed_tools":
            allowed = as_object(about.get("allowed_tools"))
            named = [_choice(tool) for tool in object_list(allowed.get("tools"))]
            return {"type": "allowed_tools", "mode": allowed.get("mode", "auto"), "tools": named}
        case _:
            return "required" if given == "any" else given


def _text(payload: dict[str, Any]) -> dict[str, Any]:
    form = as_object(payload.get("response_format"))
    text: dict[str, Any] = dict(as_object(payload.get("text")))
    if form.get("type") == "json_schema":
        text["format"] = {"type": "json_schema", **as_object(form.get("json_schema"))}
    elif form:
        text["format"] = form
    if payload.get("verbosity"):
        text["verbosity"] = payload["verbosity"]
    return {"text": text} if text else {}


def _reasoning(payload: dict[str, Any], effort: str | None, refused_members: Collection[str]) -> dict[str, Any]:
    given = as_object(payload.get("reasoning"))
    asked: Any = payload.get("reasoning_effort") or given.get("effort") or effort
    reasoning = {} if "summary" in refused_members else {"summary": "auto"}
    reasoning |= {name: value for name, value in given.items() if name in ("summary", "context")}
    if asked:
        reasoning["effort"] = asked
    wanted = [str(one) for one in as_list(payload.get("include"))]
    if "include" not in refused_members and ENCRYPTED not in wanted:
        wanted.append(ENCRYPTED)
    return {**({"include": wanted} if wanted else {}), **({"reasoning": reasoning} if reasoning else {})}
