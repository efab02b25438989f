"""Small prompts for a model of 135 million parameters.

The model cannot call tools by itself, and the agent's prompt is too long for it, so it sees only the user's message. If
the message mentions files and no tool has answered yet, the output is constrained to the schema of one call of a
read-only tool, with the file names of the message as choices. After the result it answers in text, without tools.
"""

from __future__ import annotations

import re
from typing import Any

from agent_common.json_reader import JsonLimits, read_json
from agent_common.protocol import without_notes

from ...json_access import as_object, object_list, text_of

_FILES = re.compile(r"\bfiles?\b|\bfolder\b", re.IGNORECASE)
_NAME = re.compile(r"\b[\w./-]*\w\.[A-Za-z]\w{0,4}\b")
_MOST_NAMES = 20
_MOST_TEXT = 2_000  # characters; longer messages would be too slow
_MOST_TOKENS = 256
_CALL_TOKENS = 96
_PLAIN_PROMPT = "You are a helpful AI assistant."
_RESULT_PROMPT = "You are a helpful AI assistant. Answer in a few short sentences."
_CALL_PROMPT = (
    "Answer with one tool call as JSON. The tool read shows a file by its path, glob lists files by a pattern."
)
Choices = dict[str, dict[str, list[str]]]
"""Tools to choose from, each with the values that its one argument may take."""


def call_choices(payload: dict[str, Any]) -> Choices:
    """Return the calls that the model may choose from now; empty if it should answer in text."""
    messages = object_list(payload["messages"])
    if payload.get("tool_choice") == "none" or _tool_results(messages) is not None:
        return {}
    asked = _last_question(messages)
    names = list(dict.fromkeys(_NAME.findall(asked)))[:_MOST_NAMES]
    candidates: Choices = {"read": {"path": names}} if names else {}
    if _FILES.search(asked):
        candidates["glob"] = {"pattern": ["**/*"]}
    offered = {as_object(tool.get("function")).get("name") for tool in object_list(payload.get("tools"))}
    return {tool: argument for tool, argument in candidates.items() if tool in offered}


def call_request(payload: dict[str, Any], choices: Choices) -> dict[str, Any]:
    """Return a request whose answer is constrained to the schema of one call."""
    shapes = [_call_schema(tool, argument) for tool, argument in choices.items()]
    return {
        "messages": [
            _message("system", _CALL_PROMPT),
            _message("user", _last_question(object_list(payload["messages"]))),
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "call", "schema": {"anyOf": shapes}}},
        "max_tokens": _CALL_TOKENS,
        "temperature": 0,
    }


def plain_request(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a request for an answer in text, always with a token limit because the model may not stop by itself."""
    messages = object_list(payload["messages"])
    asked = _last_question(messages)
    result = _tool_results(messages)
    manner = _PLAIN_PROMPT
    if result is not None:
        manner = _RESULT_PROMPT
        asked += f"\n\nA tool found this:\n{result}\n\nAnswer with what it found."
    limit: Any = payload.get("max_completion_tokens") or payload.get("max_tokens")
    most = min(limit, _MOST_TOKENS) if isinstance(limit, int) and limit > 0 else _MOST_TOKENS
    return {"messages": [_message("system", manner), _message("user", asked)], "max_tokens": most, "temperature": 0.2}


def parse_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Parse the name and arguments of the call in the model's output. Returns None if the output was cut off."""
    try:
        call: Any = read_json(text.encode(), JsonLimits(1 << 20))
    except ValueError:
        return None
    return call["name"], call["arguments"]


def _call_schema(tool: str, argument: dict[str, list[str]]) -> dict[str, Any]:
    values = {name: {"enum": choices} for name, choices in argument.items()}
    return _object({"name": {"const": tool}, "arguments": _object(values)})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **closed}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _last_question(messages: list[dict[str, Any]]) -> str:
    """Return the user's last message, cut to `_MOST_TEXT`."""
    user_texts = [
        without_notes(text_of(message.get("content"))) for message in messages if message.get("role") == "user"
    ]
    return next(filter(None, reversed(user_texts)), "")[:_MOST_TEXT]


def _tool_results(messages: list[dict[str, Any]]) -> str | None:
    """Return the results of tools since the user's last message, or None."""
    last = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    results = [text_of(message.get("content")) for message in messages[last + 1 :] if message.get("role") == "tool"]
    return "\n".join(results)[:_MOST_TEXT] if results else None
