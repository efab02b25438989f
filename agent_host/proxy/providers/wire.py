"""Build answers in OpenAI's shape, for providers that run in this process: chunks of a stream, or one object."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from ..json_access import as_object
from .base import ProviderAnswer

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_PIECE = 32  # characters
JSON_HEADERS = {"content-type": "application/json"}
STREAM_HEADERS = {"content-type": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class ProviderToolCall:
    """A call of one of the agent's tools."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A model's answer: text, and optionally one tool call.

    Its usage is computed, not measured: a token is one word of the text, 32 characters of the arguments, or four bytes
    of the request's messages and tools.
    """

    model: str
    created: int
    """Epoch seconds."""
    prompt_tokens: int
    words: Sequence[str]
    call: ProviderToolCall | None = None
    truncated: bool = False
    """Whether the text was cut at the caller's `max_tokens`."""
    reported_usage: dict[str, Any] | None = None
    """Measured usage, which replaces the computed one; None if there is none."""

    @property
    def id(self) -> str:
        return f"chatcmpl-{self.model}-{self.created}-{self.prompt_tokens}"

    @property
    def finish_reason(self) -> str:
        return "length" if self.truncated else "tool_calls" if self.call else "stop"

    @property
    def usage(self) -> dict[str, Any]:
        if self.reported_usage is not None:
            return self.reported_usage
        completion = len(self.words) + len(_pieces(self.call))
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        }


def make_completion(payload: dict[str, Any], text: str, call: ProviderToolCall | None, created: int) -> ChatCompletion:
    """Make the answer to a request, cut at its `max_tokens`. A tool call that does not fit is left out."""
    words = _WORD.findall(text)
    most: Any = payload.get("max_completion_tokens") or payload.get("max_tokens")
    prompt = -(-len(to_json([payload.get("messages"), payload.get("tools")])) // 4)
    if isinstance(most, int) and 0 < most < len(words) + len(_pieces(call)):
        return ChatCompletion(str(payload["model"]), created, prompt, words[:most], None, truncated=True)
    return ChatCompletion(str(payload["model"]), created, prompt, words, call)


def to_answer(payload: dict[str, Any], streamed: bool, completion: ChatCompletion) -> ProviderAnswer:
    """Encode the completion as a stream or as one object, as the request asks."""
    if streamed:
        with_usage = bool(as_object(payload.get("stream_options")).get("include_usage"))
        return ProviderAnswer(200, STREAM_HEADERS, body_parts(_events(completion, with_usage)))
    return ProviderAnswer(200, JSON_HEADERS, body_parts([to_json(_whole(completion))]))


async def body_parts(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def event(value: dict[str, Any]) -> bytes:
    """Encode a server-sent event."""
    return b"data: " + to_json(value) + b"\n\n"


def chunk(completion: ChatCompletion, delta: dict[str, Any], finish: str | None = None) -> bytes:
    """Encode one chunk of a stream."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return event({**_envelope(completion, "chat.completion.chunk"), "choices": [choice]})


def _events(completion: ChatCompletion, with_usage: bool) -> list[bytes]:
    events = [chunk(completion, {"role": "assistant", "content": ""})]
    events += [chunk(completion, {"content": word}) for word in completion.words]
    events += [chunk(completion, {"tool_calls": [piece]}) for piece in _call_deltas(completion.call)]
    events.append(chunk(completion, {}, completion.finish_reason))
    if with_usage:
        events.append(
            event({**_envelope(completion, "chat.completion.chunk"), "choices": [], "usage": completion.usage})
        )
    return [*events, b"data: [DONE]\n\n"]


def _call_deltas(call: ProviderToolCall | None) -> list[dict[str, Any]]:
    if call is None:
        return []
    head = {"index": 0, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [head, *({"index": 0, "function": {"arguments": piece}} for piece in _pieces(call))]


def _whole(completion: ChatCompletion) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(completion.words) or None, "refusal": None}
    if completion.call is not None:
        function = {"name": completion.call.name, "arguments": _arguments(completion.call)}
        message["tool_calls"] = [{"id": completion.call.id, "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": completion.finish_reason}
    return {**_envelope(completion, "chat.completion"), "choices": [choice], "usage": completion.usage}


def _envelope(completion: ChatCompletion, kind: str) -> dict[str, Any]:
    return {"id": completion.id, "object": kind, "created": completion.created, "model": completion.model}


def _arguments(call: ProviderToolCall) -> str:
    return to_json(call.arguments).decode()


def _pieces(call: ProviderToolCall | None) -> list[str]:
    text = _arguments(call) if call else ""
    return [text[start : start + _ARGUMENT_PIECE] for start in range(0, len(text), _ARGUMENT_PIECE)]
