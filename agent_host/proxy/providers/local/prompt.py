"""What a model of 135 million parameters is asked: little, and one thing at a time.

It cannot call tools by itself, nor hold the agent's whole prompt. So it is shown the user's message alone. While a
message speaks of files and no tool has answered yet, its output is held to the schema of one call of a tool that only
looks; after the result it answers in plain words, without tools.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

from ...loose import members, objects, text_of

_FILES = re.compile(r"\bfiles?\b|\bfolder\b|\b[\w-]+\.\w{1,4}\b", re.IGNORECASE)
_TOOLS = {"glob": "pattern", "read": "path"}
"""Tools that it may call, each with the one argument that it fills in."""
_MOST_TEXT = 2_000  # characters of a message that the model can take in at a bearable pace
_MOST_TOKENS = 256
_CALL_TOKENS = 96
_PLAIN = "You are a small assistant. Answer in a few short sentences."
_CALLING = (
    "Answer with one tool call as JSON. glob finds files by a pattern, read shows a file. "
    'For the message "What does a.txt say?" answer {"name": "read", "arguments": {"path": "a.txt"}}.'
)


def wants_call(payload: dict[str, Any]) -> list[str]:
    """Names of the tools it is to choose from now; empty when it is to answer in words."""
    messages = objects(payload["messages"])
    if payload.get("tool_choice") == "none" or _result(messages) is not None or not _FILES.search(_asked(messages)):
        return []
    offered = {members(tool.get("function")).get("name") for tool in objects(payload.get("tools"))}
    return [name for name in _TOOLS if name in offered]


def call_request(payload: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    """A request whose answer is held to the schema of one call."""
    return {
        "messages": [_said("system", _CALLING), _said("user", _asked(objects(payload["messages"])))],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "call", "schema": {"anyOf": [_call_schema(name) for name in tools]}},
        },
        "max_tokens": _CALL_TOKENS,
        "temperature": 0,
    }


def plain_request(payload: dict[str, Any]) -> dict[str, Any]:
    """A request for an answer in words, always with a limit: the model may not find an end by itself."""
    messages = objects(payload["messages"])
    asked, result = _asked(messages), _result(messages)
    if result is not None:
        asked += f"\n\nA tool found this:\n{result}\n\nAnswer with what it found."
    limit: Any = payload.get("max_completion_tokens") or payload.get("max_tokens")
    most = min(limit, _MOST_TOKENS) if isinstance(limit, int) and limit > 0 else _MOST_TOKENS
    return {"messages": [_said("system", _PLAIN), _said("user", asked)], "max_tokens": most, "temperature": 0.2}


def read_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of the call in the model's words; None when the words were cut before its end."""
    try:
        call: Any = from_json(text)
    except ValueError:
        return None
    return call["name"], call["arguments"]


def _call_schema(name: str) -> dict[str, Any]:
    return _object({"name": {"const": name}, "arguments": _object({_TOOLS[name]: {"type": "string", "maxLength": 80}})})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **closed}


def _said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _asked(messages: list[dict[str, Any]]) -> str:
    """The last message of the user, as much of it as the model can take in."""
    asked = [message.get("content") for message in messages if message.get("role") == "user"]
    return text_of(asked[-1])[:_MOST_TEXT] if asked else ""


def _result(messages: list[dict[str, Any]]) -> str | None:
    """What tools answered since the user's last message."""
    last = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    results = [text_of(message.get("content")) for message in messages[last + 1 :] if message.get("role") == "tool"]
    return "\n".join(results)[:_MOST_TEXT] if results else None
