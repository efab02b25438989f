"""The page of the chat has every command, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from agent_client.cli.chat.commands import COMMANDS

PAGE = (Path(__file__).parents[5] / "docs/how-to/chat.md").read_text("utf-8")


def test_the_page_has_every_command_and_no_others() -> None:
    table = PAGE.partition("## Commands")[2].partition("\n## ")[0]
    rows = "\n".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `/"))
    assert set(re.findall(r"`/(\w+)", rows)) == {command.name for command in COMMANDS}
    for command in COMMANDS:
        if command.argument and "|" not in command.argument:
            assert f"`/{command.name} {command.argument}`" in rows
