"""What is made of the lines that are too large to be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_runtime.connectors.rate_limit import LimitExceeded
from agent_runtime.connectors.transport import long_lines
from agent_runtime.connectors.transport.long_lines import KEPT_BYTES, LongLine, find_stand_in, read_line

LONG = b"x" * KEPT_BYTES
ANSWERS = {
    b'{"jsonrpc": "2.0", "id": 7, "result": {"a": "%b"}}': 7,
    b'{"jsonrpc":"2.0","id":"seven","result":{"a":"%b"}}\r\n': "seven",
    b'{"id":7,"jsonrpc":"2.0","error":{"message":"%b"}}': 7,
    b'{"id":7,"result":{"a":"%b"},"jsonrpc":"2.0"}': 7,
    b'{"result":{"a":"%b"},"jsonrpc":"2.0","id":7}': 7,
    b'{"jsonrpc":"2.0","result":{"a":"%b"}, "id" : 7 }\n': 7,
    b'Loading {1%%} {"jsonrpc":"2.0","id":-1,"result":{"a":"%b"}}': -1,
    b'{"jsonrpc":"2.0","id":7,"result":{"id":8,"result":"%b","a":{"b":1,"id":9}}}': 7,
}
ASKING = {
    b'{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"a":"%b"}}': {"id": 7, "method": "roots/list"},
    b'{"params":{"id":7,"result":"%b"},"method":"x/y","jsonrpc":"2.0"}': {"method": "x/y"},
    b'{"jsonrpc":"2.0","method":"x/y","params":{"a":"%b","id":7}}': {"method": "x/y"},
}
NEITHER = [
    b"%b",
    b'DEBUG {"jsonrpc":"2.0","id":7,"result":{"a":"%b"}} sent',
    b'{"jsonrpc":"2.0","id":7,"result":{"a":"%b',
    b'{"jsonrpc":"2.0","id":7,"result":{"a":"%b"},"id":8}',
    b'{"jsonrpc":"2.0","id":1.5,"result":{"a":"%b"}}',
    b'{"jsonrpc":"2.0","result":{"a":"%b"}}',
    b'{"jsonrpc":"2.0","id":7,"params":{"a":"%b"}}',
    b'[{"jsonrpc":"2.0","id":7,"result":{"a":"%b"}}]',
    b'{"jsonrpc":"2.0","id":"\\ud800","result":{"a":"%b"}}',
]


def found(line: bytes) -> dict[str, Any] | None:
    message = find_stand_in(LongLine.of(line % LONG), "it is large")
    return message and message.model_dump(by_alias=True, exclude_unset=True)


@pytest.mark.parametrize(("line", "identity"), ANSWERS.items())
def test_an_answer_becomes_an_error_with_its_identity(line: bytes, identity: int | str) -> None:
    error = {"code": -32603, "message": "its answer was not read: it is large"}
    assert found(line) == {"jsonrpc": "2.0", "id": identity, "error": error}


@pytest.mark.parametrize(("line", "rest"), ASKING.items())
def test_what_a_server_says_or_asks_loses_its_parameters(line: bytes, rest: dict[str, Any]) -> None:
    assert found(line) == {"jsonrpc": "2.0", **rest}


@pytest.mark.parametrize("line", NEITHER)
def test_what_cannot_be_told_is_none(line: bytes) -> None:
    assert found(line) is None


@pytest.mark.parametrize("size", [3, 4, 5, 9, 40])
@pytest.mark.parametrize("step", [1, 3, 100])
@pytest.mark.parametrize("end", [b"\n", b""])
async def test_a_line_beyond_the_limit_is_passed_over_to_its_end(size: int, step: int, end: bytes) -> None:
    line = bytes(97 + number % 26 for number in range(size)) + end
    printed = b"a\n" + line if not end else b"a\n" + line + b"b\n"
    stream = asyncio.StreamReader(limit=4)

    async def feed() -> None:
        for at in range(0, len(printed), step):
            stream.feed_data(printed[at : at + step])
            await asyncio.sleep(0)
        stream.feed_eof()

    feeding = asyncio.create_task(feed())
    lines: list[bytes | LongLine] = []
    while one := await read_line(stream):
        lines.append(one)
    await feeding
    whole = lines[1].last if isinstance(lines[1], LongLine) else lines[1]
    assert line.endswith(whole)
    assert lines[0] == b"a\n"
    assert lines[2:] == ([b"b\n"] if end else [])
    if isinstance(lines[1], LongLine):
        assert size > 4
        assert line.startswith(lines[1].first)


async def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_lines, "MAX_LINE", 100)
    stream = asyncio.StreamReader(limit=10)
    stream.feed_data(b"x" * 101)
    with pytest.raises(LimitExceeded, match="too long"):
        await read_line(stream)
