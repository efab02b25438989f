"""`agent-runtime skill`: trying a plugin from the command line, and allowing it secrets and hosts."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_testing import Call, Say
from tests.measured import MEASURED

from ..conftest import Start
from ..live import Runtime, eventually

pytestmark = pytest.mark.slow

COUNT = """
@skill
def count(text: str) -> int:
    '''Count the words of a text.'''
    print("counting", len(text))
    return len(text.split())
"""
FORECAST = """
import os, urllib.request

@skill
def forecast(port: int) -> list:
    '''Ask the service for the forecast.'''
    key = {"X-Key": os.environ.get("WEATHER_KEY", "")}
    request = urllib.request.Request(f"http://localhost:{port}/today", headers=key)
    try:
        return [urllib.request.urlopen(request, timeout=60).read().decode()]
    except OSError as error:
        return [str(error)]

@skill
def environment() -> list:
    '''Names of variables.'''
    return sorted(os.environ)
"""


def skill(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent_runtime", "skill", *arguments],
        env={**os.environ, **MEASURED, "AGENT_DATA_DIR": str(folder / "data"), "HOME": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_plugin_is_tried_and_called_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    done = skill(tmp_path, "test", str(tmp_path / "count.py"), "--arguments", '{"text": "one two"}')
    assert done.returncode == 0, done.stderr
    assert "count: Count the words of a text." in done.stdout
    assert "count returned 2\n  counting 7" in done.stdout


@pytest.mark.parametrize(
    ("code", "arguments", "told"),
    [
        ("def count(:", (), "count.py line 1: SyntaxError"),
        ("@skill\ndef count(): return 1", (), "count has no description"),
        (COUNT.replace("len(text.split())", "1 / 0"), ("--arguments", '{"text": "x"}'), "ZeroDivisionError"),
        (COUNT, ("--arguments", '{"txt": "x"}'), "the arguments do not fit count"),
        (COUNT, ("--arguments", "[]"), "--arguments: must be a JSON object, as in '{"),
        (COUNT, ("--arguments", "text=x"), "--arguments: must be a JSON object, as in '{"),
        (
            COUNT.replace("len(text.split())", "__import__('os').environ['WEATHER_KEY']"),
            ("--arguments", '{"text": "x"}'),
            "It has no secret and no network unless `agent-runtime skill allow` gives it some",
        ),
    ],
)
def test_a_fault_is_told_and_the_exit_code_says_so(
    tmp_path: Path, code: str, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "count.py").write_text(code)
    done = skill(tmp_path, "test", str(tmp_path / "count.py"), *arguments)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_plugin_is_named(tmp_path: Path) -> None:
    done = skill(tmp_path, "test", str(tmp_path / "absent.py"))
    assert done.returncode == 1
    assert "absent.py is no plugin" in done.stderr


@contextmanager
def service() -> Generator[tuple[int, list[str]]]:
    keys: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("X-Key", ""))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"sunny")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1], keys
        finally:
            server.shutdown()
            thread.join()


def forecast(agent: Runtime, port: int) -> str:
    agent.provider.script.replace([Call("forecast", {"port": port}), Say("done")])
    [output] = agent.chat("what is the weather?").json()["tool_outputs"]
    return str(output["output"]["data"][0])


def test_secrets_and_hosts_are_for_the_code_that_the_operator_has_allowed(tmp_path: Path, start: Start) -> None:
    with service() as (port, keys):
        agent = start(WEATHER_KEY="sunshine")
        plugin = agent.data_dir / "skills" / "forecast.py"
        plugin.write_text(FORECAST)

        def active() -> bool:
            return any(one["state"] == "active" for one in agent.get("/capabilities").json()["skills"])

        eventually(active)
        assert "sunny" not in forecast(agent, port)
        environment = {"AGENT_DATA_DIR": str(agent.data_dir)}
        given = ("--secret", "WEATHER_KEY", "--host", f"localhost:{port}")
        allowed = skill(tmp_path, "allow", str(plugin), *given, **environment)
        assert allowed.returncode == 0, allowed.stderr
        assert f"may have WEATHER_KEY and reach localhost:{port}, until its code" in allowed.stdout
        assert "when the plugin is saved again, or at its next start" in allowed.stdout
        assert "allow it again" not in allowed.stdout
        agent.start()
        eventually(active)
        assert forecast(agent, port) == "sunny"
        assert keys == ["sunshine"]

        plugin.write_text(FORECAST + "\n# changed\n")
        eventually(lambda: "is not the code that the operator has allowed" in agent.get("/capabilities").text)
        assert forecast(agent, port) == "sunny", "the version that was allowed stays in service"
        agent.start()
        eventually(lambda: agent.get("/capabilities").json()["skills"])
        assert "sunshine" not in agent.get("/capabilities").text


def test_a_host_is_granted_with_the_ports_of_the_web_and_no_other(tmp_path: Path, start: Start) -> None:
    with service() as (port, keys):
        agent = start()
        plugin = agent.data_dir / "skills" / "forecast.py"
        plugin.write_text(FORECAST)
        environment = {"AGENT_DATA_DIR": str(agent.data_dir)}
        allowed = skill(tmp_path, "allow", str(plugin), "--host", "localhost", **environment)
        assert "may reach localhost (ports 80 and 443), until its code" in allowed.stdout, allowed.stderr
        agent.start()
        eventually(lambda: [one["state"] for one in agent.get("/capabilities").json()["skills"]] == ["active"] * 2)
        assert "403" in forecast(agent, port)
        assert not keys, "another service of the machine was reached"


def test_a_grant_without_a_port_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    done = skill(tmp_path, "allow", str(tmp_path / "count.py"), "--host", "example.org:https")
    assert done.returncode == 1
    assert "'example.org:https' has no port from 1 to 65535; write example.org:8443" in done.stderr


@pytest.mark.parametrize("name", ["AGENT_TOKEN", "LD_PRELOAD", "PATH", "http_proxy", "not a name"])
def test_variables_of_the_server_cannot_be_allowed(tmp_path: Path, name: str) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    done = skill(tmp_path, "allow", str(tmp_path / "count.py"), "--secret", name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"agent-runtime: {name!r} cannot be a secret of a skill")


def test_what_is_allowed_elsewhere_must_be_allowed_again_in_the_servers_folder(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "too-large").write_bytes(b" " * (9 << 20))
    done = skill(tmp_path, "allow", str(tmp_path / "count.py"), "--host", "example.org")
    assert f"Once the plugin is in {tmp_path}/data/skills" in done.stdout
    assert "too-large" in done.stderr, "what a plugin does not see is named"
