"""`agent up`: from a fresh machine to an agent that works in a folder of the user, and `agent down` back."""

from __future__ import annotations

import socket
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from agent_testing import Call, Say, ScriptedProvider

from ...live import eventually
from .machine import Machine

KEY = "sk-a-secret-of-the-test"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def runs(pid: int) -> bool:
    """Whether the process still runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def listens(server: socket.socket, port: int) -> bool:
    """Whether the socket has the port now; another program may have it for a while."""
    with suppress(OSError):
        server.bind(("127.0.0.1", port))
        server.listen()
        return True
    return False


def files_of_others(folder: Path) -> list[str]:
    """The files that other users than their owner can read."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077]


@pytest.mark.slow
def test_from_nothing_to_an_answer_in_a_repository_and_back(machine: Machine) -> None:
    git(machine.project, "init", "--quiet")
    (machine.project / "a.txt").write_text("one\n")
    git(machine.project, "add", ".")
    git(machine.project, "commit", "--quiet", "-m", "first")

    first = machine.up()
    assert first["workspace"] == "project"
    answer = machine.agent("-p", "run: cat a.txt && echo two >> a.txt && git status --short && echo made > new.txt")
    assert answer.returncode == 0, answer.stderr
    assert "    one\n     M a.txt" in answer.stdout

    assert (machine.project / "a.txt").read_text() == "one\ntwo\n"
    assert (machine.project / "new.txt").read_text() == "made\n"
    assert git(machine.project, "status", "--short") == " M a.txt\n?? new.txt\n", "the runtime leaves nothing there"

    assert machine.up() == first, "the second time everything is there"
    other = machine.folder / "Café & co"
    other.mkdir()
    pid = machine.host_pid()
    assert machine.up(cwd=other)["workspace"] == "caf-co"
    for folder in (machine.project, other):
        assert machine.agent("-p", "run: pwd", cwd=folder).stdout.endswith(f"\n    {folder}\n"), "of the folder"
    assert machine.host_pid() == pid
    assert [(one.name, one.workspace, one.token) for one in machine.contexts()] == [("local", "caf-co", None)]
    assert files_of_others(machine.home / ".config") == files_of_others(machine.data / "tokens") == []

    command = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert machine.token().encode() not in command
    machine.down()
    eventually(lambda: not runs(pid))
    assert machine.up()["workspace"] == "project", "and it starts again with what it was told at first"


@pytest.mark.slow
def test_files_are_written_in_the_folder_and_backed_up_elsewhere(machine: Machine) -> None:
    (machine.project / "notes.md").write_text("old")
    with ScriptedProvider() as provider:
        provider.script.replace(
            [
                Call("read", {"path": "notes.md"}),
                Call("write", {"path": "notes.md", "content": "new"}),
                Call("edit", {"path": "notes.md", "old_string": "new", "new_string": "newer"}),
                Call("write", {"path": "src/deep/made.py", "content": "x = 1\n"}),
                Say("done"),
            ]
        )
        machine.up(
            "--provider", "openai-compatible", "--base-url", provider.url, "--model", "default", OPENAI_API_KEY=KEY
        )
        answer = machine.agent("-p", "go on")
        assert answer.stdout.strip() == "done", answer.stderr
        assert {request.headers["authorization"] for request in provider.requests} == {f"Bearer {KEY}"}
        environment = Path(f"/proc/{machine.host_pid()}/environ").read_bytes()
    assert KEY.encode() not in environment
    assert stat.S_IMODE((machine.data / "model.key").stat().st_mode) == 0o600
    assert (machine.project / "notes.md").read_text() == "newer"
    assert sorted(path.name for path in machine.project.rglob("*")) == ["deep", "made.py", "notes.md", "src"]
    kept = machine.data / "workspaces" / "project" / "workspace" / ".backups" / "notes.md"
    assert sorted(path.read_text() for path in kept.iterdir()) == ["new", "old"]
    with machine.operator() as http:
        assert http.delete("/workspaces/project", params={"force": True}).status_code == 204
    assert not (machine.data / "workspaces" / "project").exists()
    assert (machine.project / "notes.md").read_text() == "newer", "the folder of the user stays"


SERVER = """
from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def count() -> int:
    return 1


server.run()
"""


@pytest.mark.slow
def test_an_mcp_server_in_the_folder_is_tried_where_the_agent_starts_it(machine: Machine) -> None:
    machine.up()
    (machine.project / "srv.py").write_text(SERVER)
    assert machine.agent("mcp", "add", "notes", "--", "python3", str(machine.project / "srv.py")).returncode == 0
    tried = machine.agent("mcp", "test")
    assert tried.stdout == "notes (local): ready\n  1 tool: notes_count\n", tried.stdout + tried.stderr


@pytest.mark.slow
def test_a_name_that_is_taken_is_said(machine: Machine) -> None:
    assert "is taken" not in machine.agent("up", "--yes", "--no-chat").stderr
    other = machine.folder / "other/project"
    other.mkdir(parents=True)
    ended = machine.agent("up", "--no-chat", cwd=other)
    assert ended.stdout == f"agent project-2 works in {other}\n"
    assert "the name project is taken by another agent, so this one is project-2" in ended.stderr
    assert "another agent than" not in ended.stderr
    below = other / "below"
    below.mkdir()
    said = machine.agent("up", "--no-chat", cwd=below).stderr
    assert f"this is another agent than project-2 in {other}, with a memory and sessions of its own" in said
    assert machine.agent("up", "--no-chat", cwd=below).stderr.count("another agent") == 0


@pytest.mark.slow  # starts a host twice
def test_the_operators_token_can_be_shown_kept_and_replaced(machine: Machine) -> None:
    machine.up()
    given = machine.token()
    assert machine.host("token", "operator", "--keep") == str(machine.data / "tokens/operator")
    assert machine.host("token", "operator", "--show") == given
    assert machine.agent("ps").returncode == 0
    replaced = machine.host("token", "operator")
    assert machine.token() == replaced != given
    assert machine.agent("ps").returncode == 0, "the host that runs knows the new one"
    machine.down()
    machine.up()
    assert machine.host("token", "operator", "--show") == replaced


@pytest.mark.slow
def test_two_at_once_start_one_host(machine: Machine) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda _: machine.agent("up", "--yes", "--no-chat"), range(2)))
    assert [one.returncode for one in ended] == [0, 0], [one.stderr for one in ended]
    assert len(list((machine.data / "workspaces").iterdir())) == 1


@pytest.mark.slow
def test_a_port_that_another_program_has_is_left_to_it(machine: Machine) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        eventually(lambda: listens(other, 8420))
        first = machine.agent("up", "--yes", "--no-chat", MESH_PORT="", MESH_LISTENER_URL="")
        assert first.returncode == 0, first.stderr
        with machine.operator() as http:
            url = str(http.base_url).rstrip("/")
        assert not url.endswith(":8420")
        assert f"the host is at {url}, because another program has port 8420\n" in first.stderr
        assert "commands in this folder run without asking" in first.stderr
        again = machine.agent("up", "--no-chat")
        assert "run without asking" not in again.stderr
        assert "the host is at" not in again.stderr
        assert machine.agent("-p", "list files").returncode == 0


@pytest.mark.slow
def test_a_host_that_cannot_start_says_why_and_does_not_stay(machine: Machine) -> None:
    ended = machine.agent("up", "--yes", MESH_MODELS="/no/such/file")
    assert ended.returncode == 1
    assert "MESH_MODELS: must name a file that can be read" in ended.stderr
    assert "the end of" in ended.stderr
    assert "\\n" not in ended.stderr
    assert machine.agent("down").stdout == "no host runs here\n"
    assert not (machine.data / "model.json").exists(), "a choice that did not work is not kept"


def test_the_home_folder_is_not_worked_in(machine: Machine) -> None:
    ended = machine.agent("up", "--yes", cwd=machine.home)
    assert ended.returncode == 2
    assert "is your home folder" in ended.stderr
    assert not machine.data.exists()


def test_without_a_person_a_model_must_be_named(machine: Machine) -> None:
    ended = machine.agent("up")
    assert ended.returncode == 2
    assert "add --yes for the demo model, or --provider" in ended.stderr
    ended = machine.agent("up", "--provider", "openai-compatible")
    assert ended.returncode == 2
    assert "set OPENAI_API_KEY" in ended.stderr
    ended = machine.agent("up", "--base-url", "http://127.0.0.1:1/v1", OPENAI_API_KEY=KEY)
    assert ended.returncode == 1
    assert "cannot be reached" in ended.stderr
    assert KEY not in ended.stderr
    assert not machine.data.exists(), "nothing is kept of what does not work"
