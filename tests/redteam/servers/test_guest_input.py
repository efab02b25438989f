"""Input that costs far more than its bytes: a guest with 512 MiB survives all of it, and answers others meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_testing import Call, Garbage, Say, ScriptedProvider
from tests.e2e.live import assert_problem, in_background

from .guest import SmallGuest

MIB = 2**20
PROMPT_MS = 1000
"""Longest wait for `/status` while an attack runs; the machine that tests run on is busy."""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGuest]:
    with ScriptedProvider() as provider, SmallGuest(provider, tmp_path_factory.mktemp("guest")) as guest:
        yield guest


def test_files_of_short_lines_are_read_within_bounds(guest: SmallGuest) -> None:
    for number in range(8):
        (guest.data_dir / "workspace" / f"lines-{number}").write_bytes(b"a\n" * (5 * MIB))
    reads = tuple(Call("read", {"path": f"lines-{number}", "offset": 4_000_000, "limit": 3}) for number in range(8))
    guest.provider.script.replace([Say(calls=reads), Say("done")])
    before = guest.peak_mib
    with guest.watched(PROMPT_MS):
        answer = guest.chat("read them").json()
    outputs = [one["output"]["data"] for one in answer["tool_outputs"]]
    assert [one["content"] for one in outputs] == ["a\na\na\n"] * 8
    assert guest.peak_mib - before < 40


def test_large_files_are_edited_a_few_at_a_time(guest: SmallGuest) -> None:
    for number in range(8):
        (guest.data_dir / "workspace" / f"large-{number}").write_bytes(b"x" * (9 * MIB) + b"end")
    edits = tuple(
        Call("edit", {"path": f"large-{number}", "old_string": "end", "new_string": "e"}) for number in range(8)
    )
    guest.provider.script.replace([Say(calls=edits), Say("done")])
    before = guest.peak_mib
    with guest.watched(PROMPT_MS):
        answer = guest.chat("edit them").json()
    assert {one["output"]["type"] for one in answer["tool_outputs"]} == {"output"}, answer
    assert guest.peak_mib - before < 100


COSTLY_BODIES = {
    "parts": b'{"parts":[' + b'{"":0},' * (MIB // 7) + b"0]}",
    "messages": b'{"messages":[' + b'{"":0},' * (MIB // 7) + b"0]}",
    "parts of a message": b'{"messages":[{"role":"user","parts":[' + b"1," * (MIB // 2) + b"1]}]}",
    "unknown fields": b"{" + b",".join(b'"%d":0' % number for number in range(120_000)) + b"}",
    "allowed values that are all wrong": b'{"parts":[' + b'{"":0},' * 90_000 + b"0]}",
    "one unknown field with a long name": b'{"' + b"x" * MIB + b'":0}',
    "nested": b'{"parts":' + b"[" * MIB,
    "a large number": b'{"wait":' + b"1" * MIB + b"}",
}


@pytest.mark.parametrize("body", COSTLY_BODIES.values(), ids=COSTLY_BODIES)
def test_a_costly_body_is_refused_in_proportion(guest: SmallGuest, body: bytes) -> None:
    with guest.watched(PROMPT_MS):
        reply, seconds = guest.post_raw("/chat", body)
    problem = assert_problem(reply, 422, "invalid_request")
    assert 1 <= len(problem["errors"]) <= 20
    assert len(reply.content) < 20_000
    assert seconds < 3
    assert guest.peak_mib < 300


def test_costly_bodies_at_once_leave_the_guest_alive(guest: SmallGuest) -> None:
    body = COSTLY_BODIES["parts"] * 7
    callers = [in_background(lambda: guest.post_raw("/chat", body)) for _ in range(8)]
    for thread, _ in callers:
        thread.join(60)
    assert [answers[0][0].status_code for _, answers in callers] == [422] * 8
    assert guest.peak_mib < 400
    guest.still_works()


def test_a_fault_is_named_in_a_large_body_too(guest: SmallGuest) -> None:
    body = json.dumps({"parts": [{"type": "text", "text": "x" * MIB}, {"type": "image"}], "color": 1}).encode()
    reply, _ = guest.post_raw("/chat", body)
    assert_problem(reply, 422, "invalid_request", "parts.1.type", "parts.1.text", "color")


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"NaN", b"Infinity"])
def test_a_number_that_is_not_finite_is_refused(guest: SmallGuest, number: bytes) -> None:
    guest.provider.script.replace(None)
    session = guest.chat("hello", session_id="finite").json()["session_id"]
    request = guest.http.request("PATCH", f"/sessions/{session}", content=b'{"metadata":{"a":' + number + b"}}")
    assert_problem(request, 422, "invalid_request", "body")
    reply, _ = guest.post_raw(
        "/task", b'{"workflow_id":"w","step_id":"s","task_type":"t","input_data":{"a":%b}}' % number
    )
    assert_problem(reply, 422, "invalid_request", "body")
    guest.provider.script.replace([Call("read", f'{{"path":"x","limit":{number.decode()}}}'), Say("done")])
    [output] = guest.chat("go", session_id="finite").json()["tool_outputs"]
    assert output["state"] == "output-error"
    exported = guest.http.get(f"/sessions/{session}/export").content
    assert_problem(guest.http.post("/sessions/import", content=exported), 409, "session_exists")  # all of it was read


@pytest.mark.parametrize("body", [b'{"message":"one","message":"two"}', b'{"message":"hi","\\u006dessage":"two"}'])
def test_a_duplicate_field_is_refused(guest: SmallGuest, body: bytes) -> None:
    problem = assert_problem(guest.post_raw("/chat", body)[0], 422, "invalid_request", "body")
    assert "'message' occurs twice" in problem["detail"]


def test_a_person_has_one_name_in_headers_and_bodies(guest: SmallGuest) -> None:
    guest.provider.script.replace(None)
    for name in ("Zoë", "李"):
        assert guest.chat("hello", user=name, session_id=f"of {name}").status_code == 200
        found = guest.http.get("/sessions", headers={b"X-Agent-User": name.encode()}).json()["sessions"]
        assert len(found) == 1, name
    reply = guest.http.get("/sessions", headers={b"X-Agent-User": "Zoë".encode("latin-1")})
    assert_problem(reply, 422, "invalid_request", "X-Agent-User")


def stream_of(*deltas: dict[str, Any], finish: Any = "stop") -> Garbage:
    """A provider's stream of these deltas, with this reason for its end."""
    choices = [*({"index": 0, "delta": delta} for delta in deltas), {"index": 0, "delta": {}, "finish_reason": finish}]
    events = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
    return Garbage("".join([*events, "data: [DONE]\n\n"]))


@pytest.mark.parametrize("same_id", [True, False])
def test_an_answer_of_very_many_calls_is_refused(guest: SmallGuest, same_id: bool) -> None:
    calls = [
        {"index": number, "id": "same" if same_id else f"call_{number}", "function": {"name": "todo", "arguments": ""}}
        for number in range(20_000)
    ]
    guest.provider.script.replace([stream_of(*({"tool_calls": [call]} for call in calls)), Say("done")])
    with guest.watched(PROMPT_MS):
        reply = guest.chat("go")
    problem = assert_problem(reply, 502, "model_unavailable")
    assert "more than 256 tool calls" in problem["detail"]
    guest.still_works()


@pytest.mark.parametrize("odd", [{"a": 1}, ["stop"], 7, True])
def test_a_reason_of_another_type_costs_no_answer(guest: SmallGuest, odd: Any) -> None:
    guest.provider.script.replace(None, stream_of({"content": "hello"}, finish=odd))
    assert guest.chat("go").json()["response"] == "hello"
    guest.still_works()


COSTLY_EVENTS = {
    "many values": 'data: {"choices":[' + "{}," * (2 * MIB) + "{}]}\n\n",
    "nested": 'data: {"choices":' + "[" * (4 * MIB) + "\n\n",
    "nested behind half a character": 'data: {"a":"\\ud83d","choices":' + "[" * 90_000 + "\n\n",
    "a large number": 'data: {"choices":[],"usage":{"prompt_tokens":1e400}}\n\n',
    "a line without end": "data: " + "x" * (9 * MIB),
    "a large object as arguments": 'data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"todo","arguments":'
    + '{"a":['
    + "1," * (2 * MIB)
    + "1]}}]}}]}\n\n",
}


@pytest.mark.parametrize("events", COSTLY_EVENTS.values(), ids=COSTLY_EVENTS)
def test_a_costly_event_of_a_provider_is_refused(guest: SmallGuest, events: str) -> None:
    guest.provider.script.replace(None, Garbage(events))
    with guest.watched(PROMPT_MS):
        reply = guest.chat("go")
    assert_problem(reply, 502, "model_unavailable")
    assert guest.peak_mib < 400
    guest.still_works()


def test_costly_arguments_of_a_call_are_refused(guest: SmallGuest) -> None:
    arguments = '{"path":[' + "{}," * 300_000 + "{}]}"
    guest.provider.script.replace([Call("read", arguments), Say("done")])
    with guest.watched(PROMPT_MS):
        [output] = guest.chat("go").json()["tool_outputs"]
    assert output["state"] == "output-error"
    assert guest.peak_mib < 450
    guest.still_works()
