"""What a newcomer gets wrong in the first hour is told at once, with what to do about it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from agent_testing import LiveProcess, Say, ScriptedProvider
from tests.integration.host.live import OPERATOR, Host, catalog

from ..live import Runtime, eventually, fresh
from ..server.test_start import refused

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(models=("big-1",)) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(upstream: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    with Host(folder / "data", MESH_MODELS=catalog(folder, upstream), UPSTREAM_KEY="sk") as host:
        yield host


def behind(host: Host, provider: ScriptedProvider, folder: Path, **settings: object) -> Runtime:
    return Runtime(provider, folder / "agent", AGENT_LLM_BASE_URL="", AGENT_MESH_URL=host.url, **settings)


@pytest.mark.parametrize("token", ["", "mesh_wrong"])
def test_a_wrong_or_missing_mesh_token_is_seen_at_once(
    host: Host, upstream: ScriptedProvider, tmp_path: Path, token: str
) -> None:
    with behind(host, upstream, tmp_path, AGENT_MESH_TOKEN=token) as agent:
        eventually(lambda: agent.get("/readyz").json() == {"ready": False, "reasons": ["mesh_token"]})
        assert agent.get("/readyz").status_code == 503
        assert agent.status()["mesh"] == "refused"
        said = agent.process.output()
        assert f"{host.url}/v1 refuses the token (401)" in said
        assert "agent-host token" in said


def test_a_token_that_is_taken_away_is_seen_too(host: Host, upstream: ScriptedProvider, tmp_path: Path) -> None:
    with behind(host, upstream, tmp_path, AGENT_MESH_TOKEN=host.token("newcomer")) as agent:
        upstream.script.replace([Say("hello")])
        assert agent.chat("hi", session_id=fresh("s")).json()["response"] == "hello"
        assert agent.get("/readyz").json() == {"ready": True, "reasons": []}
        host.token_command("newcomer", "--revoke")
        upstream.script.replace(lambda _: Say("hello"))  # the host trusts a good token for five seconds
        eventually(lambda: agent.chat("hi", session_id=fresh("s")).json().get("code") == "model_auth")
        eventually(lambda: agent.get("/readyz").json()["reasons"] == ["mesh_token"])


def test_a_mesh_that_is_not_there_is_named_and_found_when_it_comes(upstream: ScriptedProvider, tmp_path: Path) -> None:
    host = Host(tmp_path / "host", MESH_MODELS=catalog(tmp_path, upstream), UPSTREAM_KEY="sk", MESH_ADMIN_TOKEN="o")
    with host:
        url, token = host.url, host.token("early")
    host.env["MESH_PORT"] = url.rpartition(":")[2]
    with behind(host, upstream, tmp_path, AGENT_MESH_TOKEN=token) as agent:
        eventually(lambda: f"the mesh cannot be reached at {url}/v1" in agent.process.output())
        assert agent.status()["mesh"] == "unreachable"
        with host:
            eventually(lambda: agent.status()["mesh"] == "reachable")


def test_a_name_that_is_no_setting_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    said = refused(tmp_path, AGENT_MAX_ITERATION=3, AGENT_MODLE="x", AGENT_COLOUR_OF_ITS_HAIR="red", AGENT_PORT="http")
    assert "AGENT_MAX_ITERATION: there is no such setting; did you mean AGENT_MAX_ITERATIONS?" in said
    assert "AGENT_MODLE: there is no such setting; did you mean AGENT_MODEL?" in said
    assert "AGENT_COLOUR_OF_ITS_HAIR: there is no such setting; see agent-runtime serve --help" in said
    assert "AGENT_PORT:" in said


def test_a_model_without_a_provider_does_not_quietly_become_the_demo(tmp_path: Path) -> None:
    told = "OPENAI_MODEL is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL"
    with Host(tmp_path / "a", OPENAI_MODEL="gpt-9") as host:
        assert told in host.process.output()
    with Host(tmp_path / "b", OPENAI_MODEL="gpt-9", MESH_PROVIDER="demo") as host:
        assert told not in host.process.output()


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded"])
def test_json_is_read_whatever_its_sender_calls_it(
    host: Host, upstream: ScriptedProvider, tmp_path: Path, kind: str | None
) -> None:
    """`curl -d` calls all that it sends a form."""
    headers = {"authorization": f"Bearer {OPERATOR}", **({"content-type": kind} if kind else {})}
    with httpx.Client(base_url=host.url, headers=headers, trust_env=False) as client:
        made = client.post("/workspaces", content=json.dumps({"id": fresh("w"), "driver": "external"}))
        assert made.status_code == 201, made.text
        broken = client.post("/workspaces", content="id=w")
        assert broken.status_code == 422
        assert "JSON" in broken.json()["detail"]
    with Runtime(upstream, tmp_path / "agent") as agent:
        upstream.script.replace([Say("hello")])
        reply = agent.http.post(
            "/chat", content=b'{"message": "hi"}', headers=headers | {"authorization": "Bearer sesame"}
        )
        assert reply.json()["response"] == "hello"
        broken = agent.http.post("/chat", content=b"message=hi", headers=headers | {"authorization": "Bearer sesame"})
        assert broken.status_code == 422
        assert "JSON" in broken.json()["detail"]


def test_a_token_that_is_kept_is_made_once(tmp_path: Path) -> None:
    host = Host(tmp_path / "data")
    path = Path(host.token_command("agent", "--keep"))
    first = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert Path(host.token_command("agent", "--keep")) == path
    assert path.read_text() == first
    assert tokens(tmp_path / "data") == 1
    host.token_command("agent", "--revoke")
    host.token_command("agent", "--keep")
    assert path.read_text() != first
    assert tokens(tmp_path / "data") == 1


def test_make_serve_makes_no_token_but_the_first(tmp_path: Path) -> None:
    env = {
        "MESH_DATA_DIR": str(tmp_path / "mesh"),
        "AGENT_DATA_DIR": str(tmp_path / "agent"),
        "AGENT_PORT": "0",
        "HOME": str(tmp_path),
    }
    for _ in range(2):
        with LiveProcess(["make", "-o", ".venv/.ready", "serve"], env, cwd=ROOT) as agent:
            agent.wait_for_output('"event": "ready"', 60)
    assert tokens(tmp_path / "mesh") == 1
    direct = {**os.environ, **env, "AGENT_LLM_BASE_URL": "http://127.0.0.1:9/v1", "MESH_DATA_DIR": str(tmp_path / "no")}
    done = subprocess.run(
        ["make", "-n", "-o", ".venv/.ready", "serve"], cwd=ROOT, env=direct, check=True, capture_output=True, text=True
    )
    assert "agent-runtime serve" in done.stdout
    assert not (tmp_path / "no").exists()


def tokens(data: Path) -> int:
    with closing(sqlite3.connect(data / "mesh.db")) as database:
        return database.execute("SELECT count(*) FROM tokens").fetchone()[0]
