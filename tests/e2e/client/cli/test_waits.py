"""`agent pending`, `approve` and `events`: what waits for a person, and what happens."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from agent_client.sync import SyncAgent, SyncMesh
from agent_common.protocol import SessionRule
from agent_testing import Call, Say
from tests.e2e.live import eventually, fresh, in_background
from tests.integration.host.live import OPERATOR

from .conftest import Cli, World

pytestmark = pytest.mark.slow
OPTIONS = [{"label": "blue \x1b[31m", "description": "like the sky"}, {"label": "red"}]
ASK_BASH = SessionRule(permission="bash", action="ask")


@pytest.fixture
def ann(world: World) -> Iterator[SyncAgent]:
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        yield mesh.agent("ada", user="ann")


def question(world: World, cli: Cli, *options: str) -> str:
    """The id of a question that waits now, in ann's session of the same name."""
    name = fresh("question")
    asked = {"questions": [{"question": "Which \x1b[1mcolour?", "options": OPTIONS}]}
    world.provider.script.replace([Call("question", asked, id=name)], otherwise=Say("Painted."))
    cli("-p", "paint the fence", "-s", name, "--user", "ann", *options, code=3)
    return name


def approval(world: World, cli: Cli, ann: SyncAgent) -> tuple[str, str]:
    """The id of an approval that waits now, and ann's session that it is in."""
    name = fresh("approval")
    world.provider.script.replace([Say("ready")])
    cli("-p", "be ready", "-s", name, "--user", "ann")
    ann.sessions.permit(name, [ASK_BASH])
    world.provider.script.replace([Call("bash", {"command": "echo hello"}, id=name)], otherwise=Say("Done."))
    waiting = cli("-p", "greet", "-s", name, "--user", "ann", "--json", code=3).json["pending"]
    assert waiting["tool"] == "bash"
    return waiting["id"], name


def after(ann: SyncAgent, name: str) -> str:
    """All that the session says once its turn has ended."""
    eventually(lambda: ann.sessions.get(name).status.state == "idle")
    return str([message.parts for message in ann.sessions.messages(name)])


def test_a_question_is_listed_shown_and_answered_by_number(world: World, cli: Cli, ann: SyncAgent) -> None:
    name = question(world, cli)
    cli("context", "add", "here", world.host.url, "--token-file", f"{cli.env['HOME']}/token", "-w", "other")
    row = next(row for row in cli("pending").rows if row[0] == name)
    assert row[:5] == [name, "question", "ada", "ann", name]
    assert row[-1] == r"Which \x1b[1mcolour?"
    assert cli("approve").rows == cli("pending").rows
    assert next(one for one in cli("pending", "--json").json["pending"] if one["id"] == name)["workspace"] == "ada"
    shown = cli("approve", name, code=3).out
    assert r"  1. blue \x1b[31m like the sky" in shown
    assert "\x1b" not in shown
    assert "questions: 1, answers: 0" in cli("approve", name, "--once", code=2).err
    assert cli("approve", name, "--answer", "2").out == "answered\n"
    assert "red" in after(ann, name)
    assert "nothing waits" in cli("approve", name, "--answer", "2", code=1).err


@pytest.mark.parametrize(
    ("options", "told"),
    [(("--once",), "hello"), (("--always",), "hello"), (("--reject", "--reason", "too loud"), "too loud")],
)
def test_an_approval_is_allowed_or_rejected(
    world: World, cli: Cli, ann: SyncAgent, options: tuple[str, ...], told: str
) -> None:
    waiting, name = approval(world, cli, ann)
    shown = cli("approve", waiting, code=3)
    assert '"command": "echo hello"' in shown.out
    assert cli("approve", waiting, "--json", code=3).json["tool"] == "bash"
    assert "takes no --answer" in cli("approve", waiting, "--answer", "yes", code=2).err
    assert cli("approve", waiting, *options, "--json").json == {"id": waiting, "answered": True}
    assert told in after(ann, name)
    assert len(ann.sessions.permissions(name).rules) == (2 if "--always" in options else 1)


def test_what_is_always_allowed_for_an_agent_is_listed_and_taken_back(world: World, cli: Cli, ann: SyncAgent) -> None:
    waiting, name = approval(world, cli, ann)
    assert "--scope agent to all sessions of ann with agent" in cli("approve", waiting, code=3).out
    assert "write it with --always" in cli("approve", waiting, "--once", "--scope", "agent", code=2).err
    cli("approve", waiting, "--always", "--scope", "agent")
    assert "hello" in after(ann, name)
    assert len(ann.sessions.permissions(name).rules) == 1, "the session has no rule more"
    [(agent, number, *rule, _since)] = cli("permissions", "--user", "ann").rows
    assert (number, rule) == ("1", ["allow", "bash", "echo *"])
    assert cli("permissions", "--user", "bob", "--json").json == {"permissions": []}
    assert "you have 1 rules" in cli("permissions", "remove", agent, "2", "--user", "ann", code=2).err
    assert cli("permissions", "remove", agent, "1", "--user", "ann").out == "taken back\n"
    assert cli("permissions", "--user", "ann", "--json").json == {"permissions": []}


def test_an_answer_is_given_in_the_name_of_the_user_by_a_token_for_that_user_too(
    world: World, cli: Cli, ann: SyncAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = question(world, cli)
    files = {user: str(tmp_path_factory.mktemp(user) / "token") for user in ("ann", "bob")}
    for user, file in files.items():
        cli("token", "create", user, "--workspaces", "ada", "-o", file)
    assert "nothing waits" in cli("approve", name, "--answer", "1", "--token-file", files["bob"], code=1).err
    assert cli("approve", name, "--answer", "green", "--token-file", files["ann"]).out == "answered\n"
    assert "green" in after(ann, name)


def test_at_an_agent_without_its_host(world: World, cli: Cli, ann: SyncAgent) -> None:
    name = question(world, cli)
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        url = mesh.workspaces.get("ada").url
    assert "unauthorized" in cli("pending", "--url", url, code=1).err  # the agent's token never leaves the host
    cli("approve", name, "--answer", "1", "-w", "ada")
    assert "blue" in after(ann, name)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("x", "--once", "--reject"), "several answers"),
        (("x", "--once", "--answer", "y"), "several answers"),
        (("x", "--once", "--reason", "y"), "--reject"),
    ],
)
def test_a_wrong_answer_is_a_usage_error(cli: Cli, argv: tuple[str, ...], told: str) -> None:
    assert told in cli("approve", *argv, code=2).err


def test_a_chat_without_a_terminal_begins_with_what_is_open(world: World, cli: Cli) -> None:
    name = fresh("garden")
    asked = {"questions": [{"question": "Which colour?", "options": OPTIONS}]}
    calls = [Call("question", asked, id=f"{name}-1"), Call("question", asked, id=f"{name}-2")]
    world.provider.script.replace([*calls, Say("Painted.")], otherwise=Say("Once more."))
    assert "it waits for an answer" in cli("chat", "-s", name, stdin="paint\n", code=3).out
    assert "it waits for an answer" in cli("chat", "-s", name, stdin="2\n", code=3).out
    out = cli("chat", "-s", name, stdin="1\nagain\n").out
    assert "Painted." in out
    assert out.endswith("Once more.\n"), "the first question, which is answered, has taken no line"


def test_the_events_of_a_person_are_not_those_of_others(world: World, cli: Cli) -> None:
    mine, other = fresh("mine"), fresh("other")
    with cli.start("events", "--json", "--user", "ann") as lines:
        assert lines.stdout is not None
        reader = in_background(lines.stdout.readline)

        def watches() -> bool:
            cli("-p", "hello", "-s", other, "--user", "bob")
            cli("-p", "hello", "-s", mine, "--user", "ann")
            return bool(reader[1])

        eventually(watches)
        assert json.loads(reader[1][0])["data"]["session_id"] == mine
        lines.send_signal(signal.SIGINT)
        assert lines.wait(30) == 130


def test_events_are_lines_and_lines_of_json(world: World, cli: Cli) -> None:
    name = fresh("watched")
    with cli.start("events") as plain, cli.start("events", "--json", "-w", "ada") as lines:
        assert plain.stdout is not None
        assert lines.stdout is not None
        readers = [in_background(stream.readline) for stream in (plain.stdout, lines.stdout)]

        def both_watch() -> bool:
            cli("-p", "hello", "-s", name)
            return all(found for _, found in readers)

        eventually(both_watch)
        event = json.loads(readers[1][1][0])
        assert event.keys() == {"id", "type", "data"}
        assert event["data"]["session_id"] == name
        line = readers[0][1][0]
        assert f"workspace=ada user=operator session_id={name}" in line
        for process in (plain, lines):
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
