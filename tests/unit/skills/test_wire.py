from __future__ import annotations

import json

import pytest
from pydantic_core import to_json

from agent_runtime.skills.workers.protocol import BrokenProtocol, pack, unpack


def test_what_is_packed_comes_out_again() -> None:
    message = {"type": "result", "value": {"text": "\N{GRINNING FACE} \\ud800 é", "number": 1.5}}
    assert unpack(pack(message)) == message


@pytest.mark.parametrize("text", ["\ud800", "\ud83d \N{GRINNING FACE}", "\\ud83d" + "\udc00"])
def test_half_characters_get_no_further(text: str) -> None:
    message = unpack(pack({"type": "error", text: [text]}))
    assert b"?" in to_json(message)


@pytest.mark.parametrize(
    "line",
    [b'{"type": "x", "value": "\xed\xa0\x80"}', b'{"type": NaN}', b"[]", b"{}", b"[" * 100_000, b"\xff\xfe{\0}\0"],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(BrokenProtocol):
        unpack(line)


def test_a_line_in_another_encoding_is_refused() -> None:
    with pytest.raises(BrokenProtocol):
        unpack(json.dumps({"type": "ready"}).encode("utf-16"))
