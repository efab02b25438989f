"""What an agent sends comes back in errors and in the log as a short quote, however long it was; others do not wait."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from .test_host_input import MIB, SmallHost

HEAD = b'{"model":"default","messages":[{"role":"user","content":"hi"}],'
BODIES = {
    "model": b'{"messages":["hi"],"model":"LONG"}',
    "field": HEAD + b'"LONG":1}',
    "blank-field": HEAD + b'"BLANKS":1}',
    "blank-value": HEAD + b'"stop":[["BLANKS"]],"x":1}',
    "blank-address": HEAD + b'"image_url":"BLANKShttps://x"}',
    "address": HEAD + b'"image_url":"https://LONG"}',
    "path-of-an-address": HEAD + b'"LONG":{"url":"https://x"}}',
    "path-of-a-reference": HEAD + b'"tools":[{"type":"function","function":{"LONG":{"$ref":"//x"}}}]}',
    "tool": HEAD + b'"tools":[{"type":"function","LONG":1}]}',
    "key": HEAD + b'"LONG":1,"HALF":1,"HALF":2}',
}
TEXTS = {b"LONG": (b"x", 30 * MIB), b"BLANKS": (b" ", 30 * MIB), b"HALF": (b"x", MIB // 2)}
"""What stands for each word in a body: made when it is needed, as all of them together are 360 MiB."""
LONGEST_ANSWER, LONGEST_LINE = 10_000, 8_000
MOST_SECONDS = 1.0
"""Of the host's processor, nearly all of which others wait for."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallHost]:
    with SmallHost(tmp_path_factory.mktemp("mesh"), MESH_PROVIDER="demo", MESH_LOG_FORMAT="json") as host:
        yield host


def body_of(name: str) -> bytes:
    """The whole body of that name."""
    body = BODIES[name]
    for word, (character, length) in TEXTS.items():
        body = body.replace(word, character * length)
    return body


@pytest.mark.parametrize("name", BODIES)
def test_a_long_text_is_quoted_in_short(host: SmallHost, name: str) -> None:
    server = psutil.Process(host.process.pid)
    body = body_of(name)
    with host.client(host.token(f"evil-{name}")) as agent:
        before = server.cpu_times()
        answer = agent.post("/v1/chat/completions", content=body)
        after = server.cpu_times()
    assert after.user - before.user < MOST_SECONDS
    assert answer.status_code in (400, 404), answer.text[:300]
    assert len(answer.content) < LONGEST_ANSWER
    lines = [line for line in host.process.output().splitlines() if f'"evil-{name}"' in line]
    assert any("model_call_refused" in line for line in lines), host.process.output()[-2000:]
    assert max(map(len, lines)) < LONGEST_LINE
