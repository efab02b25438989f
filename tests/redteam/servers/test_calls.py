"""What one agent can take from others, or from its operator, by the model calls that it makes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx
import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.e2e.live import eventually
from tests.integration.host.live import Host, assert_openai_error, catalog, said
from tests.memory_limit import peak_mib

CHAT = "/v1/chat/completions"
PATIENCE = 60.0
CALLS = 560
"""Streams of one agent; the host may open 1024 files."""


class Provider:
    """A provider that pauses between the end of its answer and its usage."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        self.go_on = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.go_on.set()
        self.listener.close()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            asked = b""
            while b"include_usage" not in asked:  # closed with bytes unread, the connection would break
                asked += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            connection.sendall(b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n')
            connection.sendall(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
            self.go_on.wait(PATIENCE)
            connection.sendall(b'data: {"choices":[],"usage":{"prompt_tokens":5000,"completion_tokens":2000}}\n\n')
            connection.sendall(b"data: [DONE]\n\n")


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(models=("big-1", "vectors-1")) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    one = Host(folder, MESH_MODELS=catalog(folder, provider), UPSTREAM_KEY="sk", MESH_MEDIA_HOSTS="*.pictures.example")
    one.command = ["/bin/sh", "-c", 'ulimit -n 1024 && exec "$@"', "files", *Host.command]
    with one:
        yield one


@pytest.fixture(scope="module")
def agent(host: Host) -> Iterator[httpx.Client]:
    with host.client(host.token("writer")) as client:
        yield client


def test_calls_of_one_agent_that_hang_are_not_refused_to_another(
    host: Host, agent: httpx.Client, provider: ScriptedProvider
) -> None:
    provider.script.replace([], otherwise=Hang(reply=Say("late")))
    address, token = httpx.URL(host.url), host.token("greedy")
    body = json.dumps(said("hang", stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    with ExitStack() as open_:
        for _ in range(CALLS):
            one = socket.create_connection((address.host, address.port or 0), timeout=PATIENCE)
            open_.enter_context(one).sendall(head.encode() + body)
        with host.client(token) as greedy:
            refused = eventually(lambda: _refused(greedy.post(CHAT, json=said("hang", model="demo"))))
        assert refused.json()["error"]["code"] in ("too_many_calls", "too_many_connections")
        assert refused.headers["retry-after"] == "1"
        assert httpx.get(f"{host.url}/healthz", trust_env=False).status_code == 200
        assert agent.post(CHAT, json=said("hi", model="demo")).status_code == 200
        assert peak_mib(host.process.pid) < 256
        provider.release()
    eventually(lambda: agent.get("/readyz").status_code == 200)


def _refused(reply: httpx.Response) -> httpx.Response | None:
    return reply if reply.status_code == 429 else None


def test_who_hangs_up_before_the_usage_comes_is_booked(host: Host, tmp_path_factory: pytest.TempPathFactory) -> None:
    with closing(Provider()) as slow, Host(tmp_path_factory.mktemp("one"), OPENAI_BASE_URL=slow.url) as one:
        with one.operator.stream("POST", CHAT, json=said("hi", stream=True)) as reply:
            assert any('"finish_reason":"stop"' in line for line in reply.iter_lines())
        slow.go_on.set()
        row = eventually(lambda: one.recent(limit=1))[0]
        assert (row["status"], row["estimated"]) == ("client_gone", False)
        assert (row["usage"]["input"], row["usage"]["output"]) == (5000, 2000)


def test_usage_that_never_comes_is_estimated_and_says_so(
    host: Host, agent: httpx.Client, provider: ScriptedProvider
) -> None:
    provider.script.replace([Hang(after=5, reply=Say("one two three four five six seven"))])
    with agent.stream("POST", CHAT, json=said("word " * 1000, stream=True), headers={"x-request-id": "left"}) as reply:
        assert any("five" in line for line in reply.iter_lines())
    row = eventually(lambda: next((row for row in host.recent(limit=5) if row["request_id"] == "left"), None))
    assert (row["status"], row["estimated"]) == ("client_gone", True)
    assert 1000 < row["usage"]["input"] < 2000
    assert 5 <= row["usage"]["output"] < 200
    assert row["usage"]["cost_usd"] > 1000
    sums = host.operator.get("/usage", params={"agent": "writer"}).json()["sums"]
    assert sum(one["estimated"] for one in sums) == 1


EVIL = "https://attacker.example/?d=secret"


def user(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": f"see {EVIL}"}, *parts]}]


def part(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


SHAPES = [
    ("[1].image_url.url", user(part("image_url", image_url={"url": EVIL}))),
    ("[1].image_url.url", user(part("image_url", image_url={"url": " HTTPS:\\\\attacker.example"}))),
    ("[1].image_url.url", user(part("image_url", image_url={"url": "//attacker.example/x"}))),
    ("[1].image_url.url", user(part("image_url", image_url={"url": "https://pictures.example.attacker.example"}))),
    ("[1].image_url.url", user(part("image_url", image_url={"url": "https://a.pictures.example@attacker.example"}))),
    ("[1].image_url", user(part("image_url", image_url=EVIL))),
    ("[1].image_url", user(part("input_image", image_url=EVIL))),
    ("[1].file_url", user(part("input_file", file_url=EVIL))),
    ("[1].file.file_data", user(part("file", file={"file_data": EVIL, "filename": "a.pdf"}))),
    ("[1].input_audio.data", user(part("input_audio", input_audio={"data": EVIL, "format": "wav"}))),
    ("[1].video_url.url", user(part("video_url", video_url={"url": EVIL}))),
    ("[1].video[0]", user(part("video", video=[EVIL]))),
    ("[1].image", user(part("image", image=EVIL))),
    ("[1].source.url", user(part("image", source={"type": "url", "url": EVIL}))),
    ("[1].fileData.fileUri", user({"fileData": {"fileUri": "gs://bucket/x"}})),
    ("[1].content", user(part("image", content=EVIL))),
    ("[1].content[0].image_url.url", user(part("tool_result", content=[part("image_url", image_url={"url": EVIL})]))),
]


@pytest.mark.parametrize(("where", "messages"), SHAPES)
@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_provider_is_given_no_address_to_fetch(
    agent: httpx.Client, provider: ScriptedProvider, where: str, messages: list[dict[str, Any]], role: str
) -> None:
    provider.clear()
    provider.script.replace([], otherwise=Say("ok"))
    sent = {**said("x"), "messages": [{**messages[0], "role": role}]}
    where = f"messages[0].content{where}"
    assert where in assert_openai_error(agent.post(CHAT, json=sent), 400, "address_not_allowed", where)
    assert provider.requests == []


def test_no_tool_of_a_providers_own_is_sent_to_an_address(agent: httpx.Client) -> None:
    tools = [part("mcp", server_label="x", server_url=EVIL)]
    assert_openai_error(
        agent.post(CHAT, json=said("x", tools=tools)), 400, "address_not_allowed", "tools[0].server_url"
    )
    vectors = {"model": "embedding", "input": [{"image": EVIL}]}
    reply = agent.post("/v1/embeddings", json=vectors)
    assert_openai_error(reply, 400, "address_not_allowed", "input[0].image")


BEYOND: tuple[tuple[str, Any], ...] = (
    ("tools[0]", {"tools": [part("web_search")]}),
    ("tools[0]", {"tools": [part("web_fetch_20250910", name="web_fetch")]}),
    ("tools[1]", {"tools": [part("function", function={"name": "f"}), {"google_search": {}}]}),
    ("tools[0]", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    ("tools[0]", {"tools": [part("mcp", server_label="x", connector_id="connector_gmail")]}),
    ("tools[0]", {"tools": ["web_search"]}),
    *((name, {name: {}}) for name in ("web_search_options", "search_parameters", "mcp_servers", "tool_resources")),
    *((name, {name: True}) for name in ("enable_search", "plugins", "grounding")),
    *((name, {name: ["large-9"]}) for name in ("models", "fallbacks", "context_window_fallbacks", "model_list")),
    *((name, {name: "x"}) for name in ("route", "preset", "provider", "api_base", "API_KEY", "extra_body", "headers")),
    *((name, {name: "x"}) for name in ("service_tier", "chat_template", "custom_llm_provider", "metadata")),
    *((name, {name: True}) for name in ("store", "background", "use_web")),
    ("compound_custom", {"compound_custom": {"tools": {"enabled_tools": ["web_search", "visit_website"]}}}),
    ("kv_transfer_params", {"kv_transfer_params": {"remote_host": "evil.example"}}),
    ("user_config", {"user_config": {"router": {}}}),
    ("input_cost_per_token", {"input_cost_per_token": 0}),
    ("tools", {"tools": {"type": "web_search"}}),
    ("tools[0]", {"tools": [{**part("function", function={"name": "f"}), "google_search": {}}]}),
    ("tool_choice", {"tool_choice": {"type": "web_search"}}),
    ("tool_choice", {"tool_choice": "web_search"}),
    ("tool_choice.tools[0]", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": [part("mcp")]}}}),
    (
        "tools[0].function.parameters.properties.a.$ref",
        {"tools": [part("function", function={"name": "f", "parameters": {"properties": {"a": {"$ref": EVIL}}}})]},
    ),
    *(
        (
            f"tools[0].function.parameters.{within}.{name}.$ref",
            {"tools": [part("function", function={"name": "f", "parameters": {within: {name: {"$ref": EVIL}}}})]},
        )
        for within, name in (("properties", "default"), ("properties", "examples"), ("$defs", "const"))
    ),
    (
        "response_format.json_schema.schema.$ref",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "//evil"}}}},
    ),
)


@pytest.mark.parametrize(("where", "fields"), BEYOND)
def test_a_provider_does_no_more_than_answer_with_the_model_that_was_named(
    agent: httpx.Client, provider: ScriptedProvider, where: str, fields: dict[str, Any]
) -> None:
    """A search of the provider's own would carry data out, and another model would be paid for at this one's price."""
    provider.clear()
    provider.script.replace([], otherwise=Say("ok"))
    assert_openai_error(agent.post(CHAT, json=said("x", **fields)), 400, "field_not_allowed", where)
    assert provider.requests == []


def test_words_data_and_listed_hosts_pass(agent: httpx.Client, provider: ScriptedProvider) -> None:
    provider.script.replace([], otherwise=Say("ok"))
    function = {
        "name": "f",
        "description": EVIL,
        "parameters": {"$schema": EVIL, "properties": {"url": {"default": EVIL}}},
    }
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"url": EVIL})}}
    messages = [
        {"role": "system", "content": EVIL},
        {"role": "assistant", "content": EVIL, "tool_calls": [call], "annotations": [{"url_citation": {"url": EVIL}}]},
        {"role": "tool", "tool_call_id": "c1", "content": EVIL},
        *user(
            part("image_url", image_url={"url": "data:image/png;base64,AAAA", "detail": "low"}),
            part("image_url", image_url={"url": "https://cdn.pictures.example/a.png"}),
            part("input_audio", input_audio={"data": "AAAA", "format": "wav"}),
            part("file", file={"file_id": "file-1"}),
        ),
    ]
    body = {**said("x"), "messages": messages, "tools": [part("function", function=function)], "stop": ["//", EVIL]}
    reply = agent.post(CHAT, json=body)
    assert reply.status_code == 200, reply.text
    assert provider.requests[-1].messages == messages
