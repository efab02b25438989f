"""The page of the command has every command, option, exit code and variable, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from agent_client.cli import context_file, contexts, errors
from agent_client.cli.main import app
from agent_client.cli.run import COMMON

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/reference/cli.md").read_text("utf-8")
ROWS = re.findall(r"(?m)^\| (`agent .*?) \| (.*) \|$", PAGE)
OF_ALL = {"--context", "--url", "--token-file", "--workspace", "-w", "--user", "--json", "--help", "-h"}
OF_TYPER = {"--install-completion", "--show-completion"}


def commands(command: Any, name: str = "agent") -> Iterator[tuple[str, set[str]]]:
    """Each command that does something by itself, and its own options."""
    inner = getattr(command, "commands", {})
    options = {one for parameter in command.params for one in parameter.opts if one.startswith("-")}
    if not inner or command.invoke_without_command:
        yield name, options
    for word, below in inner.items():
        yield from commands(below, f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def row_of(command: str) -> str:
    """The row in whose first cell the command stands."""
    found = [f"{first} {text}" for first, text in ROWS if re.search(rf"`{command}(?: [A-Z\[][^`]*)?`", first)]
    assert len(found) == 1, f"{command} is in {len(found)} rows"
    return found[0]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "agent"])
def test_every_command_is_a_row_with_its_own_options(command: str) -> None:
    row = row_of(command)
    own = COMMANDS[command] - (OF_ALL if command != "agent context add" else {"--json", "--help", "-h"})
    if command.endswith(" list"):
        own -= COMMANDS.get(command.removesuffix(" list"), set())
    assert {option for option in own if f"`{option}`" not in row} == set()


def test_the_options_of_print_mode_are_in_its_row() -> None:
    row = next(f"{first} {text}" for first, text in ROWS if first.startswith("`agent -p"))
    missing = {one for one in COMMANDS["agent"] - OF_ALL - OF_TYPER if f"`{one}`" not in row}
    assert missing == {"-p", "--print"}


def test_every_command_and_option_of_the_page_is_there() -> None:
    named = {name for first, _ in ROWS for name in re.findall(r"`(agent(?: [a-z][a-z-]*)*)", first)}
    assert named == set(COMMANDS)
    options = set[str]().union(*COMMANDS.values())
    assert set(re.findall(r"`(--?[a-z][a-z-]*)", PAGE)) <= options


def test_the_common_options_are_a_table() -> None:
    table = PAGE.partition("## Options of every command")[2].partition("\n## ")[0]
    assert {f"--{name.replace('_', '-')}" for name in COMMON} | {"--json"} == set(re.findall(r"`(--[a-z-]+)", table))


def test_every_exit_code_is_in_the_table() -> None:
    table = PAGE.partition("## Exit codes")[2].partition("\n## ")[0]
    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in re.findall(r"(?m)^\| (\d+) \|", table)} == codes


def test_every_variable_is_in_the_table() -> None:
    table = PAGE.partition("## Environment")[2]
    read = {
        name for module in (contexts, context_file) for name in re.findall(r'environ\.get\("(\w+)"', source(module))
    }
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", table)) == read | {"AGENT_BOTS", "NO_COLOR"}


def source(module: Any) -> str:
    return Path(module.__file__).read_text("utf-8")


def test_the_words_of_the_runtime_about_the_variables_are_true() -> None:
    from agent_runtime.settings import CLIENT_VARIABLES, LOADER

    assert {"AGENT_BOTS", "AGENT_CONTEXT", "AGENT_URL"} == CLIENT_VARIABLES
    assert not CLIENT_VARIABLES & set(LOADER.names())
