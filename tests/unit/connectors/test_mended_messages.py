"""What of a server's messages is mended before they are read, and what is left as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runtime.connectors.transport.mended_messages import LineBuffer, mend_events, mend_message

TEXTS = {
    rb"\ud83d\ude00": rb"\ud83d\ude00",
    rb"\ud83d": rb"\ufffd",
    rb"\uDE00\uD83D": rb"\ufffd\ufffd",
    rb"\ud83d\ud83d\ude00": rb"\ufffd\ud83d\ude00",
    rb"\\ud83d \ud83d": rb"\\ud83d \ufffd",
    rb"\\\ud83d\" \u00e9\ude00": rb"\\\ufffd\" \u00e9\ufffd",
    b"a \xf0\x9f\x98": b"a \xef\xbf\xbd",
    b"\xf0\x9f\x98\x80 \xc3\xa9": b"\xf0\x9f\x98\x80 \xc3\xa9",
}
ANSWERS = [
    ({"error": "boom"}, {"error": {"code": -32603, "message": "boom", "data": None}}),
    ({"error": {"code": "E", "message": "m", "data": 7}}, {"error": {"code": -32603, "message": "m", "data": 7}}),
    ({"error": {"code": -1}}, {"error": {"code": -1, "message": '{"code": -1}', "data": None}}),
    ({"result": None}, {"result": {}}),
    ({"result": [1]}, {"result": {"content": [1]}}),
    ({"error": "", "result": {"a": 1}}, {"result": {"a": 1}}),
    ({"error": {}, "result": {"a": 1}}, {"result": {"a": 1}}),
    ({"error": False, "result": {"a": 1}}, {"result": {"a": 1}}),
]
KEPT = [
    b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"error": "boom"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "m", "error": "boom"}',
    b'{"jsonrpc": "2.0", "error": "boom"}',
    b'{"id": 1, "error": "a line of a log"}',
    b'{"jsonrpc": "2.0", "id": 1, "error": "a", "error": "b"}',
    b'{"jsonrpc": "2.0", "id": 1, "error": NaN}',
    b'"error": no message',
]


@pytest.mark.parametrize(("text", "mended"), TEXTS.items())
def test_what_is_no_character_is_replaced(text: bytes, mended: bytes) -> None:
    assert mend_message(b'{"a": "' + text + b'"}') == b'{"a": "' + mended + b'"}'


@pytest.mark.parametrize(("answer", "mended"), ANSWERS)
def test_an_answer_gets_the_form_of_the_protocol(answer: dict[str, Any], mended: dict[str, Any]) -> None:
    head = {"jsonrpc": "2.0", "id": "a"}
    assert json.loads(mend_message(json.dumps(head | answer).encode())) == head | mended


ANSWER = {"jsonrpc": "2.0", "id": 7, "result": {"a": [1.5]}}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress"}


@pytest.mark.parametrize(
    "sent",
    [
        {"result": {"a": [1.5]}},
        {**ANSWER, "id": None},
        {**ANSWER, "id": "1"},
        {**ANSWER, "id": 7.0},
        {**ANSWER, "jsonrpc": 2.0},
        [ANSWER],
        [PROGRESS, {**ANSWER, "id": None}],
    ],
)
def test_the_answer_to_a_known_request_gets_its_identity(sent: Any) -> None:
    found = json.loads(mend_message(b"\xef\xbb\xbf" + json.dumps(sent).encode(), 7))
    assert (found, type(found["id"])) == (ANSWER, int)


@pytest.mark.parametrize("sent", [ANSWER, PROGRESS, [ANSWER, ANSWER], [PROGRESS], {"id": None}, 7])
def test_what_is_no_answer_to_a_known_request_is_kept(sent: Any) -> None:
    assert mend_message(json.dumps(sent).encode(), 7) == json.dumps(sent).encode()


ASKED = [
    ({"id": 1, "method": "ping", "params": []}, {"id": 1, "method": "ping"}),
    ({"id": 1, "method": "ping", "params": None}, {"id": 1, "method": "ping"}),
    ({"method": "notifications/message", "params": ""}, {"method": "notifications/message"}),
    ({"id": 1, "method": "ping", "params": [7]}, None),
    ({"id": 1, "method": "ping", "params": {}}, None),
]
REPORTED = [
    ({"progressToken": 3}, {"progressToken": 3, "progress": 0}),
    ({"progressToken": 3, "progress": "50%"}, {"progressToken": 3, "progress": 0}),
    ({"progressToken": 3, "progress": None, "total": 7}, {"progressToken": 3, "progress": 0, "total": 7}),
    ({"progressToken": 3.0, "progress": 0.5}, {"progressToken": 3, "progress": 0.5}),
    ({"progressToken": "3", "progress": 1}, None),
    ({"progress": True}, {"progress": 0}),
]


@pytest.mark.parametrize(("asked", "mended"), ASKED)
@pytest.mark.parametrize("request_id", [None, 7])
def test_a_request_loses_empty_parameters_that_are_no_object(
    asked: dict[str, Any], mended: dict[str, Any] | None, request_id: int | None
) -> None:
    sent = {"jsonrpc": "2.0", **asked}
    found = json.loads(mend_message(json.dumps(sent).encode(), request_id))
    assert found == (sent if mended is None else {"jsonrpc": "2.0", **mended})


@pytest.mark.parametrize(("params", "mended"), REPORTED)
def test_a_report_of_progress_is_one_whatever_it_counts_with(
    params: dict[str, Any], mended: dict[str, Any] | None
) -> None:
    found = json.loads(mend_message(json.dumps({**PROGRESS, "params": params}).encode()))
    assert found == {**PROGRESS, "params": params if mended is None else mended}
    token = found["params"].get("progressToken")
    assert not isinstance(token, float)


@pytest.mark.parametrize("data", KEPT)
def test_what_is_no_answer_or_is_refused_is_kept(data: bytes) -> None:
    assert mend_message(data) == data


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_messages_in_events_are_mended_however_they_are_cut(end: bytes, size: int) -> None:
    sent = end.join([b"id: \\ud83d", b'data: {"a":', rb'data:"\ud83d"}', b"", b'data: "\xff"'])
    mended = end.join([b"id: \\ud83d", b'data: {"a":', rb'data:"\ufffd"}', b"", b'data: "\xef\xbf\xbd"'])
    lines = LineBuffer()
    found = b"".join(mend_events(lines.feed(sent[at : at + size])) for at in range(0, len(sent), size))
    assert found + mend_events(lines.rest) == mended
