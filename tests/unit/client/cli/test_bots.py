"""`agent bots` hands over to the program of the bots: with the host of the context, and from nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_client.cli.commands.bots import _current_host, _named_host
from agent_client.cli.contexts import Choice
from agent_client.cli.errors import CliError, UsageError
from agent_client.cli.run import Invocation

HOST: dict[str, Any] = {"name": "home", "url": "http://127.0.0.1:9", "kind": "host", "token": "secret"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def write(home: Path, **changed: Any) -> None:
    path = home / ".config/agent/contexts.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"current": "home", "contexts": [HOST | changed]}))
    path.chmod(0o600)


def current_host() -> dict[str, str]:
    """What the bots learn of their host."""
    return {name: value for name, value in _current_host(Invocation()).items() if name.startswith("MESH_")}


def test_the_host_of_the_current_context_is_that_of_the_bots(home: Path) -> None:
    write(home)
    assert current_host() == {"MESH_URL": "http://127.0.0.1:9", "MESH_TOKEN": "secret"}
    assert _current_host(Invocation())["HOME"] == str(home)


def test_a_host_of_the_environment_comes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home)
    monkeypatch.setenv("MESH_URL", "http://127.0.0.1:8")
    assert current_host() == {"MESH_URL": "http://127.0.0.1:8"}


@pytest.mark.parametrize("name", ["MESH_TOKEN", "MESH_TOKEN_FILE"])
def test_a_token_without_a_url_is_for_the_host_of_the_context(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    assert current_host() == {name: "x"}, "there is no context"
    write(home, kind="agent")
    assert current_host() == {name: "x"}
    write(home)
    assert current_host() == {"MESH_URL": "http://127.0.0.1:9", name: "x"}
    write(home, data_dir=str(home / "mesh"))  # its host does not run, so the port may be another user's
    with pytest.raises(CliError, match=r"what listens at http://127\.0\.0\.1:9 is not the host of"):
        current_host()


def test_a_context_that_is_no_host_is_not_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert current_host() == {}, "there is none"
    write(home, kind="agent")
    assert current_host() == {}
    assert capsys.readouterr().err == ""
    write(home, data_dir=str(home / "mesh"))  # its host does not run, so the port may be another user's
    assert current_host() == {}
    assert "the current context is not used: what listens at http://127.0.0.1:9 is not" in capsys.readouterr().err


async def test_a_host_that_an_option_names_must_be_there(home: Path) -> None:
    with pytest.raises(UsageError, match="there is no context 'x'"):
        await _named_host(Invocation(choice=Choice(context="x")))
    write(home)
    with pytest.raises(CliError, match=r"nothing listens at http://127\.0\.0\.1:9"):
        await _named_host(Invocation(choice=Choice(context="home")))


def test_the_program_does_not_come_from_the_current_folder(home: Path) -> None:
    trap = home / "frontends"
    trap.mkdir()
    for name in ("__init__.py", "__main__.py"):
        (trap / name).write_text("open('caught', 'w')\n")
    agent = Path(sys.executable).with_name("agent")
    environment = {**os.environ, "BOTS_DATA_DIR": str(home / "data")}
    done = subprocess.run([agent, "bots", "people"], cwd=home, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (home / "data/bots.db").exists()
    assert not (home / "caught").exists()
