"""What is read of the lines that a program prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.json_reader import JsonRefused
from agent_runtime.connectors.transport.message_lines import read_message

ANSWER = '{"jsonrpc": "2.0", "id": 3, "result": {"a": 1}}'
REQUEST = '{"jsonrpc": "2.0", "id": 3, "method": "ping"}'
BEHIND_WORDS = [
    f"Loading... {ANSWER}",
    f"\x1b[2K100% {{}} {ANSWER}",
    'Loading...{ "id": 3, "result": {"a": 1}, "jsonrpc": "2.0"}',
]
NO_MESSAGES = [f"DEBUG {REQUEST}", f"DEBUG {ANSWER[:20]}", f"DEBUG {ANSWER} sent", 'INFO {"id": 3}', "Loading...", ""]


def read(line: str) -> dict[str, Any]:
    return read_message(line.encode()).model_dump(by_alias=True)


@pytest.mark.parametrize("line", [ANSWER, *BEHIND_WORDS])
def test_an_answer_is_read_behind_words_too(line: str) -> None:
    assert read(line) == json.loads(ANSWER)


@pytest.mark.parametrize("line", NO_MESSAGES)
def test_a_line_of_a_log_is_no_message(line: str) -> None:
    with pytest.raises(JsonRefused):
        read(line)


def test_words_hide_no_bomb() -> None:
    line = '" {"jsonrpc": "2.0", "id": 3, "result": {"a": [' + "{}," * 60_000 + "{}]}}"
    with pytest.raises(JsonRefused):
        read(line)
