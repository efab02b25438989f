"""`agent -p`: its output, its exit codes, and the turn at the server when it is interrupted."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from agent_client.sync import SyncMesh
from agent_testing import Call, Fail, Hang, Say, Step
from tests.e2e.live import eventually, fresh
from tests.integration.host.live import OPERATOR

from .conftest import COMMAND, Cli, World

NASTY = "\x1b]0;title\x07 [bold]\u202egnp.exe[/bold]"
pytestmark = pytest.mark.slow
ASKS = Call("question", {"questions": [{"question": "Which colour?"}]})


@pytest.fixture
def mesh(world: World) -> Iterator[SyncMesh]:
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        yield mesh


def test_a_prompt_may_come_from_stdin_alone(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say("ok")])
    cli("-p", "-", stdin="Roses are red\n")
    assert world.provider.requests[-1].last_user_text.endswith("Roses are red")


def test_what_the_model_says_reaches_no_terminal_raw(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say(NASTY), Say(NASTY)])
    shown = cli("-p", "hello").out
    assert shown == r"\x1b]0;title\x07 [bold]\u202egnp.exe[/bold]" + "\n"
    assert cli("-p", "hello", "--json").json["text"] == NASTY


def test_texts_between_tool_calls_stand_apart(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say("First I look.", (Call("glob", {"pattern": "*"}),)), Say("Done.")])
    assert cli("-p", "look").out == "First I look.\n\nDone.\n"


def test_json_is_one_object_and_stream_json_a_line_for_each_event(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say("ok"), Say("ok")])
    one = cli("-p", "hello", "--json", "-s", "named").json
    assert (one["status"], one["session_id"], one["text"], one["limit"]) == ("done", "named", "ok", None)
    assert one["usage"]["output"] > 0
    lines = cli("-p", "hello", "--stream-json").out.splitlines()
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [events[0]["type"], events[-1]["type"]] == ["started", "finished"]
    assert "".join(event["text"] for event in events if event["type"] == "text-delta") == "ok"


def test_each_prompt_is_a_session_of_its_own_unless_it_continues_one(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say("one"), Say("two"), Say("three")])
    first = cli("-p", "first", "--json").json["session_id"]
    assert cli("-p", "second", "--json").json["session_id"] != first
    cli("-p", "third", "-c")
    asked = [message["content"] for message in world.provider.requests[-1].messages if message["role"] == "user"]
    assert ["second" in str(asked), "first" in str(asked)] == [True, False]


def test_the_session_used_last_is_not_that_of_a_task(world: World, cli: Cli, mesh: SyncMesh) -> None:
    world.provider.script.replace([Say("one"), Say("done"), Say("two"), Say("three")])
    mine = cli("-p", "first", "--json").json["session_id"]
    agent = mesh.agent("ada")
    assert agent.run("a task that ends after it") == {"text": "done"}
    assert next(iter(agent.sessions.list())).alias is None, "the session of the task changed last"
    assert cli("-p", "second", "-c", "--json").json["session_id"] == agent.sessions.get(mine).id
    cli("chat", "-c", stdin="third\n")
    asked = [message["content"] for message in world.provider.requests[-1].messages if message["role"] == "user"]
    assert "second" in str(asked)


REPLIES: dict[str, tuple[Step, tuple[str, ...], int, str, str]] = {
    "done": (Say("ok"), (), 0, "done", ""),
    "failed": (Fail(400, "no such thing"), (), 1, "failed", "no such thing"),
    "waits": (ASKS, (), 3, "waits", "agent approve"),
    "limit": (Hang(after=2), ("--timeout", "1"), 4, "limit", "--timeout"),
}


@pytest.mark.parametrize("end", REPLIES)
def test_the_exit_code_says_how_the_turn_ended(world: World, cli: Cli, end: str) -> None:
    step, options, code, status, told = REPLIES[end]
    world.provider.script.replace([step, step])
    assert told in cli("-p", "go", *options, code=code).err
    assert cli("-p", "go", "--json", *options, code=code).json["status"] == status


def test_the_model_and_the_agent_may_be_named(world: World, cli: Cli) -> None:
    for argv in (("-p", "go"), ("chat", "go")):
        assert "[demo model]" in cli(*argv, "--model", "demo").out
        told = cli(*argv, "--agent", "nobody-here", code=1)
        assert "nobody-here" in told.out + told.err
    assert "must be one of: " in cli("-p", "go", "--agent", "nobody-here", code=1).err


def test_a_limit_of_steps_is_told(world: World, cli: Cli) -> None:
    world.provider.script.replace(None, otherwise=Call("glob", {"pattern": "*"}))
    assert cli("-p", "go on", "--json", code=4).json["limit"]


def test_a_session_that_waits_takes_no_prompt(world: World, cli: Cli) -> None:
    name = fresh("waiting")
    world.provider.script.replace([ASKS])
    cli("-p", "go", "-s", name, code=3)
    assert "waits for a person" in cli("-p", "and now?", "-s", name, code=3).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_aborts_the_turn_at_the_server(
    world: World, cli: Cli, mesh: SyncMesh, number: signal.Signals
) -> None:
    name = fresh("interrupted")
    world.provider.script.replace([Hang(after=2)])
    process = cli.start("-p", "count", "-s", name)
    assert process.stdout is not None
    assert process.stdout.read(8) == "one two "
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "\n")
    assert "Traceback" not in err
    assert mesh.agent("ada").sessions.get(name).status.state == "idle"
    assert mesh.agent("ada").status().sessions.running == 0


def test_an_interrupt_takes_a_queued_message_back_and_leaves_the_turn_before_it(
    world: World, cli: Cli, mesh: SyncMesh
) -> None:
    name, ada = fresh("queued"), mesh.agent("ada")
    world.provider.script.replace([Hang(after=1)])
    first = cli.start("-p", "count", "-s", name)
    eventually(lambda: ada.status().sessions.running == 1)
    second = cli.start("-p", "and then?", "-s", name)
    eventually(lambda: ada.sessions.get(name).queue)
    second.send_signal(signal.SIGINT)
    assert (second.communicate(timeout=60)[0], second.returncode) == ("", 130)
    assert ada.sessions.get(name).queue == []
    world.provider.release()
    assert first.communicate(timeout=60)[0] == "one two three four five six seven eight nine ten\n"
    assert first.returncode == 0


def test_a_reader_that_goes_away_aborts_the_turn(world: World, cli: Cli, mesh: SyncMesh) -> None:
    name = fresh("headless")
    world.provider.script.replace([Hang(after=1)])
    process = cli.start("-p", "count", "-s", name)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(4) == "one "
    process.stdout.close()
    world.provider.release()
    assert process.wait(30) in (0, 141)  # all may have been written before the pipe was closed
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    eventually(lambda: mesh.agent("ada").sessions.get(name).status.state == "idle")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("-p", ""), "the prompt is empty"),
        (("-p", "x", "-s", "a", "-c"), "-s and -c"),
        (("chat", "-s", "a", "-c"), "-s and -c"),
        (("-p", "x", "--json", "--stream-json"), "two formats"),
        (("--json",), "no command"),
        (("-p", "x", "-w", "nowhere"), "there is no workspace 'nowhere'; `agent ps` lists those there are"),
    ],
)
def test_a_wrong_call_is_one_line(cli: Cli, argv: tuple[str, ...], told: str) -> None:
    done = cli(*argv, code=1 if "nowhere" in argv else 2)
    assert told in done.err
    assert done.err.count("\n") == 1


def test_stdin_that_is_no_text_is_refused(cli: Cli) -> None:
    done = subprocess.run([*COMMAND, "-p", "-"], env=cli.env, input=b"a\xff", capture_output=True, check=False)
    assert (done.returncode, b"not text in UTF-8, at byte 1" in done.stderr) == (1, True)


def test_stdin_that_is_a_terminal_is_not_read(world: World, cli: Cli) -> None:
    world.provider.script.replace([Say("ok")])
    master, slave = pty.openpty()
    done = subprocess.run([*COMMAND, "-p", "hello"], env=cli.env, stdin=slave, capture_output=True, check=False)
    os.close(slave)
    os.close(master)
    assert done.stdout == b"ok\n"
