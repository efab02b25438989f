"""A reply that is slow to draw leaves `agent chat` to its person: Esc stops the turn, Ctrl-D leaves."""

# ruff: noqa: RUF001  the mark of the input

from __future__ import annotations

import pytest

from agent_testing import Hang, Say

from ...live import Runtime, fresh
from .conftest import Open

pytestmark = pytest.mark.slow
HOSTILE = {
    "comments": "```html\n" + "<!--" * 64_000,
    "brackets": "[" * 200_000,
    "lines": "```csharp\n" + "a\n" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_escape_is_read(agent: Runtime, open_chat: Open, name: str) -> None:
    agent.provider.script.replace([Hang(after=1, reply=Say(pieces=(HOSTILE[name], "end")))])
    terminal = open_chat(agent, "-s", fresh("hostile"))
    terminal.say("hello")
    terminal.see("❯ hello", "Writing")
    terminal.press("Escape")
    terminal.see("■ Stopped.")
    terminal.press("C-d")
    assert terminal.exit_code() == 0
