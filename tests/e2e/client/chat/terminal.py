"""A terminal for tests: a program in tmux, its keys, and what its screen shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 60.0
POLL_SECONDS = 0.03
CONFIG = "set -g remain-on-exit on\nset -g status off\nset -s escape-time 0\nset -g history-limit 5000\n"


class Terminal:
    """One program in a tmux server of its own, which is killed at the end."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], folder: Path, *, columns: int = 100, rows: int = 30
    ) -> None:
        self._columns, self._rows = columns, rows
        self._code = folder / "code"
        config = folder / "tmux.conf"
        config.write_text(CONFIG)
        self._config = config
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        unset = "-u COLUMNS -u LINES"  # the size is that of this terminal
        self._command = f"env {unset} LANG=C.UTF-8 {given} {shlex.join(argv)}; echo $? > {shlex.quote(str(self._code))}"

    def __enter__(self) -> Self:
        self._place = tempfile.TemporaryDirectory(prefix="tmux")  # short, because the path of a socket is
        self._socket = Path(self._place.name) / "socket"
        size = ["-x", str(self._columns), "-y", str(self._rows)]
        self._tmux("-f", str(self._config), "new-session", "-d", *size, self._command)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.screen(history=True))
        self._tmux("kill-server", check=False)
        self._place.cleanup()

    def type(self, text: str) -> None:
        """Type text as it is."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by the names of tmux: `Enter`, `Escape`, `M-Enter`, `C-c`."""
        self._tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        """Type a line and press Enter."""
        self.type(text)
        self.see(text[-20:])
        self.press("Enter")

    def paste(self, text: str) -> None:
        """Paste text as a terminal does, in brackets."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *, history: bool = False, colours: bool = False) -> str:
        """What is on the screen, with `history` all that can be scrolled to."""
        options = ["-S", "-"] if history else []
        return self._tmux("capture-pane", "-p", *options, *(["-e"] if colours else []))

    def see(self, *texts: str, history: bool = False) -> str:
        """Wait until all texts are on the screen, and return it."""
        return self.wait(lambda screen: all(text in screen for text in texts), str(texts), history=history)

    def gone(self, text: str) -> str:
        """Wait until a text is not on the screen any more."""
        return self.wait(lambda screen: text not in screen, f"{text} to disappear")

    def wait(self, seen: Callable[[str], bool], what: str, *, history: bool = False) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if seen(screen := self.screen(history=history)):
                return screen
            assert "Pane is dead" not in screen, self.screen(history=True)
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"did not see {what} within {PATIENCE} s on:\n{self.screen(history=True)}")

    def exit_code(self) -> int:
        """Wait for the program's end and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self._code.exists() and (code := self._code.read_text().strip()):
                return int(code)
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"it still runs:\n{self.screen()}")

    def _tmux(self, *argv: str, check: bool = True) -> str:
        env = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        command = ["tmux", "-u", "-S", str(self._socket), *argv]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"tmux {argv[0]}: {done.stderr}")
        return done.stdout
