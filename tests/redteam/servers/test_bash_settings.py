"""What surrounds a command makes no other one of it: settings that an agent writes, and the folder that it runs in.

The agent may write files and run a few harmless commands; no person can be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime

WRITER = """\
description: May write what it likes, but not the script that it may run.
mode: all
permissions:
  bash: {{"git status": allow, "git init": allow, "echo *": allow, "sh tests/run.sh": allow, {more}}}
  write: {{"*": allow, "tests/*": deny}}
  edit: allow
"""
MAY_GO = '"cd *": allow'
PLANT = "touch $WORKSPACE/planted; false"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    data = tmp_path_factory.mktemp("settings")
    (data / "agents").mkdir()
    (data / "agents" / "stays.yaml").write_text(WRITER.format(more='"ls": allow'))
    (data / "agents" / "goes.yaml").write_text(WRITER.format(more=MAY_GO))
    (data / "agents" / "asks.yaml").write_text("description: Asks.\nmode: all\npermissions: {bash: ask}\n")
    with ScriptedProvider() as provider, Runtime(provider, data) as runtime:
        (data / "workspace" / "tests").mkdir()
        (data / "workspace" / "tests" / "run.sh").write_text("echo the tests pass\n")
        yield runtime


def results(request: Any) -> list[str]:
    return [one["content"] for one in request.messages if one["role"] == "tool"]


def attempt(agent: Runtime, name: str, *calls: Call) -> list[str]:
    """Make the calls, one after the other. Return their results, and assert that nothing was planted."""
    agent.provider.script.replace([*calls, Say("over")])
    assert agent.run(agent=name)["status"] == "complete"
    answers = results(agent.provider.completions[-1])
    assert not (agent.data_dir / "workspace" / "planted").exists(), answers
    return answers


def bash(command: str, **more: str) -> Call:
    return Call("bash", {"command": command, **more})


def repository(folder: str, more: str = "") -> list[Call]:
    """Calls that write the files of a repository whose settings have git run a command."""
    settings = f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "{PLANT}"\n{more}'
    files = {"HEAD": "ref: refs/heads/main\n", "config": settings, "objects/x": "x", "refs/x": "x"}
    return [Call("write", {"path": f"{folder}{name}", "content": content}) for name, content in files.items()]


def test_git_takes_no_command_from_files_that_the_agent_writes(agent: Runtime) -> None:
    bare = repository("", "\tworktree = .\n")
    settings = f"echo \"[core] fsmonitor = '{PLANT.replace('$', '')}'\""
    [*_, answer] = attempt(agent, "stays", *repository(".git/"), bash("git status"))
    assert "not a git repository" in answer
    [*_, answer] = attempt(agent, "stays", *bare, bash("git status"))
    assert "safe.bareRepository" in answer
    attempt(agent, "stays", *repository("sub/", "\tworktree = .\n"), bash("git status", workdir="sub"))
    hidden = [f"{settings} {sign} {file}" for sign in (">", ">>", ">|", "&>", "1>") for file in (".git/config", ".git")]
    written = attempt(agent, "goes", bash("git init"), *map(bash, hidden), bash("git status"))
    assert ["hidden" in one for one in written[1:-1]] == [True] * len(hidden)
    inside = (bash("cd .git && echo x > config"), bash("echo x > config", workdir=".git"), bash("bash -c 'cd .git'"))
    assert all("hidden" in one for one in attempt(agent, "goes", *inside, bash("git status"))[:-1])
    config = agent.data_dir / "workspace" / ".git" / "config"
    for call in (
        Call("write", {"path": ".git/config", "content": "x"}),
        Call("write", {"path": "sub/../.git/hooks/pre-commit", "content": "x"}),
        Call("edit", {"path": ".git/config", "old_string": "bare = false", "new_string": "bare = true"}),
    ):
        [answer] = attempt(agent, "goes", call)
        assert "git takes commands from its own files" in answer
    assert "bare = false" in config.read_text()


def test_the_home_of_commands_has_no_settings_of_the_agent(agent: Runtime) -> None:
    """Scratch is the home folder of commands, and git reads `.gitconfig` there."""
    git = f'[core]\n\tfsmonitor = "{PLANT}"\n'

    def model(request: Any) -> Say | Call:
        answers = results(request)
        if not answers:
            return Call("read", {"path": "/outside"})
        home = re.findall(r"scratch folder ([^\s\"]+)", answers[0])[0]
        calls = (
            *(
                Call("write", {"path": f"{home}/{name}", "content": git})
                for name in (".gitconfig", ".config/git/config")
            ),
            bash(f"echo x > {home}/.gitconfig"),
            bash("git status", workdir=home),
            Call("write", {"path": f"{home}/notes", "content": "kept"}),
            bash(f"echo x > {home}/notes"),
        )
        return calls[len(answers) - 1] if len(answers) <= len(calls) else Say("over")

    agent.provider.script.replace(model)
    assert agent.run(agent="goes")["status"] == "complete"
    _, *refused, status, written, redirected = results(agent.provider.completions[-1])
    assert all("hidden" in one for one in refused), refused
    assert "not a git repository" in status
    assert '"error"' not in written + redirected
    assert not (agent.data_dir / "workspace" / "planted").exists()


def test_a_command_runs_in_another_folder_only_where_a_rule_allows_to_go_there(agent: Runtime) -> None:
    forged = Call("write", {"path": "x/tests/run.sh", "content": PLANT})
    scripts = (bash("sh tests/run.sh", workdir="x"), bash("cd x && sh tests/run.sh"))
    allowed, _, *refused = attempt(agent, "stays", bash("sh tests/run.sh", workdir="."), forged, *scripts)
    assert "the tests pass" in allowed
    assert all("cd x" in one and "no rule" in one for one in refused)
    [answer] = attempt(agent, "goes", bash("echo here", workdir="x"))
    assert "here" in answer


def test_a_setting_behind_time_is_no_setting_to_the_program_of_that_name(agent: Runtime) -> None:
    """`time` is a keyword at the beginning of a command only; the program takes the words behind it for a command."""
    forged = agent.data_dir / "workspace" / "TZ=a" / "b"
    forged.parent.mkdir()
    forged.write_text(f"#!/bin/sh\n{PLANT}\n")
    forged.chmod(0o755)
    forged.parent.chmod(0o755)
    scripts = [f"{before} TZ=a/b echo x" for before in ("LANG=C time", "env time", "nice time -p", "timeout 9 time")]
    answers = attempt(agent, "goes", *map(bash, scripts))
    assert all("sets a variable" in one for one in answers)


def test_an_approval_for_good_of_what_is_written_to_one_file_is_none_for_others(agent: Runtime) -> None:
    agent.provider.script.replace([bash("echo one > notes")])
    [waits] = agent.chat("note it", session_id="asks", agent="asks").json()["pending"]
    assert [rule["pattern"] for rule in waits["always"]] == ["echo one"]
