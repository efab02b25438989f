"""What a skill's `AsyncOpenAI` may ask: whole answers to text, with tools that the skill itself carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_common.protocol import is_object

PATHS = {"chat/completions": "messages", "embeddings": "input"}
"""The routes, and the field that each needs."""
# fmt: off
_FIELDS = {
    "chat/completions": frozenset((
        "model", "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "n",
        "response_format", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "presence_penalty",
        "frequency_penalty", "stream",
    )),
    "embeddings": frozenset(("model", "input", "dimensions", "encoding_format")),
}
_MEMBERS = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_details", "refusal"))
# fmt: on
_TEXT = "a skill sends text only: {'type': 'text', 'text': '...'}"


class RefusedRequest(Exception):
    """A request that is not sent; the text names the field."""


def checked_body(path: str, body: object, default_model: str) -> dict[str, Any]:
    """Return the body to send. Raises RefusedRequest: a provider would fetch what is no text, or run a hosted tool."""
    if not isinstance(path, str) or path not in PATHS:  # pyright: ignore[reportUnnecessaryIsInstance]  as sent
        raise RefusedRequest(f"/{path}: a skill may ask for {' and '.join(PATHS)} only")
    if not is_object(body) or not body.get(PATHS[path]):
        raise RefusedRequest(f"{PATHS[path]}: is required and must not be empty")
    if unknown := sorted(set(body) - _FIELDS[path]):
        raise RefusedRequest(f"{unknown[0]}: a skill may send {', '.join(sorted(_FIELDS[path]))} only")
    if not isinstance(body.get("model"), str | None):
        raise RefusedRequest("model: must be text")
    if body.get("stream"):
        raise RefusedRequest("stream: a skill gets whole answers; leave it out")
    if path == "chat/completions":
        _check_messages(body["messages"])
        _check_tools(body.get("tools"))
    return {"model": default_model, **body}


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list):
        raise RefusedRequest("messages: must be a list")
    for index, message in enumerate(cast("list[Any]", messages)):
        where = f"messages[{index}]"
        if not is_object(message) or not set(message) <= _MEMBERS:
            raise RefusedRequest(f"{where}: must be an object with {', '.join(sorted(_MEMBERS))} only")
        content: Any = message.get("content")
        parts = cast("list[Any]", content) if isinstance(content, list) else []
        if not isinstance(content, str | list | None) or not all(map(_is_text, parts)):
            raise RefusedRequest(f"{where}.content: {_TEXT}")


def _check_tools(tools: object) -> None:
    given = cast("list[Any]", tools) if isinstance(tools, list) else []
    if tools is not None and (not given or not all(is_object(one) and one.get("type") == "function" for one in given)):
        raise RefusedRequest("tools: must be a list of tools of the type function")


def _is_text(part: Any) -> bool:
    fields: Mapping[str, Any] = part if is_object(part) else {}
    return set(fields) == {"type", "text"} and fields["type"] == "text" and isinstance(fields["text"], str)
