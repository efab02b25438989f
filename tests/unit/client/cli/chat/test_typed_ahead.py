"""What is typed while the chat opens."""

from __future__ import annotations

import os
import pty
import time
from contextlib import closing

from prompt_toolkit.keys import Keys

from agent_client.cli.chat.screen.typed_ahead import typed_ahead


def test_lines_that_were_typed_before_the_chat_could_read_keys_end_with_enter() -> None:
    person, terminal = pty.openpty()
    with closing(os.fdopen(person, "wb", buffering=0)) as keyboard, closing(os.fdopen(terminal, "rb")):
        assert typed_ahead(terminal) == []
        keyboard.write("größer\r/quit\rnot yet".encode())
        keys: list[str] = []
        deadline = time.monotonic() + 60
        while keys.count(Keys.ControlM) < 2 and time.monotonic() < deadline:  # a terminal passes on in its own time
            keys += [press.key for press in typed_ahead(terminal)]
    assert keys == [*"größer", Keys.ControlM, *"/quit", Keys.ControlM]


def test_what_is_no_terminal_is_left_alone() -> None:
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb") as out, os.fdopen(writable, "wb") as into:
        into.write(b"a\n")
        into.flush()
        assert typed_ahead(readable) == []
        assert out.readline() == b"a\n"
