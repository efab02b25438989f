"""The transcripts of the README and the tutorial, run word for word against a live mesh and a live agent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import LiveProcess

from ..live import PATIENCE, SERVE
from ..transcript import Exchange, exchanges, one_shell, shell

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    "docs/tutorials/first-conversation.md": 8,
    "docs/tutorials/first-skill.md": 5,
    "docs/reference/http.md": 2,
}
"""Each page with the number of commands that it shows at least."""
README_COMMANDS = 5
HOST = [sys.executable, "-m", "examples.demo.host"]
"""What `make mesh` runs."""

SAMPLE = """
Some words.

```console
$ echo one; echo two
one
two

$ printf '{"id": "ses_123", "n": 3}'
{"id": "ses_…", "n": 3}

$ seq 5
1
…
5
$ true
```

```sh
$ not a transcript
```

```console
$ echo last
…
```
"""


# ---------------------------------------------------------------- the reader of transcripts


def test_commands_and_outputs_are_told_apart() -> None:
    found = exchanges(SAMPLE)
    assert [exchange.command for exchange in found] == [
        *("echo one; echo two", """printf '{"id": "ses_123", "n": 3}'""", "seq 5", "true", "echo last")
    ]
    assert found[0].expected == "one\ntwo\n\n"
    assert found[3].expected == ""


def test_a_sample_that_is_true_fits(tmp_path: Path) -> None:
    for exchange in exchanges(SAMPLE):
        assert exchange.fits(shell(exchange.command, tmp_path, {}))


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("", "", True),
        ("", "\n\n", True),
        ("", "x\n", False),
        ("a", "a", True),
        ("a\n\n", "a\n", True),
        ("a", "ab\n", False),
        ("a", "b\na\n", False),
        ("a.c", "abc\n", False),
        ("a…c", "abbbc\n", True),
        ("a…c", "ac\n", True),
        ("a…c", "ab\nbc\n", False),
        ("a…c…e", "abcde\n", True),
        ("a\n…\nc", "a\nc\n", True),
        ("a\n…\nc", "a\nb\n\nb\nc\n", True),
        ("a\n…\nc", "a\nb\n", False),
        ("a\n…", "a\nb\nc\n", True),
        ("…", "", True),
        ("a\n\nb", "a\nb\n", False),
    ],
)
def test_what_fits_an_expectation(expected: str, printed: str, fits: bool) -> None:
    assert Exchange("command", expected).fits(printed) is fits


def test_a_fault_is_shown_where_it_is() -> None:
    said = Exchange("run", "one\ntwo…\nthree").first_fault("one\ntoo\nthree\n")
    assert "not found: two…" in said
    assert "more was printed" in Exchange("run", "one").first_fault("one\ntwo")


def test_output_before_the_first_command_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="must begin with a command"):
        exchanges("```console\nout\n$ in\n```\n")


def test_one_shell_stays_where_a_command_has_gone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    assert one_shell(["cd shop; echo one", "false", "pwd"], tmp_path, {}) == ["one\n", "", f"{tmp_path}/shop\n"]


# ---------------------------------------------------------------- the README


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A mesh and an agent as the README starts them, on ports of their own: README's port -> the real one."""
    home = {"HOME": str(tmp_path)}
    free = {"MESH_PORT": "0", "MESH_LISTENER_URL": "tcp://127.0.0.1:0"}
    mesh_env = {**home, **free, "MESH_DATA_DIR": str(tmp_path / ".local/share/agent-mesh")}
    with LiveProcess([*HOST, "up"], mesh_env, cwd=ROOT) as mesh:
        mesh_port = mesh.wait_for_output(r"http://127\.0\.0\.1:(\d+)", PATIENCE)[1]
        made = subprocess.run(
            [*HOST, "token", "agent"], env={**os.environ, **mesh_env}, capture_output=True, text=True, check=True
        )
        agent_env = {
            **home,
            "AGENT_PORT": "0",
            "AGENT_DATA_DIR": str(tmp_path / ".local/share/agent-runtime"),
            "AGENT_MESH_URL": f"http://127.0.0.1:{mesh_port}",
            "AGENT_MESH_TOKEN": made.stdout.strip(),
        }
        with LiveProcess(SERVE, agent_env) as agent:
            agent_port = agent.wait_for_output(r'"url": "http://[^"]+:(\d+)"', PATIENCE)[1]
            yield {"8420": mesh_port, "8400": agent_port}


def test_the_pages_show_every_way_to_give_work() -> None:
    commands = " ".join(one.command for page in PAGES for one in exchanges((ROOT / page).read_text("utf-8")))
    for route in ("/status", "/task", "/result", "/chat", "/chat/stream"):
        assert route in commands


def test_the_quickstart_is_true_to_the_letter(tmp_path: Path) -> None:
    """It needs nothing but what `make setup` has made."""
    home, free = tmp_path / "home", {"MESH_PORT": "0", "MESH_LISTENER_URL": "tcp://127.0.0.1:0", "MESH_STOP_GRACE": "2"}
    home.mkdir()
    found = exchanges((ROOT / "README.md").read_text("utf-8"))
    assert len(found) >= README_COMMANDS
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    try:
        everything = one_shell([one.command for one in found], tmp_path, {"HOME": str(home), **free})
        for exchange, printed in zip(found, everything, strict=True):
            assert exchange.fits(printed), exchange.first_fault(printed)
    finally:
        shell(".venv/bin/agent down", tmp_path, {"HOME": str(home)})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_transcript_is_true_to_the_letter(ports: dict[str, str], tmp_path: Path, page: str) -> None:
    found = exchanges(_on(ports, (ROOT / page).read_text("utf-8")))
    assert len(found) >= PAGES[page]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    if plugin := re.search(r"```python\n(@skill.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL):
        (tmp_path / "my-skills").mkdir()
        (tmp_path / "my-skills/add_tax.py").write_text(plugin[1], encoding="utf-8")
    for exchange in found:
        printed = shell(exchange.command, tmp_path, {"HOME": str(tmp_path)})
        until = time.monotonic() + PATIENCE
        while "/capabilities" in exchange.command and not exchange.fits(printed) and time.monotonic() < until:
            printed = shell(exchange.command, tmp_path, {"HOME": str(tmp_path)})  # a save is taken up within a second
        assert exchange.fits(printed), exchange.first_fault(printed)


@pytest.mark.slow  # `test_story.py` tells the same story by the command
def test_the_client_tells_the_story_in_twenty_lines(ports: dict[str, str]) -> None:
    script = ROOT / "examples" / "client.py"
    code = script.read_text("utf-8").split('"""')[2]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
    environment = {**os.environ, "AGENT_URL": f"http://localhost:{ports['8400']}"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    seen = ["You said: 'hello'", "[bash] {'command': 'head -n 1 sales.csv'", "order_id,date", "300 orders, 50248.75"]
    assert re.search(".*".join(map(re.escape, [*seen, "# Report"])), done.stdout, re.DOTALL), done.stdout


def _on(ports: dict[str, str], text: str) -> str:
    for named, real in ports.items():
        text = re.sub(rf"\blocalhost:{named}\b", f"localhost:{real}", text)
    return text
