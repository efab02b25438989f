"""Events and documents whose strings hold what JSON forbids, but which say plainly what was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.completions import mend_arguments
from agent_common.errors import ModelError

from .support import call, read, stream

DAMAGED = {
    "escape sequence": ("a\x1b[0mb", r"\u001b", "\x1b"),
    "tab": ("a\tb", r"\t", "\t"),
    "NUL": ("a\0b", r"\u0000", "\0"),
    "unknown escape": (r"a\d", r"\\d", r"\d"),
    "short code": (r"a\u12 b", r"\\u12", r"\u12"),
    "apostrophe": (r"it\'s", r"\\'", r"\'"),
}
"""What was meant, and a piece of its JSON with what some servers send in its place."""


def damaged(name: str, right: dict[str, Any] | bytes) -> bytes:
    _, escaped, raw = DAMAGED[name]
    body = right if isinstance(right, bytes) else json.dumps(right).encode()
    assert escaped.encode() in body
    return body.replace(escaped.encode(), raw.encode())


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("size", [0, 1])
def test_text_of_a_stream(name: str, size: int) -> None:
    text = DAMAGED[name][0]
    found = read(damaged(name, stream({"content": "Plain. "}, {"content": text}, {"content": "."})), size)
    assert found.text == f"Plain. {text}."


@pytest.mark.parametrize("name", DAMAGED)
def test_the_last_event_without_a_line_end(name: str) -> None:
    text = DAMAGED[name][0]
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    assert read(b"data: " + damaged(name, event)).text == text


@pytest.mark.parametrize("name", DAMAGED)
def test_arguments_of_a_call(name: str) -> None:
    meant, _, raw = DAMAGED[name]
    body = stream(call(index=0, id="x", name="write", arguments='{"text": "HERE"}'))
    ((_, arguments),) = read(body.replace(b"HERE", (meant[0] + raw + meant[-1]).encode())).calls
    assert mend_arguments(arguments) == {"text": meant[0] + raw + meant[-1]}


@pytest.mark.parametrize("name", [*DAMAGED, "line break"])
@pytest.mark.parametrize("length", [0, 300_000])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_whole_document(name: str, length: int, indent: int | None) -> None:
    text, escaped, raw = DAMAGED.get(name, ("a\nb", r"\n", "\n"))
    text += "x" * length
    document = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    body = json.dumps(document, indent=indent).replace(escaped, raw)
    assert read(body.encode(), 60_000).text == text


def test_what_was_cut_off_is_no_event() -> None:
    with pytest.raises(ModelError, match="not JSON"):
        read(b'data: {"choices": [{"delta": {"content": "a\x1b\n\ndata: [DONE]\n\n')
