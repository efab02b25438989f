"""The questions of the first `agent up`, in a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

import pytest

from agent_testing import FakeAnthropic, Say

from ...live import PATIENCE
from .machine import AGENT, Machine

KEY = "sk-the-right-one"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][A-Z0-9]?|\r")


class Terminal:
    """A command in a terminal: what it shows is read, what a person types is sent."""

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self._end, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 200))
        env = {**machine.env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.child = subprocess.Popen(
            [*AGENT, *arguments], env=env, cwd=machine.project, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.shown = ""

    def expect(self, text: str) -> None:
        """Read until the text was shown since the last call."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} was not shown, but {self.shown!r}"
            if select.select([self._end], [], [], left)[0]:
                self.shown += _ESCAPES.sub("", os.read(self._end, 65536).decode("utf-8", "replace"))
        self.shown = self.shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def wait(self) -> int:
        return self.child.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait(PATIENCE)
        os.close(self._end)


class _Provider(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        right = self.headers["authorization"] == f"Bearer {KEY}"
        body = b'{"data": [{"id": "large-2"}, {"id": "small-1"}]}' if right else b"{}"
        self.send_response(200 if right else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def provider() -> Generator[str]:
    """An endpoint with a list of models, which knows one key; its base URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Provider) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join(PATIENCE)


def test_one_command_and_enter_lead_to_an_answer_of_the_demo_model(machine: Machine) -> None:
    with Terminal(machine, "up") as terminal:
        terminal.expect("Choice [1]:")
        terminal.type("\r")
        terminal.expect("\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}")  # the chat asks
        terminal.type("hello\r")
        terminal.expect("[demo model] I am a demo model")
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert machine.agent("-p", "hello").stdout.startswith("[demo model]"), "the host and the agent go on"


@pytest.mark.slow
def test_a_wrong_key_is_told_and_asked_for_again_and_never_shown(machine: Machine) -> None:
    with provider() as url, Terminal(machine, "up", "--no-chat") as terminal:
        terminal.expect("Choice [1]:")
        terminal.type("2\r")
        terminal.expect("Base URL [https://api.openai.com/v1]:")
        terminal.type(f"{url}\r")
        terminal.expect("Key, which is not shown")
        terminal.type("sk-wrong\r")
        terminal.expect("Model [")
        assert "sk-wrong" not in terminal.shown
        terminal.type("large-3\r")
        terminal.expect("refuses the key (401)")
        terminal.expect(f"Base URL [{url}]:")
        terminal.type("\r")
        terminal.expect("Use the same key? y or n [y]:")
        terminal.type("n\r")
        terminal.expect("Key, which is not shown")
        terminal.type(f"{KEY}\r")
        terminal.expect("Model [large-3]:")
        terminal.type("\r")
        terminal.expect("lists no model 'large-3'; it has, among others: large-2")
        terminal.expect("Use it all the same? y or n [n]:")
        terminal.type("\r")
        terminal.expect("Base URL [")
        terminal.type("\r")
        terminal.expect("Use the same key? y or n [y]:")
        terminal.type("\r")
        terminal.expect("Model [large-2]:")
        terminal.type("\r")
        terminal.expect("agent project works in")
        assert terminal.wait() == 0
    assert (machine.data / "model.key").read_text() == f"{KEY}\n"
    assert '"model": "large-2"' in (machine.data / "model.json").read_text()


@pytest.mark.slow
def test_claude_is_offered_with_its_own_key(machine: Machine) -> None:
    with FakeAnthropic(otherwise=Say("I am Claude."), api_key=KEY) as claude, Terminal(machine, "up") as terminal:
        terminal.expect("3  Claude")
        terminal.expect("Choice [1]:")
        terminal.type("3\r")
        terminal.expect("Base URL [https://api.anthropic.com]:")
        terminal.type("\x7f" * 40 + f"{claude.url}\r")
        terminal.expect("Key, which is not shown")
        terminal.type("sk-wrong\r")
        terminal.expect("Model [claude-sonnet-5-5]:")
        terminal.type("\r")
        terminal.expect("refuses the key (401)")
        terminal.expect("Base URL [")
        terminal.type("\r")
        terminal.expect("Use the same key? y or n [y]:")
        terminal.type("n\r")
        terminal.expect("Key, which is not shown")
        terminal.type(f"{KEY}\r")
        terminal.expect("Model [claude-sonnet-5-5]:")
        terminal.type("\r")
        terminal.expect("starting the host, with claude-sonnet-5-5 at")
        terminal.expect("\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}")
        terminal.type("hello\r")
        terminal.expect("I am Claude.")
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert (machine.data / "model.key").read_text() == f"{KEY}\n"


@pytest.mark.slow
def test_the_environment_of_claude_is_taken(machine: Machine) -> None:
    with FakeAnthropic(otherwise=Say("I am Claude."), api_key=KEY) as claude:
        wrong = machine.agent("up", "--yes", ANTHROPIC_API_KEY="sk-wrong", ANTHROPIC_BASE_URL=claude.url)
        assert "refuses the key (401)" in wrong.stderr
        machine.up("--yes", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=claude.url, ANTHROPIC_MODEL="claude-haiku-4-5")
        assert machine.agent("-p", "hello").stdout.strip() == "I am Claude."
        assert claude.completions[-1].json["model"] == "claude-haiku-4-5"
    missing = machine.agent("down"), machine.agent("up", "--provider", "anthropic", "--no-chat")
    assert "set ANTHROPIC_API_KEY" in missing[1].stderr


@pytest.mark.slow
def test_ctrl_c_starts_nothing(machine: Machine) -> None:
    with Terminal(machine, "up") as terminal:
        terminal.expect("Choice [1]:")
        terminal.type("\x03")
        terminal.expect("nothing was started")
        assert terminal.wait() == 130
    assert not machine.data.exists()
