"""A workspace that is stopped or contained loses every token at once, and what runs by one of them ends with it."""

from __future__ import annotations

import re
import socket
import sqlite3
import threading
import time
from base64 import b64encode
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.integration.host.live import PATIENCE, Host, catalog, said

AT_ONCE = 1.0
"""Seconds until nothing goes on any more."""


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def host(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("mesh")
    models = catalog(folder, provider)
    settings = {"MESH_MODELS": models, "UPSTREAM_KEY": "k", "MESH_EGRESS_HOSTS": "*", "MESH_EGRESS_PORT": 0}
    with Host(folder / "data", **settings) as host:
        yield host


def egress_says(host: Host, token: str) -> int:
    """The status of a CONNECT: 403 for an address that is not public, 407 for a token that is not known."""
    port = int(host.process.wait_for_output(r"agents go out through http://127.0.0.1:(\d+)")[1])
    basic = b64encode(f"agent:{token}".encode()).decode()
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as proxy:
        proxy.sendall(f"CONNECT 127.0.0.1:1 HTTP/1.1\r\nProxy-Authorization: Basic {basic}\r\n\r\n".encode())
        return int(proxy.recv(4096).split()[1])


@contextmanager
def refused(host: Host, what: str) -> Generator[None]:
    """The host's database refuses a kind of writes."""
    with closing(sqlite3.connect(host.data_dir / "mesh.db", timeout=PATIENCE, isolation_level=None)) as database:
        database.execute(f"CREATE TRIGGER no {what} BEGIN SELECT RAISE(ABORT, 'full'); END")
        yield
        database.execute("DROP TRIGGER no")


def is_up(runtime: str) -> bool:
    """Whether something still listens there."""
    try:
        return httpx.get(f"{runtime}/healthz", trust_env=False).status_code == 200
    except httpx.ConnectError:
        return False
    except httpx.TransportError:
        return True


@pytest.mark.parametrize("deed", ["quarantine", "stop"])
def test_tokens_and_what_runs_by_them_end_at_once(host: Host, provider: ScriptedProvider, deed: str) -> None:
    name = f"w-{deed}"
    assert host.operator.post("/workspaces", json={"id": name, "driver": "external"}).status_code == 201
    tokens = [host.token(name), host.token(name)]
    other = host.token(f"{name}-other")
    provider.script.replace([Hang(after=1, reply=Say("one two three")), Hang(after=1, reply=Say("four five"))])
    provider.clear()
    ended: dict[str, float] = {}

    def streams(token: str) -> None:
        with host.client(token) as client:
            try:
                with client.stream("POST", "/v1/chat/completions", json=said("x", stream=True)) as reply:
                    for _ in reply.iter_bytes():
                        continue
            except httpx.TransportError:
                pass
            ended[token] = time.monotonic()

    running = [threading.Thread(target=streams, args=(token,), daemon=True) for token in (tokens[0], other)]
    for thread in running:
        thread.start()
    provider.wait_for(2)
    assert [egress_says(host, token) for token in tokens] == [403, 403]
    began = time.monotonic()
    assert host.operator.post(f"/workspaces/{name}/{deed}").status_code == 200
    running[0].join(AT_ONCE)
    assert ended.get(tokens[0], began + 99) - began < AT_ONCE, "the stream goes on"
    for token in tokens:
        with host.client(token) as client:
            assert client.get("/v1/models").status_code == 401
        assert egress_says(host, token) == 407
    assert other not in ended, "the calls of others go on"
    with host.client(other) as client:
        assert client.get("/v1/models").status_code == 200
    provider.release()
    running[1].join(PATIENCE)


def test_a_token_that_is_made_in_quarantine_is_good_after_it(host: Host) -> None:
    assert host.operator.post("/workspaces", json={"id": "held", "driver": "external"}).status_code == 201
    assert host.operator.post("/workspaces/held/quarantine").status_code == 200
    with host.client(host.token("held")) as client:
        assert client.get("/v1/models").status_code == 401
        assert host.operator.post("/workspaces/held/unquarantine").status_code == 200
        assert client.get("/v1/models").status_code == 200


def test_a_database_that_refuses_writes_does_not_keep_a_quarantine_from_its_effect(host: Host) -> None:
    assert host.operator.post("/workspaces", json={"id": "full"}).status_code == 201
    started = host.operator.post("/workspaces/full/start")
    assert started.status_code == 200, started.text
    runtime = host.operator.get("/workspaces/full").json()["url"]
    assert httpx.get(f"{runtime}/healthz", trust_env=False).status_code == 200
    with host.client(host.token("full")) as client:
        assert client.get("/v1/models").status_code == 200
        with refused(host, "BEFORE UPDATE ON channels"):
            assert host.operator.post("/workspaces/full/quarantine").status_code == 503
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{runtime}/healthz", trust_env=False)
            assert client.get("/v1/models").status_code == 401
            assert host.operator.post("/workspaces/full/start").status_code == 409
    alarms = [row["type"] for row in host.operator.get("/audit", params={"workspace": "full"}).json()["entries"]]
    assert "alarm.fence_not_written" in alarms
    assert host.operator.post("/workspaces/full/quarantine").status_code == 200, "again, once it can be written"


def test_a_database_that_hangs_does_not_keep_a_runtime_running(host: Host) -> None:
    assert host.operator.post("/workspaces", json={"id": "slow"}).status_code == 201
    started = host.operator.post("/workspaces/slow/start")
    assert started.status_code == 200, started.text
    runtime = host.operator.get("/workspaces/slow").json()["url"]
    failures = len(re.findall("database_failed|journal_failed", host.process.output()))
    asking = threading.Thread(target=host.operator.post, args=("/workspaces/slow/quarantine",))
    with closing(sqlite3.connect(host.data_dir / "mesh.db", timeout=PATIENCE, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        asking.start()
        deadline = time.monotonic() + PATIENCE
        while is_up(runtime) and time.monotonic() < deadline:
            time.sleep(0.02)
        found = len(re.findall("database_failed|journal_failed", host.process.output()))
        database.execute("ROLLBACK")
    assert not is_up(runtime)
    asking.join(PATIENCE)
    assert found == failures, "it was killed once the database had given up"
    assert host.operator.post("/workspaces/slow/quarantine").status_code == 200


def test_a_runtime_that_is_started_again_has_a_token_again(host: Host, provider: ScriptedProvider) -> None:
    provider.script.replace(None)
    assert host.operator.post("/workspaces", json={"id": "again"}).status_code == 201
    for deed in ("start", "quarantine", "unquarantine", "start"):
        assert host.operator.post(f"/workspaces/again/{deed}").status_code == 200, deed
    work = {"workspace": "again", "request": {"request_id": "alive", "content": "say:yes"}}
    assert host.operator.post("/work", json=work).status_code == 202
    deadline = time.monotonic() + PATIENCE
    while (record := host.operator.get("/work/alive").json())["status"] != "resulted":
        assert time.monotonic() < deadline, record
        time.sleep(0.05)
    assert record["result"]["status"] == "completed", record


def test_a_host_that_is_stopped_in_good_order_keeps_the_tokens_of_its_operator(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    with Host(tmp_path / "data") as host:
        assert host.operator.post("/workspaces", json={"id": "a"}).status_code == 201
        assert host.operator.post("/workspaces/a/start").status_code == 200
        token = host.token("a")
        host.start()
        with host.client(token) as client:
            assert client.get("/v1/models").status_code == 200
