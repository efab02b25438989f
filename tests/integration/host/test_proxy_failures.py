"""The model proxy on bad days: what is wrong is told in OpenAI's shape, and the ledger tells the truth."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from agent_common.completions import from_response, read_error_body
from agent_common.profiles import lesson_of
from agent_common.protocol import Profile
from agent_testing import Drop, Fail, Garbage, Hang, Raw, Say, ScriptedProvider
from tests.e2e.live import eventually

from .live import Host, assert_openai_error, said

CHAT = "/v1/chat/completions"
STREAMED = [False, True]
JSON = {"content-type": "application/json"}


def test_no_token_and_a_wrong_one(host: Host, provider: ScriptedProvider) -> None:
    for token in (None, "wrong"):
        for method, path in (("POST", CHAT), ("POST", "/v1/embeddings"), ("GET", "/v1/models")):
            with host.client(token) as client:
                reply = client.request(method, path, json=said("hi") if method == "POST" else None)
            assert_openai_error(reply, 401, "unauthorized")
            assert reply.headers["www-authenticate"] == 'Bearer realm="mesh"'
    assert provider.requests == []


@pytest.mark.parametrize(
    ("body", "code", "param", "words"),
    [
        (b"{", "invalid_request", None, "the body is not JSON: "),
        (b'{"model": "\\ud800"}', "invalid_request", None, "the body is not JSON: "),
        (b"[]", "invalid_request", None, "the body must be a JSON object"),
        (b"", "invalid_request", None, "the body is not JSON: "),
        (b'{"messages": [{}]}', "invalid_request", "model", "model: must be the name of a model"),
        (b'{"model": 7, "messages": [{}]}', "invalid_request", "model", "model: must be the name of a model"),
        (b'{"model": "default"}', "invalid_request", "messages", "messages: is required"),
        (b'{"model": "default", "messages": []}', "invalid_request", "messages", "messages: is required"),
        (b'{"model": "default", "messages": "hi"}', "invalid_request", "messages", "messages: must be a list"),
        (b'{"model": "default", "messages": [1], "stream": "yes"}', "invalid_request", "stream", "true or false"),
        (b'{"model": "default", "messages": [1], "n": 16.0}', "invalid_request", "n", "n: must be a whole number"),
        (b'{"model": "default", "messages": [1], "max_tokens": "9"}', "invalid_request", "max_tokens", "whole number"),
        (b'{"model": "default", "messages": [1], "stream_options": 1}', "invalid_request", "stream_options", "object"),
        (b'{"model": "embedding", "messages": [1]}', "unsupported_operation", "model", "it offers embeddings"),
    ],
)
def test_a_wrong_body_names_the_field(
    agent: httpx.Client, provider: ScriptedProvider, body: bytes, code: str, param: str | None, words: str
) -> None:
    assert words in assert_openai_error(agent.post(CHAT, content=body), 400, code, param)
    assert provider.requests == []


def test_an_unknown_model(agent: httpx.Client) -> None:
    message = assert_openai_error(
        agent.post(CHAT, json={**said("hi"), "model": "gpt-9"}), 404, "model_not_found", "model"
    )
    assert "default" in message
    assert_openai_error(agent.get("/v1/models/gpt-9"), 404, "model_not_found", "model")


def test_unknown_routes_and_methods(agent: httpx.Client) -> None:
    assert_openai_error(agent.get("/v1/files"), 404, "not_found")
    assert_openai_error(agent.get(CHAT), 405, "method_not_allowed")


def test_a_body_that_is_too_large(host: Host, token: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"model": "default", "messages": ["'
        for _ in range(33):
            yield b"x" * 1024 * 1024

    with host.client(token) as agent:
        declared = agent.post(CHAT, content=b"x" * (32 * 1024 * 1024 + 1))
        assert "is larger than 33554432 bytes" in assert_openai_error(declared, 413, "body_too_large")
    with host.client(token) as agent:
        grown = agent.post(CHAT, content=chunks())
        assert_openai_error(grown, 413, "body_too_large")


@pytest.mark.parametrize("streamed", STREAMED)
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_a_providers_error_passes_with_its_words(
    agent: httpx.Client, provider: ScriptedProvider, host: Host, status: int, streamed: bool
) -> None:
    provider.script.replace([Fail(status, "no such luck", code="unlucky", retry_after=7)])
    reply = agent.post(CHAT, json=said("hi", stream=streamed))
    assert assert_openai_error(reply, status, "unlucky") == "no such luck"
    assert reply.headers["retry-after"] == "7"
    row = host.recent(limit=1)[0]
    assert (row["status"], row["http_status"], row["usage"]) == ("failed", status, None)


@pytest.mark.parametrize(
    ("body", "words"),
    [*((body, f"the provider answered 503: {body!r}") for body in ("<html>Bad Gateway</html>", "[]")),
     ('{"detail": "odd"}', "odd"), ('{"error": "text"}', "text")],
)  # fmt: skip
def test_a_providers_error_in_another_shape_is_given_ours(
    agent: httpx.Client, provider: ScriptedProvider, host: Host, body: str, words: str
) -> None:
    provider.script.replace([Fail(503, body=body)])
    assert assert_openai_error(agent.post(CHAT, json=said("hi")), 503, "provider_error") == words


def fault(*place: str | int, **more: str) -> dict[str, Any]:
    """One fault of a validating server."""
    return {**more, "loc": ["body", *place], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (422, {"detail": [fault("messages", 2, "assistant", "annotations")]}),
        (422, {"detail": [fault("prompt_cache_key", input="x" * 600)]}),
        (422, {"detail": [fault("user", input="x" * 600), fault("prompt_cache_key")]}),
        (400, {"code": "1261", "msg": "p"}),
        (429, {"code": "1113", "msg": "no"}),
        (400, {"code": "1301", "msg": "no"}),
        (400, {"base_resp": {"status_code": 1008, "status_msg": "no"}}),
        (400, {"code": "tool_use_failed", "detail": "x"}),
        (400, {"message": "x", "code": "tool_use_failed", "type": "a"}),
        (400, [{"error": {"code": "tool_use_failed", "status": "INVALID"}}]),
        (400, {"error": '{"message": "x", "code": "tool_use_failed"}'}),
        (429, {"error": {"code": "1113"}}),
        (400, {"message": ["no"], "metadata": {"reasons": ["moderation"]}}),
    ],
)
def test_an_error_in_another_shape_keeps_its_meaning(
    agent: httpx.Client, provider: ScriptedProvider, status: int, body: Any
) -> None:
    provider.script.replace([Fail(status, body=json.dumps(body))])
    reply = agent.post(CHAT, json=said("hi"))
    assert reply.status_code == status
    assert reply.json()["error"].keys() == {"message", "type", "param", "code"}
    direct, passed = (from_response(status, {}, content) for content in (json.dumps(body).encode(), reply.content))
    assert (passed.code, passed.transient, passed.retry_after) == (direct.code, direct.transient, direct.retry_after)
    learned = [lesson_of(status, read_error_body(one), Profile()) for one in (json.dumps(body).encode(), reply.content)]
    assert learned[0] == learned[1]
    assert status != 422 or learned[1] is not None


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refused_key_is_the_hosts_trouble_and_not_the_agents(
    agent: httpx.Client, provider: ScriptedProvider, host: Host, status: int
) -> None:
    provider.script.replace([Fail(status, "Incorrect API key provided: sk-upstream")])
    message = assert_openai_error(agent.post(CHAT, json=said("hi")), 502, "provider_auth")
    mend = "the operator must set UPSTREAM_KEY to a valid key"
    assert message == (
        f"the provider 'upstream' refused the host's key (HTTP {status}: Incorrect API key provided: ***); {mend}"
    )
    assert host.recent(limit=1)[0]["status"] == "failed"


@pytest.mark.parametrize("status", [400, 404, 429, 500])
@pytest.mark.parametrize(
    "shape", ['{{"error": {{"message": "{}"}}}}', '{{"detail": [{{"input": "{}"}}]}}', "<p>{}</p>"]
)
def test_a_key_that_a_provider_repeats_does_not_reach_the_agent(
    agent: httpx.Client, provider: ScriptedProvider, host: Host, status: int, shape: str
) -> None:
    provider.script.replace(None, Fail(status, body=shape.format("sent: Bearer sk-upstream")))
    reply = agent.post(CHAT, json=said("hi"))
    assert reply.status_code == status
    assert "sent: Bearer ***" in reply.text
    assert "sk-upstream" not in reply.text + json.dumps(host.recent(limit=1))


def test_a_compressed_refusal_of_the_content_is_no_refusal_of_the_key(
    agent: httpx.Client, provider: ScriptedProvider
) -> None:
    body = '{"error": {"message": "the input was flagged", "code": 403, "metadata": {"reasons": ["violence"]}}}'
    zipped = gzip.compress(body.encode()).decode("latin-1")
    provider.script.replace([Raw((zipped,), 403, {**JSON, "content-encoding": "gzip"}, encoding="latin-1")])
    reply = agent.post(CHAT, json=said("hi"))
    assert (reply.status_code, reply.json()) == (403, json.loads(body))


def test_a_quota_that_is_used_up_is_no_refusal_of_the_key(agent: httpx.Client, provider: ScriptedProvider) -> None:
    body = {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 10:11:12."}
    provider.script.replace([Fail(403, body=json.dumps(body))])
    message = assert_openai_error(agent.post(CHAT, json=said("hi")), 403, "insufficient_quota")
    assert message == body["message"]


def test_a_long_refusal_is_passed_on_whole(agent: httpx.Client, provider: ScriptedProvider) -> None:
    body = {"error": {"message": "x" * 100_000, "code": "no"}}
    provider.script.replace([Fail(400, body=json.dumps(body))])
    reply = agent.post(CHAT, json=said("hi"))
    assert (reply.status_code, reply.json()) == (400, body)


def test_a_redirect_is_not_followed_with_the_key(agent: httpx.Client, provider: ScriptedProvider) -> None:
    provider.script.replace([Fail(307, "elsewhere")])
    assert "redirect (307)" in assert_openai_error(agent.post(CHAT, json=said("hi")), 502, "provider_error")


@pytest.mark.parametrize("streamed", STREAMED)
def test_a_provider_that_is_not_there(agent: httpx.Client, host: Host, streamed: bool) -> None:
    reply = agent.post(CHAT, json={**said("hi", stream=streamed), "model": "unreachable"})
    assert "the provider 'nobody' cannot be reached" in assert_openai_error(reply, 502, "provider_unreachable")
    row = host.recent(limit=1)[0]
    assert (row["status"], row["http_status"], row["provider"]) == ("failed", None, "nobody")


@pytest.mark.parametrize("streamed", STREAMED)
def test_a_provider_that_hangs_up_before_a_word(
    agent: httpx.Client, provider: ScriptedProvider, streamed: bool
) -> None:
    provider.script.replace([Drop(after=0)])
    reply = agent.post(CHAT, json=said("hi", stream=streamed))
    assert_openai_error(reply, 502, "provider_unreachable")


@pytest.mark.parametrize("streamed", STREAMED)
def test_a_provider_that_says_nothing(agent: httpx.Client, provider: ScriptedProvider, streamed: bool) -> None:
    provider.script.replace([Hang(after=0, seconds=15)])
    reply = agent.post(CHAT, json=said("hi", stream=streamed))
    assert_openai_error(reply, 504, "provider_timeout")


@pytest.mark.parametrize("body", ["Gateway says no", "{", ""])
def test_an_answer_that_is_no_json(agent: httpx.Client, provider: ScriptedProvider, host: Host, body: str) -> None:
    provider.script.replace([Garbage(body, content_type="application/json")])
    message = assert_openai_error(agent.post(CHAT, json=said("hi")), 502, "provider_error")
    assert "answered 200 without JSON" in message
    assert host.recent(limit=1)[0]["status"] == "failed"


def test_half_an_emoji_in_a_whole_answer_costs_nothing_of_it(agent: httpx.Client, provider: ScriptedProvider) -> None:
    body = '{"choices": [{"message": {"content": "Hello\\ud83d"}}]}'
    provider.script.replace([Garbage(body, content_type="application/json")])
    reply = agent.post(CHAT, json=said("hi"))
    assert (reply.status_code, reply.text) == (200, body)


def test_an_answer_that_is_shorter_than_it_claims(agent: httpx.Client, provider: ScriptedProvider) -> None:
    provider.script.replace([Garbage("{}", content_type="application/json", length=500)])
    assert_openai_error(agent.post(CHAT, json=said("hi")), 502, "provider_dropped")


ANSWER = '{"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}'


STREAM = f"data: {ANSWER.replace('message', 'delta')}\n\n"


def test_a_connection_that_breaks_behind_a_whole_answer_breaks_nothing(
    agent: httpx.Client, provider: ScriptedProvider, host: Host
) -> None:
    provider.script.replace([Garbage(ANSWER, content_type="application/json", length=500), Garbage(STREAM, length=500)])
    reply = agent.post(CHAT, json=said("hi"))
    assert (reply.status_code, reply.json()) == (200, json.loads(ANSWER))
    streamed = agent.post(CHAT, json=said("hi", stream=True))
    assert (streamed.status_code, streamed.text) == (200, STREAM)
    assert [row["status"] for row in host.recent(limit=2)] == ["complete", "complete"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 429])
def test_an_answer_whose_body_goes_on_for_ever_ends(
    agent: httpx.Client, provider: ScriptedProvider, status: int
) -> None:
    body = ANSWER if status == 200 else '{"error": {"message": "busy"}}'
    provider.script.replace([Raw((body,), status, JSON, heartbeat="\n", heartbeat_seconds=0.2)])
    reply = agent.post(CHAT, json=said("hi"))
    assert (reply.status_code, reply.json()) == (status, json.loads(body))


def test_usage_that_an_answer_lacks_is_estimated(agent: httpx.Client, provider: ScriptedProvider, host: Host) -> None:
    provider.script.replace([Garbage('{"choices": []}', content_type="application/json")])
    assert agent.post(CHAT, json=said("hi")).json() == {"choices": []}
    row = host.recent(limit=1)[0]
    assert (row["status"], row["estimated"]) == ("complete", True)
    assert (row["usage"]["input"] > 0, row["usage"]["output"]) == (True, 3)


@pytest.mark.parametrize(("words", "estimated"), [(200, True), (3, False)])
def test_an_answer_of_which_no_token_is_reported_is_estimated(
    agent: httpx.Client, provider: ScriptedProvider, host: Host, words: int, estimated: bool
) -> None:
    nothing = {"prompt_tokens": 9000, "completion_tokens": 0, "total_tokens": 9000}
    provider.script.replace([Say("word " * words, usage=nothing)])
    agent.post(CHAT, json=said("hi", stream=True))
    row = host.recent(limit=1)[0]
    assert (row["usage"]["input"], row["estimated"]) == (9000, estimated)
    assert (row["usage"]["output"] >= words) == estimated


# ---------------------------------------------------------------- half-way


@pytest.mark.parametrize(
    ("step", "code"),
    [(Drop(after=2), "provider_dropped"), (Hang(after=2, seconds=15), "provider_timeout")],
    ids=["drops", "hangs"],
)
def test_a_stream_that_breaks_says_so(
    agent: httpx.Client, provider: ScriptedProvider, host: Host, step: Any, code: str
) -> None:
    provider.script.replace([step])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert reply.status_code == 200
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n") if line.startswith("data: ")]
    assert "[DONE]" not in lines
    last = json.loads(lines[-1])
    assert last["error"]["code"] == code
    assert last["error"]["message"].startswith("the provider 'upstream' ")
    row = host.recent(limit=1)[0]
    assert (row["status"], row["http_status"], row["estimated"]) == ("dropped", 200, True)
    assert row["usage"]["output"] > 0


@contextmanager
def one_connection() -> Generator[tuple[str, list[bytes], threading.Event]]:
    """A provider that begins a stream and then waits until its caller hangs up."""
    got: list[bytes] = []
    hung_up = threading.Event()

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            connection.settimeout(60)
            got.append(connection.recv(65536))
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            connection.sendall(head + b'data: {"choices":[{"delta":{"content":"one"}}]}\n\n')
            while connection.recv(65536):
                pass
            hung_up.set()

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", got, hung_up
    thread.join(15)


@pytest.mark.slow
def test_a_client_that_goes_away_ends_the_providers_call(tmp_path: Any) -> None:
    with one_connection() as (url, got, hung_up), Host(tmp_path, OPENAI_BASE_URL=url) as host:
        with host.operator.stream("POST", CHAT, json=said("hi", stream=True)) as reply:
            assert next(reply.iter_bytes()).startswith(b"data: ")
        assert hung_up.wait(10), "the provider is still being listened to"
        assert got[0].startswith(b"POST /v1/chat/completions")
        row = host.recent(limit=1)[0]
        assert (row["status"], row["http_status"], row["estimated"]) == ("client_gone", 200, True)
        assert row["usage"]["input"] > 0
        assert 1 <= row["usage"]["output"] < 200


@pytest.mark.parametrize(
    ("more", "least", "most"),
    [
        ({"max_tokens": 1000}, 1000, 1000),
        ({"max_tokens": 1000, "n": 2}, 2000, 2000),
        ({"max_tokens": 1000, "stream": True}, 90, 1000),
        ({"max_tokens": 50, "stream": True}, 50, 50),
    ],
)
def test_a_client_that_goes_away_before_the_answer_is_charged_as_if_it_had_read_it(
    host: Host, token: str, provider: ScriptedProvider, more: dict[str, Any], least: int, most: int
) -> None:
    name = "-".join(("gone", *(f"{value}" for value in more.values())))
    # Of a test before, another call may still come.
    provider.script.replace(lambda request: Hang(after=0) if request.last_user_text == name else Say("late"))
    address, body = httpx.URL(host.url), json.dumps(said(name, **more)).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nx-request-id: {name}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address.host, address.port or 0)) as connection:
        connection.sendall(head.encode() + body)
        eventually(lambda: any(request.last_user_text == name for request in provider.completions))
    row = eventually(lambda: next((row for row in host.recent(limit=5) if row["request_id"] == name), None))
    assert (row["status"], row["http_status"], row["estimated"]) == ("client_gone", None, True)
    assert row["usage"]["input"] >= len(body) // 4
    assert least <= row["usage"]["output"] <= most


def test_a_client_that_goes_away_before_its_request_is_whole(
    host: Host, token: str, provider: ScriptedProvider
) -> None:
    address = httpx.URL(host.url)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 100\r\n\r\n{{"
    with socket.create_connection((address.host, address.port or 0)) as connection:
        connection.sendall(head.encode())
    assert host.operator.get("/healthz").status_code == 200
    assert provider.requests == []


def test_the_host_serves_on_after_all_this(agent: httpx.Client, provider: ScriptedProvider) -> None:
    provider.script.replace([Say("fine")])
    assert agent.post(CHAT, json=said("hi")).json()["choices"][0]["message"]["content"] == "fine"
    assert agent.get("/readyz").json() == {"ready": True, "reasons": []}
