"""Starting and stopping the host: what it says, what it refuses, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_host.settings import LOADER
from agent_testing import Hang, LiveProcess, Say, ScriptedProvider

from .live import PATIENCE, UP, Host, assert_problem, said

pytestmark = pytest.mark.slow

COMMAND = UP[:-1]


def run(*arguments: str, **env: object) -> tuple[int, str]:
    free = {"MESH_LISTENER_URL": "tcp://127.0.0.1:0"}
    with LiveProcess([*COMMAND, *arguments], {**free, **{name: str(value) for name, value in env.items()}}) as process:
        return process.wait(PATIENCE), process.output()


def test_help_names_every_setting() -> None:
    code, text = run("up", "--help", COLUMNS=120)
    assert code == 0
    for name in LOADER.names():
        assert re.search(rf"\b{name}\b", text), name
    assert "[8420]" in text
    code, text = run("-h")
    assert (code, "`agent-host up --help` lists the settings" in text, "MESH_PORT" in text) == (0, True, False)


def test_without_settings_it_makes_an_operator_token_and_shows_it_once(tmp_path: Path) -> None:
    with Host(tmp_path, MESH_ADMIN_TOKEN="") as host:
        token = host.process.wait_for_output(r"operator token: (mesh_operator_\S+)")[1]
        assert "the built-in models of the provider 'demo'" in host.process.output()
        with host.client(token) as operator:
            assert operator.get("/usage").status_code == 200
        host.start()
        host.process.wait_for_output(r"operator token: `agent-host token operator --show` prints it")
        assert token not in host.process.output()
        with host.client(token) as operator:
            assert operator.get("/usage").status_code == 200
        with host.client(host.token_command("operator")) as replaced:
            assert replaced.get("/usage").status_code == 200
    assert b"mesh_operator_" not in (tmp_path / "mesh.db").read_bytes()


def test_the_operators_token_can_be_had_again(tmp_path: Path) -> None:
    kept = {"MESH_DATA_DIR": tmp_path, "MESH_ADMIN_TOKEN": ""}
    code, text = run("token", "operator", "--show", **kept)
    assert (code, "keeps no token that holds" in text) == (1, True)
    with Host(tmp_path, MESH_ADMIN_TOKEN="") as host:
        token = host.process.wait_for_output(r"operator token: (mesh_operator_\S+)")[1]
        assert run("token", "operator", "--show", **kept)[1].strip() == token
        assert (tmp_path / "tokens" / "operator").stat().st_mode & 0o777 == 0o600
        replaced = run("token", "operator", **kept)[1].strip()
        assert replaced != token
        assert run("token", "operator", "--show", **kept)[1].strip() == replaced
        with host.client(replaced) as operator:
            assert operator.get("/usage").status_code == 200
        with host.client(token) as stranger:
            assert stranger.get("/usage").status_code == 401
    assert run("token", "operator", "--show", MESH_DATA_DIR=tmp_path, MESH_ADMIN_TOKEN="sesame")[1].strip() == "sesame"


def test_models_are_those_of_the_running_host(tmp_path: Path) -> None:
    with Host(tmp_path, OPENAI_API_KEY="sk-secret", OPENAI_MODEL="gpt-of-the-host"):
        code, text = run("models", MESH_DATA_DIR=tmp_path, COLUMNS=200)
        assert code == 0
        assert "gpt-of-the-host" in text
        assert "no host uses" not in text
        assert "model: gpt-of-the-host" in run("models", "default", MESH_DATA_DIR=tmp_path)[1]
        code, text = run("models", "missing", MESH_DATA_DIR=tmp_path)
        assert (code, "there is no model 'missing'; there are: default" in text) == (1, True)
        assert b"sk-secret" not in (tmp_path / "models.json").read_bytes()
    code, text = run("models", MESH_DATA_DIR=tmp_path, COLUMNS=200)
    assert (code, "no host uses" in text, "gpt-of-the-host" in text) == (0, True, False)


def test_every_wrong_setting_is_named(tmp_path: Path) -> None:
    code, text = run("up", MESH_PORT="x", MESH_PROT="1", MESH_PROVIDER="magic", MESH_DATA_DIR=tmp_path)
    assert code == 1
    assert [line.split(":")[1].strip() for line in text.splitlines()] == ["MESH_PROT", "MESH_PORT", "MESH_PROVIDER"]
    assert "Traceback" not in text


def test_a_wrong_catalog_is_told_by_place(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("models: {a: {provider: nobody}, b: {provider: demo, context_limit: -1}}")
    code, text = run("up", MESH_MODELS=models, MESH_DATA_DIR=tmp_path, MESH_PORT=0)
    assert code == 1
    assert "models.b.context_limit" in text


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run("up", MESH_PORT=port, MESH_DATA_DIR=tmp_path)
    assert (code, text) == (
        1,
        f"agent-host: MESH_PORT: 127.0.0.1:{port} is in use; stop what listens there or set another\n",
    )


@pytest.mark.parametrize("address", ["203.0.113.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_said(tmp_path: Path, address: str) -> None:
    code, text = run("up", MESH_HOST=address, MESH_PORT=0, MESH_DATA_DIR=tmp_path)
    assert code == 1
    assert text.startswith(f"agent-host: MESH_HOST: cannot listen on {address}:0: ")


def test_a_folder_that_cannot_be_written_is_said() -> None:
    code, text = run("up", MESH_DATA_DIR="/dev/null/mesh", MESH_PORT=0)
    assert (code, text) == (1, "agent-host: MESH_DATA_DIR: cannot write to /dev/null/mesh: Not a directory\n")
    assert run("token", "a", MESH_DATA_DIR="/dev/null/mesh")[0] == 1


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        (
            "MESH_VM_IMAGE",
            "/nowhere",
            "MESH_VM_IMAGE: /nowhere has no vmlinuz; `make rootfs .image/initrd.gz` builds it in .image",
        ),
        ("MESH_MICROAGENT", "micro 'agent", 'MESH_MICROAGENT: No closing quotation (is "micro \'agent")'),
    ],
)
def test_a_driver_that_cannot_be_made_is_said(tmp_path: Path, setting: str, value: str, said: str) -> None:
    code, text = run("up", **{setting: value}, MESH_DATA_DIR=tmp_path, MESH_PORT=0)
    assert (code, text) == (1, f"agent-host: {said}\n")


def test_a_second_host_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        code, text = run("up", **{**host.env, "MESH_PORT": "0"})
        who = f"process {host.process.pid} at {host.url}"
    assert code == 1
    assert f"another agent-host uses {tmp_path}, {who}; name another folder, or stop it: `agent down`" in text


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    with Host(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "mesh.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    code, text = run("up", MESH_DATA_DIR=tmp_path, MESH_PORT=0)
    assert code == 1
    assert "a newer agent-host made it" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_the_ledger_is_written(tmp_path: Path, number: signal.Signals) -> None:
    with Host(tmp_path) as host:
        assert host.operator.post("/v1/chat/completions", json=said("hello")).status_code == 200
        os.kill(host.process.pid, number)
        assert host.process.wait(PATIENCE) == 0
        assert "Traceback" not in host.process.output()
    with closing(sqlite3.connect(tmp_path / "mesh.db")) as database:
        assert database.execute("SELECT agent_id, status FROM model_calls").fetchall() == [("operator", "complete")]


def test_it_stops_although_a_stream_is_open(tmp_path: Path) -> None:
    step = Hang(after=1, reply=Say("one two"), seconds=30)
    with (
        ScriptedProvider([step]) as provider,
        Host(tmp_path, OPENAI_BASE_URL=provider.url, MESH_STOP_GRACE=0) as host,
    ):
        with host.operator.stream("POST", "/v1/chat/completions", json=said("hi", stream=True)) as reply:
            pieces = reply.iter_bytes()
            assert next(pieces)
            os.kill(host.process.pid, signal.SIGTERM)
            assert host.process.wait(PATIENCE) == 0
        provider.release()
    with closing(sqlite3.connect(tmp_path / "mesh.db")) as database:
        assert database.execute("SELECT status FROM model_calls").fetchall() == [("client_gone",)]


def test_a_database_that_fails_shows_in_readiness(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        with closing(sqlite3.connect(tmp_path / "mesh.db", timeout=60)) as database:
            database.execute("ALTER TABLE model_calls RENAME TO hidden")
        assert host.operator.post("/v1/chat/completions", json=said("hello")).status_code == 200
        host.process.wait_for_output("ledger_write_failed")
        reply = host.operator.get("/readyz")
        assert (reply.status_code, reply.json()["reasons"]) == (503, ["database_unavailable"])
        assert_problem(host.operator.get("/usage"), 503, "database_unavailable")
        with closing(sqlite3.connect(tmp_path / "mesh.db", timeout=60)) as database:
            database.execute("ALTER TABLE hidden RENAME TO model_calls")
        assert len(host.recent()) == 1
        assert host.operator.get("/readyz").status_code == 200


def test_a_stop_is_in_good_order_though_the_database_fails(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        assert host.operator.post("/workspaces", json={"id": "writer"}).status_code == 201
        assert host.operator.post("/workspaces/writer/start").status_code == 200
        assert host.operator.post("/v1/chat/completions", json=said("hello")).status_code == 200
        with closing(sqlite3.connect(tmp_path / "mesh.db", timeout=60)) as database:
            database.execute("DROP TABLE workspaces")
        os.kill(host.process.pid, signal.SIGTERM)
        assert host.process.wait(PATIENCE) == 0
        output = host.process.output()
        assert "workspace_close_failed" in output
        assert "Traceback" not in output
    with closing(sqlite3.connect(tmp_path / "mesh.db")) as database:
        assert database.execute("SELECT status FROM model_calls").fetchall() == [("complete",)]


def test_openai_settings_select_the_real_provider(tmp_path: Path) -> None:
    env: dict[str, Any] = {"OPENAI_MODEL": "big-2", "OPENAI_API_KEY": "sk-1"}
    with ScriptedProvider([Say("hello")]) as provider, Host(tmp_path, OPENAI_BASE_URL=provider.url, **env) as host:
        assert host.operator.post("/v1/chat/completions", json=said("hi")).status_code == 200
        (asked,) = provider.completions
    assert asked.json["model"] == "big-2"
    assert asked.headers["authorization"] == "Bearer sk-1"


def test_the_catalog_is_shown() -> None:
    code, text = run("models", COLUMNS=40)
    assert code == 0
    assert re.search(r"(?m)^default\t[^\t]+\t[^\t]+\t128,000\t", text), "piped, nothing is cut"
    for word in ("default", "embedding", "demo", "128,000", "chat, tools"):
        assert word in text
    code, text = run("models", OPENAI_BASE_URL="http://127.0.0.1:1/v1", COLUMNS=200)
    assert "unknown" in text


def test_an_operators_token_beside_the_one_in_the_settings_is_refused(tmp_path: Path) -> None:
    code, text = run("token", "operator", MESH_DATA_DIR=tmp_path, MESH_ADMIN_TOKEN="x")
    assert code == 1
    assert "MESH_ADMIN_TOKEN is set" in text


@pytest.mark.parametrize("agent_id", ["a b", "-x/", ".."])
def test_a_token_for_an_impossible_id_is_refused(tmp_path: Path, agent_id: str) -> None:
    code, text = run("token", "--", agent_id, MESH_DATA_DIR=tmp_path)
    assert code == 1
    assert text.startswith(f"agent-host: id {agent_id!r} must be 1 to 100 letters")


def test_an_ipv6_address_serves_too(tmp_path: Path) -> None:
    with Host(tmp_path, MESH_HOST="::1") as host:
        assert host.url.startswith("http://[::1]:")
        assert httpx.get(f"{host.url}/healthz", trust_env=False).status_code == 200


def test_the_names_of_models_are_whole_on_a_narrow_terminal() -> None:
    code, told = run("models", COLUMNS=80, MESH_PROVIDER="openai", OPENAI_API_KEY="k", OPENAI_MODEL="large")
    assert code == 0
    assert "embedding" in told
    assert "text-embedding-3-small" in told
