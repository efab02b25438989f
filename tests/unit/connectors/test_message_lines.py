"""What is read of the lines that a program prints."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agent_common.json_reader import JsonRefused
from agent_runtime.connectors.rate_limit import MAX_NODES
from agent_runtime.connectors.transport.message_lines import read_message, read_messages

ANSWER = '{"jsonrpc": "2.0", "id": 3, "result": {"a": 1}}'
REQUEST = '{"jsonrpc": "2.0", "id": 3, "method": "ping"}'
BEHIND_WORDS = [
    f"Loading... {ANSWER}",
    f"\x1b[2K100% {{}} {ANSWER}",
    'Loading...{ "id": 3, "result": {"a": 1}, "jsonrpc": "2.0"}',
]
NO_MESSAGES = [f"DEBUG {REQUEST}", f"DEBUG {ANSWER[:20]}", f"DEBUG {ANSWER} sent", 'INFO {"id": 3}', "Loading...", ""]


ODD = {
    '{"a": NaN}': {"a": math.nan},
    '{"a": [-Infinity, 1e400]}': {"a": [-math.inf, math.inf]},
    '{"a": 1, "a": 2}': {"a": 2},
}


def read(line: str) -> dict[str, Any]:
    return read_message(line.encode()).model_dump(by_alias=True)


@pytest.mark.parametrize("line", [ANSWER, *BEHIND_WORDS])
def test_an_answer_is_read_behind_words_too(line: str) -> None:
    assert read(line) == json.loads(ANSWER)


@pytest.mark.parametrize("before", ["", "Loading... "])
@pytest.mark.parametrize(("result", "found"), ODD.items())
def test_an_answer_with_an_odd_number_or_a_key_twice_is_read(before: str, result: str, found: dict[str, Any]) -> None:
    answer = read(f'{before}{{"id": 3, "jsonrpc": "2.0", "result": {result}}}')
    assert (answer["id"], repr(answer["result"])) == (3, repr(found))


@pytest.mark.parametrize("line", [REQUEST.replace("3", "NaN"), REQUEST.replace("}", ', "id": 4}')])
def test_a_request_that_may_be_understood_in_two_ways_is_refused(line: str) -> None:
    with pytest.raises(JsonRefused):
        read(line)


@pytest.mark.parametrize("line", NO_MESSAGES)
def test_a_line_of_a_log_is_no_message(line: str) -> None:
    with pytest.raises(JsonRefused):
        read(line)


def test_words_hide_no_bomb() -> None:
    line = '" {"jsonrpc": "2.0", "id": 3, "result": {"a": [' + "{}," * MAX_NODES + "{}]}}"
    with pytest.raises(JsonRefused):
        read(line)


def test_a_list_of_messages_is_read_as_all_of_them() -> None:
    found = read_messages(f" [{REQUEST}, {ANSWER}]".encode())
    assert [one.model_dump(by_alias=True, exclude_unset=True) for one in found] == [
        json.loads(REQUEST),
        json.loads(ANSWER),
    ]


@pytest.mark.parametrize("line", ["[]", "[7]", '["Loading"]', f"[{REQUEST}, 7]"])
def test_a_list_of_something_else_is_no_message(line: str) -> None:
    with pytest.raises(ValueError, match=r"no message|validation error"):
        read_messages(line.encode())
