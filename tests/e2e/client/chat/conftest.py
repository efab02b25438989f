"""The chat in a terminal, with a server of the test's own and a scripted model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.host.live import OPERATOR, Host
from tests.measured import MEASURED

from ...live import TOKEN, Runtime
from .terminal import Terminal

Open = Callable[..., Terminal]


def chat_command(server: Runtime | Host, folder: Path) -> list[str]:
    """The command that talks to the runtime, or through a host, with the token in a file of the folder."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(OPERATOR if isinstance(server, Host) else TOKEN)
    return [sys.executable, "-m", "agent_client", "chat", "--url", server.url, "--token-file", str(token)]


@pytest.fixture
def open_chat(tmp_path: Path) -> Iterator[Open]:
    """`open_chat(server, "-c", columns=60)` opens `agent chat` in a terminal and waits for its input."""
    number = 0

    def begin(
        server: Runtime | Host, *argv: str, columns: int = 100, rows: int = 30, ready: bool = True, **env: str
    ) -> Terminal:
        nonlocal number
        number += 1
        folder = tmp_path / f"terminal-{number}"
        folder.mkdir()
        command = [*chat_command(server, folder), *argv]
        own = {
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "TERM": "tmux-256color",
            "LANG": "C.UTF-8",
            **MEASURED,
        }
        terminal = stack.enter_context(Terminal(command, own | env, folder, columns=columns, rows=rows))
        if ready:
            terminal.see("Ctrl-D leaves", "@ for files")
        return terminal

    with ExitStack() as stack:
        yield begin
