"""A start that cannot be: it is refused at once, with the reason and what to do about it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_testing import LiveProcess, ScriptedProvider

from ..conftest import Start
from ..live import SERVE, Runtime
from ..mounts import mounted, needs_mounts

REFUSED = 1


def refused(data_dir: Path | str, command: Sequence[str] = SERVE, **settings: object) -> str:
    """Starts a server that must not come up; what it says, which is no trace of code."""
    env = {"AGENT_PORT": "0", "AGENT_DATA_DIR": str(data_dir), "AGENT_LLM_BASE_URL": "http://127.0.0.1:9/v1"}
    with LiveProcess(command, {**env, **{name: str(value) for name, value in settings.items()}}) as process:
        assert process.wait(15) == REFUSED, process.output()
        said = process.output()
    assert "Traceback" not in said
    assert '"event": "ready"' not in said
    assert "agent-runtime: " in said
    return said


def test_several_wrong_settings_are_all_named(tmp_path: Path) -> None:
    said = refused(
        tmp_path,
        AGENT_PORT="http",
        AGENT_ID="not a name",
        AGENT_LLM_BASE_URL="ftp://example.org",
        AGENT_MAX_ITERATIONS=0,
        AGENT_CONFINEMENT="maybe",
        AGENT_TOOL_TIMEOUT="soon",
    )
    names = ("PORT", "ID", "LLM_BASE_URL", "MAX_ITERATIONS", "CONFINEMENT", "TOOL_TIMEOUT")
    assert all(f"AGENT_{name}:" in said for name in names), said
    assert "http" in said
    assert "maybe" in said


def test_a_secret_file_that_cannot_be_read_is_one_fault_among_others(tmp_path: Path) -> None:
    said = refused(tmp_path, AGENT_TOKEN_FILE=tmp_path / "none", AGENT_MAX_QUEUE=-1)
    assert "AGENT_TOKEN_FILE:" in said
    assert "AGENT_MAX_QUEUE:" in said


def test_a_wrong_secret_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    said = refused(tmp_path, AGENT_TOKEN_FILE=tmp_path / "empty")
    assert "AGENT_TOKEN" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_beyond_loopback_a_token_is_needed(tmp_path: Path, host: str) -> None:
    said = refused(tmp_path, AGENT_HOST=host)
    assert "AGENT_TOKEN" in said
    assert host in said


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    said = refused(tmp_path, AGENT_HOST="192.0.2.1", AGENT_TOKEN="x")
    assert "192.0.2.1" in said


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("I was here first")
    assert str(tmp_path / "data") in refused(tmp_path / "data")
    assert str(tmp_path / "data") in refused(tmp_path / "data" / "below")
    assert (tmp_path / "data").read_text() == "I was here first"


@pytest.mark.slow
def test_a_data_directory_that_cannot_be_written() -> None:
    said = refused("/proc/agent-data")
    assert "/proc/agent-data" in said


@needs_mounts
@pytest.mark.parametrize("closed", ["", "agent.db", "agent.db.lock", "workspace"])
def test_what_is_not_ours_in_the_data_directory_is_named(tmp_path: Path, closed: str) -> None:
    """Yesterday's server ran as another user, and this one has no power over modes."""
    data = tmp_path / "data"
    data.mkdir()
    at = data / closed
    if "." in closed:
        at.touch()
    else:
        at.mkdir(exist_ok=True)
    at.chmod(0o600 if not closed else 0)
    said = refused(data, [*mounted("--cap-drop", "ALL"), *SERVE])
    at.chmod(0o700)
    assert str(at) in said
    assert any(word in said for word in ("cannot be written by user", "cannot lock", "cannot be opened")), said


@needs_mounts
def test_a_database_that_is_mounted_to_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent.db").touch()
    database = str(tmp_path / "agent.db")
    said = refused(tmp_path, [*mounted("--ro-bind", database, database), *SERVE])
    assert f"{database} cannot be written by user {os.geteuid()}: Read-only file system" in said


def test_the_port_is_in_use(shared: Runtime, tmp_path: Path) -> None:
    port = urlsplit(shared.url).port
    said = refused(tmp_path / "other", AGENT_PORT=port)
    assert f"port {port}" in said
    assert "in use" in said
    assert "AGENT_PORT" in said


def test_a_second_server_on_one_data_directory(shared: Runtime) -> None:
    said = refused(shared.data_dir)
    assert str(shared.data_dir) in said
    assert str(shared.process.pid) in said
    shared.still_works()


@pytest.mark.slow
def test_a_database_newer_than_the_program(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    agent.process.terminate()
    path = agent.data_dir / "agent.db"
    with closing(sqlite3.connect(path)) as connection:
        [known] = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("PRAGMA user_version = 9999")
    said = refused(agent.data_dir)
    assert "9999" in said
    assert str(known) in said
    assert str(path) in said
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {known}")
    agent.start()
    agent.still_works()


def test_a_database_that_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "agent.db").write_bytes(b"something else entirely" * 1000)
    assert str(tmp_path / "agent.db") in refused(tmp_path)
    assert (tmp_path / "agent.db").read_bytes() == b"something else entirely" * 1000


def test_a_token_from_a_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    agent = start(AGENT_TOKEN="", AGENT_TOKEN_FILE=tmp_path / "token")
    assert agent.get("/status").status_code == 401
    with agent.client(Authorization="Bearer from-a-file") as caller:
        assert caller.get("/status").status_code == 200


def test_help_names_every_setting_and_bad_commands_are_refused() -> None:
    told = subprocess.run([*SERVE, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    for name in ("AGENT_PORT", "AGENT_DATA_DIR", "AGENT_TOKEN_FILE", "AGENT_MAX_QUEUE", "AGENT_CONFINEMENT"):
        assert name in told
    wrong = subprocess.run([*SERVE, "--prot", "1"], capture_output=True, text=True, check=False, timeout=60)
    assert wrong.returncode == 2
    assert "--prot" in wrong.stderr
