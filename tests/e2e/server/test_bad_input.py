"""The person with curl who gets it wrong: whatever is sent, the answer is one problem that says what to mend."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from ..live import TOKEN, Runtime, assert_problem, assignment, fresh

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input_data": None}, "body"),
        ({"step_id": 5}, "step_id"),
        ({"task_type": ""}, "task_type"),
        ({"priority": 3}, "priority"),
        ({"task_id": 7}, "task_id"),
        ({"task_id": ""}, "task_id"),
        ({"task_id": "../etc/passwd"}, "task_id"),
        ({"task_id": "x" * 201}, "task_id"),
        ({"workflow_id": 3}, "workflow_id"),
        ({"workflow_id": ""}, "workflow_id"),
        ({"input_data": []}, "input_data"),
        ({"input_data": "text"}, "input_data"),
        ({"context": "text"}, "context"),
        ({"timeout": "10"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"token_budget": 5}, "token_budget"),
        ({"token_budget": {"max_tokens": 0}}, "token_budget.max_tokens"),
        ({"token_budget": {"max_tokens": "5"}}, "token_budget.max_tokens"),
        ({"token_budget": {"max_dollars": 5}}, "token_budget.max_dollars"),
        ({"token_budget": {"max_cost_usd": -1}}, "token_budget.max_cost_usd"),
    ],
)
def test_a_wrong_field_of_a_task_is_named(agent: Runtime, changes: dict[str, Any], field: str) -> None:
    assert_problem(agent.post("/task", assignment(**changes)), 422, "invalid_request", field)
    assert agent.provider.completions == []


def test_every_wrong_field_is_named_at_once(agent: Runtime) -> None:
    body = assignment(workflow_id="", step_id=5, color="red", token_budget={"used_tokens": -1})
    fields = ("workflow_id", "step_id", "color", "token_budget.used_tokens")
    problem = assert_problem(agent.post("/task", body), 422, "invalid_request", *fields)
    assert all(field in problem["detail"] for field in fields)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"message": ""}, "message"),
        ({"message": " \n\t\u00a0\u3000"}, "message"),
        ({"message": "\u200b\ufeff"}, "message"),
        ({"message": "   ", "on_busy": "queue"}, "message"),
        ({"parts": [{"type": "text", "text": ""}]}, "parts"),
        ({"parts": [{"type": "text", "text": " "}, {"type": "text", "text": "\n"}]}, "parts"),
        ({"message": 5}, "message"),
        ({"message": "hi", "parts": [{"type": "text", "text": "hi"}]}, "body"),
        ({"parts": []}, "parts"),
        ({"parts": [{"type": "image", "text": "x"}]}, "parts.0.type"),
        ({"parts": [{"type": "text"}]}, "parts.0.text"),
        ({"message": "hi", "session": "x"}, "session"),
        ({"message": "hi", "session_id": ""}, "session_id"),
        ({"message": "hi", "user": "x" * 201}, "user"),
        ({"message": "hi", "on_busy": "shout"}, "on_busy"),
        ({"message": "hi", "wait": 601}, "wait"),
        ({"message": "hi", "wait": -1}, "wait"),
        ({"message": "hi", "session_id": "a/b"}, "session_id"),
        ({"id": "a/b", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}, "id"),
        ({"message": "hi", "wait": "soon"}, "wait"),
        ({"message": "hi", "agent": "nobody"}, "agent"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "parts": [{"type": "text", "text": "hi"}]}]}, "messages"),
        ({"messages": [{"role": "user", "parts": []}]}, "messages"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": ""}]}]}, "messages"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": " \n"}]}]}, "messages"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": "\u2800"}]}]}, "messages"),
        ({"messages": "hi"}, "messages"),
    ],
)
@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
def test_a_wrong_field_of_a_message_is_named(agent: Runtime, path: str, body: dict[str, Any], field: str) -> None:
    assert_problem(agent.post(path, body), 422, "invalid_request", field)
    assert agent.provider.completions == []


@pytest.mark.parametrize(
    "path", ["/chat/s/stream", "/events", "/sessions/s", "/sessions/s/prompt", "/task/t", "/task/t/stream", "/status"]
)
def test_a_parameter_that_a_route_does_not_take_is_named(agent: Runtime, path: str) -> None:
    assert_problem(agent.get(path, usr="ann"), 422, "invalid_request", "usr")


@pytest.mark.parametrize(("name", "value"), [("follow", "maybe"), ("message_id", "")])
def test_a_wrong_parameter_of_a_stream_is_named(agent: Runtime, name: str, value: str) -> None:
    assert_problem(agent.get("/chat/s/stream", **{name: value}), 422, "invalid_request", name)


def test_a_wrong_field_of_a_reset_is_named(agent: Runtime) -> None:
    assert_problem(agent.post("/chat/reset", {"session": "x"}), 422, "invalid_request", "session")


@pytest.mark.parametrize("path", ["/task", "/chat", "/chat/stream", "/chat/reset"])
@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b'{"message": "\\ud800"}',
        b'{"message": "hi",}',
        b"[" * 100_000,
        b'{"message": "hi"} trailing',
        b"message=hi",
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(agent: Runtime, path: str, raw: bytes) -> None:
    reply = agent.http.post(path, content=raw, headers={"Content-Type": "application/json"})
    assert_problem(reply, 422, "invalid_request")
    assert agent.provider.completions == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_json_are_refused(agent: Runtime, number: str) -> None:
    text = json.dumps(assignment(input_data={"x": "HERE"})).replace('"HERE"', number)
    assert_problem(agent.http.post("/task", content=text), 422, "invalid_request")


def test_unusual_input_that_is_right_arrives_as_it_was_sent(agent: Runtime) -> None:
    agent.provider.script.replace(None)
    odd = {"nul": "a\0b", "emoji": "🦊", "big": 2**70, "deep": [[[[[{"": None}]]]]], "quote": '```\n"'}
    task_id = agent.assign(input_data=odd)
    assert agent.result(task_id)["status"] == "complete"
    [row] = agent.sql("SELECT assignment_json FROM tasks WHERE task_id = ?", task_id)
    assert json.loads(row["assignment_json"])["input_data"] == odd
    shown = agent.provider.completions[0].last_user_text
    assert json.loads(shown.split("```json\n", 1)[1].rsplit("\n```", 1)[0]) == odd


@pytest.mark.parametrize("path", ["/", "/nothing", "/task", "/chat/none/such", "/result/x", "/%2e%2e/etc"])
def test_a_route_that_is_not_there_is_a_problem(agent: Runtime, path: str) -> None:
    reply = agent.get(path)
    if path == "/task":
        assert_problem(reply, 405, "method_not_allowed")
        assert reply.headers["allow"] == "POST"
    else:
        assert assert_problem_at(reply, 404)["code"] == "not_found"


def assert_problem_at(reply: Any, status: int) -> dict[str, Any]:
    """As `assert_problem`, for paths that the client itself writes in another way."""
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    return reply.json()


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/chat"), ("PUT", "/result"), ("POST", "/status")])
def test_a_method_that_is_not_there_is_a_problem(agent: Runtime, method: str, path: str) -> None:
    assert_problem(agent.http.request(method, path), 405, "method_not_allowed")


# ---------------------------------------------------------------- bodies that are too large


def test_a_body_at_the_limit_is_read_and_one_above_is_not(agent: Runtime) -> None:
    body = assignment()
    whole = json.dumps({**body, "input_data": {"x": "HERE"}})
    filling = 8 * MIB - len(whole) + len("HERE")
    reply = agent.http.post("/task", content=whole.replace("HERE", "x" * filling))
    assert reply.status_code == 202
    agent.http.post(f"/task/{body['task_id']}/cancel")
    over = agent.http.post("/task", content=whole.replace("HERE", "x" * (filling + 1)))
    assert_problem(over, 413, "body_too_large")


@pytest.mark.parametrize(("path", "mib"), [("/task", 8), ("/chat/reset", 8), ("/chat", 64), ("/chat/stream", 64)])
def test_a_length_above_the_limit_is_refused_before_the_body_comes(agent: Runtime, path: str, mib: int) -> None:
    head = _head(agent, path, f"Content-Length: {mib * MIB + 1}")
    status, headers, body = _exchange(agent, head)
    assert status == 413
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["code"] == "body_too_large"


def test_a_caller_that_is_still_sending_reads_the_refusal(agent: Runtime) -> None:
    """A blocking client sends all of its body before it looks at the answer."""
    address = urlsplit(agent.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request("POST", "/task", b"x" * (20 * MIB), {"Authorization": f"Bearer {TOKEN}"})
        reply = connection.getresponse()
        assert reply.status == 413
        assert json.loads(reply.read())["code"] == "body_too_large"
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/task", "/chat", "/chat/stream"])
def test_a_chunked_body_is_counted_while_it_comes(agent: Runtime, path: str) -> None:
    chunk = b"%x\r\n" % MIB + b"x" * MIB + b"\r\n"
    head = _head(agent, path, "Transfer-Encoding: chunked")
    status, headers, body = _exchange(agent, head, *[chunk] * 9)
    assert status == 413
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["code"] == "body_too_large"
    agent.still_works()


def test_a_chunked_body_within_the_limit_is_taken(agent: Runtime) -> None:
    text = json.dumps(assignment()).encode()
    reply = agent.http.post("/task", content=iter([text[:10], text[10:]]))
    assert reply.status_code == 202


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /task HTTP/1.1\r\nHost: x\r\nContent-Length: minus\r\n\r\n",
        b"GET /status HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_leave_the_server_alive(agent: Runtime, raw: bytes) -> None:
    with _connect(agent) as connection:
        connection.sendall(raw)
        try:
            answer = connection.recv(65536)
        except ConnectionResetError:
            answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert agent.get("/readyz").json()["ready"] is True


def test_a_caller_who_hangs_up_in_the_middle_of_a_body_starts_nothing(agent: Runtime) -> None:
    body = assignment()
    with _connect(agent) as connection:
        connection.sendall(_head(agent, "/task", "Content-Length: 1000") + json.dumps(body).encode())
    assert_problem(agent.get(f"/task/{body['task_id']}"), 404, "unknown_task")
    agent.still_works()


def test_a_principal_that_is_too_long_is_refused(agent: Runtime) -> None:
    reply = agent.post("/task", assignment(), **{"X-Agent-User": "x" * 201})
    assert_problem(reply, 422, "invalid_request", "user")
    assert agent.post("/chat", {"message": "hi", "session_id": fresh("s")}, **{"X-Agent-User": "a b"}).is_success


@pytest.mark.parametrize(("named", "fault"), [(("ann", "bob"), "comes more than once"), (("",), "is empty")])
@pytest.mark.parametrize("path", ["/chat", "/tasks", "/pending", "/events", "/sessions"])
def test_a_header_that_names_two_users_or_none_is_refused(
    agent: Runtime, path: str, named: tuple[str, ...], fault: str
) -> None:
    headers = [("X-Agent-User", name) for name in named]
    method, body = ("POST", {"message": "hi", "session_id": fresh("s")}) if path == "/chat" else ("GET", None)
    reply = agent.http.request(method, path, headers=headers, json=body)
    assert_problem(reply, 422, "invalid_request", "X-Agent-User")
    assert fault in reply.text


def _connect(agent: Runtime) -> socket.socket:
    at = urlsplit(agent.url)
    return socket.create_connection((at.hostname or "", at.port or 0), timeout=60)


def _head(agent: Runtime, path: str, framing: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", f"Host: {urlsplit(agent.url).netloc}", f"Authorization: Bearer {TOKEN}", framing)
    return "\r\n".join((*lines, "", "")).encode()


def _exchange(agent: Runtime, *pieces: bytes) -> tuple[int, dict[str, str], bytes]:
    """Sends until the server has had enough, then reads its whole answer."""
    with _connect(agent) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = connection.recv(65536)
            assert more, "the server hung up without an answer"
            answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += connection.recv(65536)
    return int(first.split()[1]), headers, body


@pytest.mark.parametrize("part", [{"type": "text"}, {"type": "text", "text": 5}])
def test_a_text_part_without_text_is_refused_and_poisons_nothing(agent: Runtime, part: dict[str, Any]) -> None:
    thread = fresh("thread")
    body = {"id": thread, "messages": [{"id": "u1", "role": "user", "parts": [part]}], "trigger": "submit-message"}
    assert_problem(agent.post("/chat", body), 422, "invalid_request", "messages")
    assert agent.chat("hi", session_id=thread).status_code == 200
