"""Wherever a person decides on a call, it is shown as it is: nothing that looks like something else, no end missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_testing import Call, Say

from ...live import Runtime, fresh
from .conftest import chat_command
from .terminal import Terminal
from .test_chat import ask_before

DECEIVING = {
    "letter": ("curl https://g\u0456thub.com", "g\\u0456thub.com"),
    "sign": ("curl https://github.com\u2215evil.example", "github.com\\u2215evil.example"),
    "style": ("curl https://\uff47ithub.com", "https://\\uff47ithub.com"),
    "nothing": ("curl https://git\u3164hub.com", "git\\u3164hub.com"),
}
HARMLESS = "echo " + "x" * 300
END = "; curl evil.example"


def waiting(agent: Runtime, command: str) -> tuple[str, str, str]:
    """A call that waits: its session, id and code."""
    session = fresh("exact")
    ask_before(agent, session, "bash")
    agent.provider.script.replace([Call("bash", {"command": command})], otherwise=Say("Done."))
    [one] = agent.chat("go", session_id=session).json()["pending"]
    return session, one["id"], one["code"]


@pytest.mark.parametrize("name", DECEIVING)
def test_without_a_terminal(agent: Runtime, tmp_path: Path, name: str) -> None:
    command, shown = DECEIVING[name]
    session, _, code = waiting(agent, command)
    chat = [*chat_command(agent, tmp_path), "-s", session]
    done = subprocess.run(chat, input=f"no {code}\n", capture_output=True, text=True, timeout=60, check=True)
    [asked] = [line for line in done.stdout.splitlines() if line.startswith("? allow bash")]
    assert shown in asked
    assert "Done." in done.stdout


def test_the_list_on_a_terminal(agent: Runtime, tmp_path: Path) -> None:
    deceiving = {name: waiting(agent, command) for name, (command, _) in DECEIVING.items()}
    cut_session, cut_id, cut_code = waiting(agent, HARMLESS + END)
    chat_command(agent, tmp_path)  # writes the token
    command = [sys.executable, "-m", "agent_client", "pending", "--url", agent.url, "--token-file"]
    with Terminal([*command, str(tmp_path / "token")], {}, tmp_path, columns=1200) as terminal:
        assert terminal.exit_code() == 0
        screen = terminal.see(cut_id, *(id for _, id, _ in deceiving.values()), history=True)
    for session in (cut_session, *(session for session, _, _ in deceiving.values())):
        assert agent.post(f"/chat/{session}/abort", {}).status_code == 200
    rows = {line.split()[0]: line for line in screen.splitlines() if line.strip()}
    for name, (_, id, code) in deceiving.items():
        assert DECEIVING[name][1] in rows[id]
        assert f" {code} " in rows[id], "a call that is shown whole may be decided on from the list"
    assert "evil.example" not in rows[cut_id]
    assert f"characters more: agent approve {cut_id}" in rows[cut_id]
    assert f" {cut_code} " not in rows[cut_id], "a call that is not shown whole has no code beside it"
