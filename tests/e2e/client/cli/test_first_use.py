"""The command `agent` in a few fast tests; those of the other files are slow, because each call is a process."""

from __future__ import annotations

import subprocess

import pytest

from agent_testing import Say

from .conftest import COMMAND, Cli, World


def test_the_answer_is_printed_and_what_is_piped_in_is_part_of_the_prompt(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say("It is a poem.")])
    done = cli("-p", "What is this?", stdin="Roses are red\n")
    assert (done.out, done.err) == ("It is a poem.\n", "")
    assert world.provider.requests[-1].last_user_text.endswith("What is this?\n\nRoses are red")


def test_ps_lists_the_agents_and_what_they_do(cli: Cli) -> None:
    assert cli("ps").rows == [["ada", "counting", "running", "process", "ready", "0", "0", "", ""]]
    row = cli("ps", "--json").json["workspaces"][0]
    assert (row["id"], row["sessions"]["running"], row["mediationReady"]["ready"]) == ("ada", 0, True)


@pytest.mark.parametrize("argv", [("ps", "--nothing"), ("nothing",), ("tasks", "show"), ("--timeout", "0", "-p", "x")])
def test_a_wrong_option_is_exit_code_2(cli: Cli, argv: tuple[str, ...]) -> None:
    cli(*argv, code=2)


def test_help_starts_fast(cli: Cli) -> None:
    """Without libraries that take longer to import than all the rest."""
    heavy = "{'httpx2', 'pydantic', 'rich', 'prompt_toolkit', 'stamina'}"
    code = f"import agent_client.cli, sys; print(*sorted({heavy} & set(sys.modules)))"
    command = [COMMAND[0], "-c", code]
    assert subprocess.run(command, env=cli.env, capture_output=True, check=True, text=True).stdout == "\n"


def test_without_a_server_the_error_says_the_fix(cli: Cli) -> None:
    assert "agent up" in cli("ps", "--url", "http://127.0.0.1:1", code=1).err
    cli("context", "remove", "here")
    assert "agent up" in cli("ps", code=2).err
