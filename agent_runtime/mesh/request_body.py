"""The body of a model call, joined from parts that were serialized once, and the headers that say whose it is."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from agent_common.protocol import (
    CALLER_HEADER,
    SESSION_HEADER,
    SUBAGENT_HEADER,
    USER_HEADER,
    Caching,
    Profile,
)

from ..ports import ModelRequest
from .caching import cache_fields, with_cache_marks
from .dialect import messages_for, tools_for


def request_body(request: ModelRequest, caching: Caching, maker: str, profile: Profile) -> bytes:
    """Return the request as JSON, as its model takes it."""
    head: dict[str, Any] = {"model": request.model, "stream": True}
    if profile.stream_options is not False:
        head["stream_options"] = {"include_usage": True}
    if request.max_tokens is not None and profile.output_limit != "none":
        head[profile.output_limit or "max_tokens"] = request.max_tokens
    if request.temperature is not None and profile.temperature is not False:
        head["temperature"] = request.temperature
    if profile.prompt_cache_key is not False:
        head |= cache_fields(caching, request)
    tools = tools_for(request, profile)
    if tools is not None and profile.effort_with_tools is not None:
        head["reasoning_effort"] = profile.effort_with_tools
    messages = messages_for(request, maker, profile)
    if caching == "breakpoints":
        messages = with_cache_marks(messages)
    pieces = [to_json(head)[:-1], b',"messages":[', b",".join(messages), b"]"]
    if tools is not None:
        pieces += [b',"tools":', tools]
    if tools is not None and profile.tool_choice is not False:
        choice = "auto" if profile.tool_choice_none is False else request.tool_choice
        pieces += [b',"tool_choice":"', choice.encode(), b'"']
    return b"".join((*pieces, b"}"))


def origin_headers(request: ModelRequest) -> dict[str, str]:
    """Return what the host's ledger is stated of a request."""
    stated = {
        SESSION_HEADER: request.session_id,
        CALLER_HEADER: request.caller_session_id,
        SUBAGENT_HEADER: request.subagent,
        USER_HEADER: request.user,
    }
    return {name: quote(value, safe="") for name, value in stated.items() if value}
