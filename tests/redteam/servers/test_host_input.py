"""Input of one agent that costs far more than its bytes: a host with 1 GiB survives it and answers all others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from agent_testing import Garbage, ScriptedProvider
from tests.integration.host.live import Host, catalog
from tests.memory_limit import peak_mib
from tests.pulse import Pulse

MIB = 2**20
PROMPT_MS, LONGEST_MS = 500, 3000
"""Waits of the other agent: nearly all, and the longest on a machine that is busy with other things too."""


class SmallHost(Host):
    """A host that another agent watches. Its limit of memory is that of every host of this folder."""

    @contextmanager
    def watched(self, token: str) -> Generator[None]:
        """Assert that an agent's `GET /v1/models` is answered in time while the block runs."""
        pulse = Pulse(self.url, token, "/v1/models")
        with pulse:
            yield
        waits = sorted(pulse.milliseconds or [0.0])
        assert waits[int(len(waits) * 0.95)] < PROMPT_MS, waits[-5:]
        assert waits[-1] < LONGEST_MS, waits[-5:]


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(models=("big-1",)) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallHost]:
    folder = tmp_path_factory.mktemp("mesh")
    models = catalog(folder, provider)
    with SmallHost(folder / "data", MESH_MODELS=models, UPSTREAM_KEY="sk") as host:
        yield host


@pytest.fixture(scope="module")
def token(host: SmallHost) -> str:
    return host.token("evil")


@pytest.fixture(scope="module")
def other(host: SmallHost) -> str:
    return host.token("good")


def at_once(count: int, send: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """The answers to a number of requests that are sent side by side."""
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(send())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def chat_body(messages: bytes, size: int = 32 * MIB, model: bytes = b"default") -> bytes:
    """A request with so many of these messages that it has about `size` bytes."""
    head, end = b'{"model":"' + model + b'","messages":[', b"0]}"
    return head + messages * ((size - len(head) - len(end)) // len(messages)) + end


COSTLY = {
    "objects": b'{"":0},',
    "numbers": b"1,",
    "texts": b'"",',
    "lists": b"[],",
}


@pytest.mark.parametrize("messages", COSTLY.values(), ids=COSTLY)
@pytest.mark.parametrize("model", [b"default", b"demo"])
def test_costly_calls_of_one_agent_do_not_delay_another(
    host: SmallHost, token: str, other: str, messages: bytes, model: bytes
) -> None:
    body = chat_body(messages, model=model)

    def send() -> httpx.Response:
        with host.client(token) as agent:
            return agent.post("/v1/chat/completions", content=body, timeout=60)

    with host.watched(other):
        answers = at_once(4, send)
    assert [answer.status_code for answer in answers] == [400] * 4, answers[0].text
    assert "values" in answers[0].json()["error"]["message"]
    assert peak_mib(host.process.pid) < 800


def test_large_calls_that_are_sound_go_through(host: SmallHost, token: str, other: str) -> None:
    body = b'{"model":"default","messages":[{"role":"user","content":"echo ' + b"x" * (30 * MIB) + b'"}]}'

    def send() -> httpx.Response:
        with host.client(token) as agent:
            return agent.post("/v1/chat/completions", content=body, timeout=60)

    with host.watched(other):
        answers = at_once(2, send)
    assert [answer.status_code for answer in answers] == [200] * 2, answers[0].text
    assert peak_mib(host.process.pid) < 1000


@pytest.mark.parametrize(
    "path", ["/v1/search", "/v1/embeddings", "/work", "/workspaces", "/workspaces/evil/constraints"]
)
def test_unknown_fields_cost_little(host: SmallHost, token: str, other: str, path: str) -> None:
    body = b"{" + b",".join(b'"%d":0' % number for number in range(2_500_000)) + b"}"

    def send() -> httpx.Response:
        with host.client(token) as agent:
            return agent.post(path, content=body, headers={"content-type": "application/json"}, timeout=60)

    with host.watched(other):
        [answer] = at_once(1, send)
    assert answer.status_code in (400, 401, 403, 422), answer.text[:300]
    assert len(answer.content) < 20_000
    assert peak_mib(host.process.pid) < 800


@pytest.mark.parametrize("path", ["/v1/search", "/workspaces"])
def test_few_of_many_faults_are_told(host: SmallHost, path: str) -> None:
    body = b'{"id":7,' + b",".join(b'"%d":0' % number for number in range(15_000)) + b"}"
    answer = host.operator.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert len(answer.content) < 20_000


@pytest.mark.parametrize("number", [b"1e400", b"NaN", b"-Infinity"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/search", "/workspaces"])
def test_a_number_that_is_not_finite_is_refused(host: SmallHost, path: str, number: bytes) -> None:
    body = b'{"model":"default","messages":[{"role":"user","content":"hi"}],"temperature":' + number + b"}"
    answer = host.operator.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "number" in answer.text or "JSON" in answer.text


def test_a_providers_line_without_end_is_cut(host: SmallHost, token: str, provider: ScriptedProvider) -> None:
    provider.script.replace(None, Garbage("data: " + "x" * (24 * MIB)))
    with host.client(token) as agent:
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        answer = agent.post("/v1/chat/completions", json=body, timeout=60)
    provider.script.replace(None)
    assert "longer than" in answer.text[-500:]
    assert len(answer.content) < 10 * MIB


@pytest.mark.parametrize(
    "text", ["\n" * MIB, " " * MIB + "x", "run:" + " " * MIB + "\n", "list " * (MIB // 5)], ids=range(4)
)
def test_the_demo_model_reads_in_linear_time(host: SmallHost, token: str, other: str, text: str) -> None:
    with host.client(token) as agent, host.watched(other):
        body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
        assert agent.post("/v1/chat/completions", json=body).status_code == 200
