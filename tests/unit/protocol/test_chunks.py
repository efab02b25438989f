"""The AI SDK's chunks: exact names, extra keys survive, unknown types do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from agent_common.protocol import chunks as c

WHOLE: list[dict[str, Any]] = [
    {"type": "start", "messageId": "m", "messageMetadata": {"a": None}},
    {"type": "start-step"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "x"},
    {"type": "text-end", "id": "t", "providerMetadata": {}},
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": ""},
    {"type": "reasoning-end", "id": "r"},
    {"type": "tool-input-start", "toolCallId": "c", "toolName": "n", "dynamic": True, "inputEncoding": "json"},
    {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{"},
    {"type": "tool-input-available", "toolCallId": "c", "toolName": "n", "input": {"a": None}},
    {"type": "tool-input-error", "toolCallId": "c", "toolName": "n", "input": "{", "errorText": "e"},
    {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"},
    {"type": "tool-output-available", "toolCallId": "c", "output": [None, {"b": None}], "preliminary": True},
    {"type": "tool-output-error", "toolCallId": "c", "errorText": "e"},
    {"type": "tool-output-denied", "toolCallId": "c"},
    {"type": "source-url", "sourceId": "s", "url": "u"},
    {"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "t"},
    {"type": "file", "url": "u", "mediaType": "image/png"},
    {"type": "data-note", "data": {"x": 1}, "id": "n", "transient": True},
    {"type": "message-metadata", "messageMetadata": {}},
    {"type": "error", "errorText": "e"},
    {"type": "abort", "reason": "r"},
    {"type": "finish-step"},
    {"type": "finish", "finishReason": "tool-calls", "messageMetadata": {}},
]


@pytest.mark.parametrize("given", WHOLE, ids=lambda given: given["type"])
def test_a_chunk_survives_the_wire(given: dict[str, Any]) -> None:
    chunk = c.chunk_adapter().validate_python(given)
    event = chunk.to_sse()
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert json.loads(event[6:]) == given
    assert c.chunk_adapter().validate_json(event[6:]) == chunk
    assert c.chunk_adapter().validate_python(chunk) == chunk


def test_keys_of_a_later_version_survive() -> None:
    chunk = c.chunk_adapter().validate_json('{"type": "text-delta", "id": "t", "delta": "x", "later": [1]}')
    assert json.loads(chunk.to_sse()[6:])["later"] == [1]


@pytest.mark.parametrize(
    "given",
    [
        {"type": "banana"},
        {"type": "data-"},
        {},
        {"type": None},
        [],
        "text",
        {"type": "text-delta", "id": "t"},
        {"type": "finish", "finishReason": "abort"},
        {"type": "tool-output-available", "toolCallId": "c"},
    ],
)
def test_what_is_no_chunk(given: Any) -> None:
    with pytest.raises(ValidationError):
        c.chunk_adapter().validate_python(given)


def test_a_failed_call_has_on_the_wire_what_each_ai_6_takes() -> None:
    chunk = c.ToolOutputError(toolCallId="c1", errorText="no", toolMetadata={"metadata": {}}, dynamic=True)
    assert json.loads(chunk.to_sse()[6:]).keys() == {"type", "toolCallId", "errorText", "dynamic"}
