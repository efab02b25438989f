"""`agent doctor` on set-ups that are really broken: it names what is wrong, and the fix."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from ...live import PATIENCE, eventually
from .machine import AGENT, Machine

FAKE_KEY = "sk-a-secret-of-the-test"
STATUS = {
    "agent_id": "a", "role": "r", "state": "idle", "uptime_seconds": 1, "context_max": 1, "queue_limit": 1,
    "confinement": "none",
    "limits": {
        "max_iterations": 1, "max_rounds": 1, "max_concurrent_turns": 1, "max_queue": 1,
        "tool_timeout_seconds": 1, "context_limit": 1,
    },
}  # fmt: skip
"""What an agent says of itself."""


def says(found: tuple[int, dict[str, dict[str, Any]]], name: str, what: str, fix: str, state: str = "error") -> None:
    """That finding is there, with its fix, and the exit code says that something is wrong."""
    code, findings = found
    assert code == 1, findings
    assert name in findings, findings
    one = findings[name]
    assert one["state"] == state, one
    assert re.search(what, one["what"]), one
    assert re.search(fix, one["fix"]), one


@pytest.fixture
def up(shared_machine: Machine) -> Iterator[Machine]:
    """The shared machine, whose contexts are put back after the test."""
    path = shared_machine.home / ".config/agent/contexts.json"
    before = path.read_bytes()
    yield shared_machine
    path.write_bytes(before)
    path.chmod(0o600)


def change_context(machine: Machine, **changes: str | None) -> None:
    """Change the machine's only context; None takes a field away."""
    path = machine.home / ".config/agent/contexts.json"
    known = json.loads(path.read_bytes())
    context = {**known["contexts"][0], **changes}
    known["contexts"] = [{name: value for name, value in context.items() if value is not None}]
    path.write_text(json.dumps(known))


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], tuple[int, bytes]]) -> Generator[str]:
    """A server of the test's own; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(PATIENCE)


# ---------------------------------------------------------------- nothing is wrong


def test_all_is_well(up: Machine) -> None:
    code, findings = up.findings()
    wrong = [one for one in findings.values() if one["state"] != "ok"]
    assert (code, wrong) == (0, [])
    assert {"token", "version", "clock", "model", "agent project", "host process"} <= findings.keys()
    plain = up.agent("doctor", "--no-model")
    assert plain.returncode == 0, plain.stdout
    assert "fix:" not in plain.stdout
    assert up.token() not in plain.stdout


def test_an_agent_without_a_host_is_looked_at(up: Machine) -> None:
    """Whether the target says that it is one or not, with its token and with another."""
    paths = {"/readyz": {"reasons": []}, "/status": STATUS}

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        if request.path == "/status" and request.headers["authorization"] != "Bearer right":
            return 401, b'{"code": "unauthorized", "detail": "unknown token"}'
        return (200, json.dumps(paths[request.path]).encode()) if request.path in paths else (404, b"{}")

    with serving(answer) as url:
        for given in ("right", "wrong"):
            token = up.folder / given
            token.write_text(given)
            token.chmod(0o600)
            added = up.agent("context", "add", given, url, "--token-file", str(token), "--kind", "agent")
            assert added.returncode == 0, added.stderr
        found = up.findings("--context", "right")
        says(found, "agent", "no confinement", "do what helps", state="warning")
        assert found[1]["token"]["state"] == "ok"
        says(up.findings("--context", "wrong"), "token", "the agent refuses the token", "AGENT_TOKEN")


@pytest.mark.parametrize(("mesh", "what"), [("unreachable", "cannot be reached"), ("refused", "refuses its token")])
def test_a_lone_agent_that_cannot_call_its_model(up: Machine, mesh: str, what: str) -> None:
    status = {**STATUS, "mesh": mesh}

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        return 200, json.dumps({"reasons": []} if request.path == "/readyz" else status).encode()

    with serving(answer) as url:
        found = up.findings("--url", url)
    says(found, "agent", f"cannot call its model: the endpoint {what}", "AGENT_LLM_BASE_URL .* and AGENT_MESH_TOKEN")


def test_a_url_alone_may_be_that_of_an_agent(up: Machine) -> None:
    refusal = b'{"code": "unauthorized", "detail": "this needs the header"}'
    with serving(lambda one: (200, b'{"reasons": []}') if one.path == "/readyz" else (401, refusal)) as url:
        found = up.findings("--url", url)
    says(found, "token", "^what answers refuses the token: this needs", "its AGENT_TOKEN .* `agent up`")
    says(up.findings("--url", url), "reachable", "does not answer", "`agent-runtime serve` starts an agent")


def test_certificates_that_cannot_be_read_are_named(up: Machine) -> None:
    missing = str(up.folder / "missing.pem")
    says(up.findings(SSL_CERT_FILE=missing), "certificates", "SSL_CERT_FILE: .* cannot be used", "PEM file")
    other = up.agent("ps", "--url", "https://127.0.0.1:1", SSL_CERT_FILE=missing)
    assert other.returncode != 0
    assert "Traceback" not in other.stderr
    assert "SSL_CERT_FILE" in other.stderr


# ---------------------------------------------------------------- files


@pytest.mark.slow
def test_1_contexts_that_others_can_read(up: Machine) -> None:
    path = up.home / ".config/agent/contexts.json"
    path.chmod(0o644)
    says(up.findings(), "contexts", "other users can read it", f"^chmod 600 {path}$")


@pytest.mark.slow
def test_2_a_token_that_others_can_read(up: Machine) -> None:
    path = up.data / "tokens" / "operator"
    path.chmod(0o640)
    try:
        says(up.findings(), "contexts", "other users can read the token's file", f"^chmod 600 {path}$")
    finally:
        path.chmod(0o600)


def test_a_data_folder_where_no_file_can_be(machine: Machine) -> None:
    found = machine.findings(MESH_DATA_DIR="/proc/none")
    says(found, "data", "/proc (holds no files of users|cannot be written)", "MESH_DATA_DIR")


@pytest.mark.slow
def test_3_a_data_folder_that_cannot_be_written(machine: Machine) -> None:
    (machine.folder / "file").touch()
    found = machine.findings(MESH_DATA_DIR=str(machine.folder / "file" / "data"))
    says(found, "data", "cannot be written", "chown or chmod .*, or set MESH_DATA_DIR")


@pytest.mark.slow
def test_4_a_disk_that_is_nearly_full(machine: Machine) -> None:
    folder = machine.folder / "small"
    folder.mkdir()
    mount = f"mount -t tmpfs -o size=50m none {folder} && exec {' '.join(AGENT)} doctor --json"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    env = {**machine.env, "MESH_DATA_DIR": str(folder)}
    ended = subprocess.run(command, env=env, cwd=machine.project, capture_output=True, text=True, check=False)
    if not ended.stdout:
        pytest.skip(f"a small disk cannot be made here: {ended.stderr}")
    findings = {one["name"]: one for one in json.loads(ended.stdout)["findings"]}
    says((ended.returncode, findings), "data", "only 50 MiB are free", "make room")


# ---------------------------------------------------------------- the machine


@pytest.mark.slow
def test_5_a_machine_without_bubblewrap_and_ripgrep(up: Machine) -> None:
    found = up.findings(PATH=str(up.folder))
    says(found, "sandbox", "bubblewrap is missing", "apt-get install bubblewrap", "warning")
    says(found, "search", "ripgrep is missing", "apt-get install ripgrep", "warning")


@pytest.mark.slow
def test_6_user_namespaces_that_are_closed(up: Machine) -> None:
    """A bubblewrap that fails as it does there stands in: closing them takes the machine."""
    programs = up.folder / "programs"
    programs.mkdir(exist_ok=True)
    fake = programs / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    found = up.findings(PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    says(found, "sandbox", "cannot make namespaces here: .*No permissions", "namespaces|userns", "warning")


@pytest.mark.slow
def test_7_a_proxy_that_captures_loopback(up: Machine) -> None:
    found = up.findings(http_proxy="http://127.0.0.1:9")
    says(found, "proxy", "http_proxy also captures 127.0.0.1", "NO_PROXY=localhost,127.0.0.1", "warning")
    assert found[1]["reachable"]["state"] == "ok", "the command itself does not ask it"
    assert up.findings(http_proxy="http://127.0.0.1:9", no_proxy="127.0.0.1")[0] == 0


# ---------------------------------------------------------------- the host


@pytest.mark.slow
def test_8_no_host_and_its_port_taken(machine: Machine) -> None:
    with socket.socket() as other:
        with suppress(OSError):  # another program has it already
            other.bind(("127.0.0.1", 8420))
            other.listen()
        found = machine.findings()
    says(found, "host process", "no host runs", "`agent up`")
    says(found, "port", "8420 is taken by another program", "`agent up` takes another port; ss -ltnp", "warning")
    says(found, "target", "no host and no agent is chosen", "`agent up`")


@pytest.mark.slow
def test_9_a_host_that_does_not_start(machine: Machine) -> None:
    assert machine.agent("up", "--yes", MESH_WORK_ATTEMPTS="many").returncode == 1
    says(machine.findings(), "host process", r"did not start: (.|\n)*MESH_WORK_ATTEMPTS", "`agent up`")


@pytest.mark.slow
def test_10_another_program_at_the_url(up: Machine) -> None:
    with serving(lambda request: (200, b"<html>")) as url:
        change_context(up, url=url)
        says(up.findings(), "reachable", "neither a host nor an agent", "`agent up`")


@pytest.mark.slow
def test_11_a_token_that_is_wrong(up: Machine) -> None:
    change_context(up, token_file=None, token="wrong")
    says(up.findings(), "token", "refuses the token: .*not known", "`agent-host token operator`")


@pytest.mark.slow
def test_12_a_token_that_has_expired(up: Machine) -> None:
    with up.operator() as http:
        body = {"user": "ann", "workspaces": ["project"], "expires": "1s"}
        token = http.post("/tokens", json=body).json()["token"]
        door, headers = "/workspaces/project/api/status", {"authorization": f"Bearer {token}"}
        eventually(lambda: http.get(door, headers=headers).status_code == 401)
    change_context(up, token_file=None, token=token)
    says(up.findings(), "token", "has expired", "`agent-host token operator`")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "name", "what", "fix"),
    [
        ({"version": "0.0.9"}, "version", "the host is 0.0.9", "`agent down`, then `agent up`"),
        ({"now": (time.time() + 3600) * 1000}, "clock", r"\d+ s ahead of", "NTP"),
    ],
)
def test_13_another_version_and_another_clock(
    answer: dict[str, Any], name: str, what: str, fix: str, up: Machine
) -> None:
    with up.operator() as host:

        def relayed(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
            size = int(request.headers.get("content-length", 0))
            reply = host.request(request.command, request.path, content=request.rfile.read(size))
            known = reply.json()
            return reply.status_code, json.dumps({**known, **answer} if request.path == "/version" else known).encode()

        with serving(relayed) as url:
            change_context(up, url=url)
            says(up.findings(), name, what, fix, "warning")


# ---------------------------------------------------------------- the model


@pytest.mark.slow
def test_14_a_key_a_model_and_a_provider_that_are_wrong(machine: Machine) -> None:
    replies: dict[str, tuple[int, bytes]] = {}

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        request.rfile.read(int(request.headers.get("content-length", 0)))
        return (404, b"{}") if request.command == "GET" else replies["chat"]

    with serving(answer) as url:
        machine.up("--base-url", f"{url}/v1", "--model", "large-9", OPENAI_API_KEY=FAKE_KEY)
        replies["chat"] = 401, b'{"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}'
        found = machine.findings()
        what = r"refused the host's key \(HTTP 401: Incorrect API key\)"
        says(found, "model", what, "the key is wrong: `agent down`, then `agent up")
        assert FAKE_KEY not in json.dumps(found)
        replies["chat"] = 404, b'{"error": {"message": "no model large-9", "code": "model_not_found"}}'
        says(machine.findings(), "model", "no model large-9", "--model NAME")
        replies["chat"] = 404, b"404 page not found"
        says(machine.findings(), "model", "404", "often ends in /v1.* --base-url URL` sets")
    says(machine.findings(), "model", "cannot be reached|unreachable|reached", "openai-compatible --base-url URL` sets")


@pytest.mark.slow
def test_14_a_wrong_key_of_the_provider_that_was_chosen(machine: Machine) -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        request.rfile.read(int(request.headers.get("content-length", 0)))
        refusal = b'{"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}'
        return (404, b"{}") if request.command == "GET" else (401, refusal)

    with serving(answer) as url:
        machine.up("--provider", "anthropic", "--base-url", url, ANTHROPIC_API_KEY=FAKE_KEY)
        fix = "agent up --provider anthropic` asks for another, or takes ANTHROPIC_API_KEY"
        says(machine.findings(), "model", "invalid x-api-key", fix)


# ---------------------------------------------------------------- agents


@pytest.mark.slow
def test_15_an_agent_in_quarantine(machine: Machine) -> None:
    machine.up()
    with machine.operator() as http:
        assert http.post("/workspaces/project/quarantine", json={"reason": "a test"}).status_code == 200
        says(machine.findings(), "agent project", "is in quarantine", "unquarantine")


@pytest.mark.slow
def test_16_an_agent_whose_folder_has_gone(machine: Machine) -> None:
    machine.up()
    other = machine.folder / "other"
    other.mkdir()
    machine.up(cwd=other)
    machine.down()
    shutil.rmtree(other)
    machine.up()
    found = eventually(lambda: _failed(machine))
    says(
        found, "agent other", r"has failed: (.|\n)*AGENT_WORKSPACE_DIR: .*No such file", "correct that, then `agent up`"
    )


def _failed(machine: Machine) -> tuple[int, dict[str, dict[str, Any]]] | None:
    found = machine.findings()
    return found if found[1]["agent other"]["state"] == "error" else None


@pytest.mark.slow
def test_17_a_required_channel_that_is_down(up: Machine) -> None:
    with up.operator() as http:
        body = {"id": "afar", "driver": "external", "mediation": {"required": True}}
        assert http.post("/workspaces", json=body).status_code == 201
        try:
            says(up.findings(), "agent afar: channel", "required mediation is not ready", "MESH_LISTENER_URL")
        finally:
            http.delete("/workspaces/afar", params={"force": True})


@pytest.mark.slow
def test_18_an_agent_that_is_not_confined(machine: Machine) -> None:
    machine.up(AGENT_CONFINEMENT="off")
    says(machine.findings(), "agent project", "runs commands unconfined", "unset AGENT_CONFINEMENT", "warning")


@pytest.mark.slow
def test_19_an_agent_that_does_not_run(machine: Machine) -> None:
    machine.up()
    with machine.operator() as http:
        assert http.post("/workspaces/project/stop").status_code == 200
    says(machine.findings(), "agent project", "is stopped", "`agent up` in its folder", "warning")
