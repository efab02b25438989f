"""`agent agents`, `blackboard`, `topics` and `artifacts` as processes, against a live host with the agent `ada`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from agent_testing import Fail, Hang, Say
from tests.e2e.live import eventually, fresh

from .conftest import Cli, World

pytestmark = pytest.mark.slow


def test_a_blackboard_is_written_read_and_looked_back_on(cli: Cli) -> None:
    team = ("--team", fresh("team"))
    assert cli("blackboard", "put", "plans/a", '{"beds": 3}', *team).out == "plans/a has version 1\n"
    assert "version_conflict" in cli("blackboard", "put", "plans/a", "1", "--if-absent", *team, code=1).err
    assert (
        cli("blackboard", "put", "plans/a", "-", "--if-version", "1", *team, "--json", stdin="[4]").json["version"] == 2
    )
    cli("blackboard", "put", "note", "it\x1b[31m", "--text", *team)
    assert cli("blackboard", "get", "plans/a", *team).out == "[\n  4\n]\n"
    assert cli("blackboard", "get", "plans/a", *team, "--json").json["updated_by"] == "operator"
    assert [row[:3] for row in cli("blackboard", "list", *team).rows] == [
        ["note", "1", "operator"], ["plans/a", "2", "operator"],
    ]  # fmt: skip
    assert r"\u001b[31m" in cli("blackboard", "list", "no", *team).out
    assert [row[:2] for row in cli("blackboard", "history", "plans/a", *team).rows] == [["2", "put"], ["1", "put"]]
    watching = cli.start("blackboard", "watch", "plans/", "--after", "0", *team)
    assert watching.stdout is not None
    assert watching.stdout.readline().rstrip().endswith('put plans/a version 1 by operator: {"beds": 3}')
    watching.terminate()
    assert watching.wait(30) == 130
    watching.communicate()
    assert cli("blackboard", "delete", "plans/a", *team).out == "plans/a is deleted\n"
    assert "`agent blackboard list`" in cli("blackboard", "get", "plans/a", *team, code=1).err
    assert "--text" in cli("blackboard", "put", "plans/a", "roses", *team, code=2).err
    assert "slash" in cli("blackboard", "put", "a//b", "1", *team, code=1).err


def test_a_topic_is_published_to_and_read(cli: Cli) -> None:
    team = ("--team", fresh("team"))
    for _ in range(2):
        assert cli("topics", "publish", "orders", '{"beds": 3}', "--id", "o-1", *team).out == "message 1 of orders\n"
    assert "message_conflict" in cli("topics", "publish", "orders", "4", "--id", "o-1", *team, code=1).err
    assert cli("topics", "publish", "orders", "more", "--text", *team, "--json").json["seq"] == 2
    first, second = cli("topics", "read", "orders", *team).out.splitlines()
    assert first.endswith('1 operator: {"beds": 3}')
    assert second.endswith('2 operator: "more"')
    (line,) = cli("topics", "read", "orders", "--after", "1", "--json", *team).out.splitlines()
    assert json.loads(line)["data"] == "more"
    reading = cli.start("topics", "read", "orders", "-f", "--after", "1", *team)
    assert reading.stdout is not None
    assert reading.stdout.readline().rstrip() == second
    reading.terminate()
    assert reading.wait(30) == 130
    reading.communicate()
    assert "no topic 'nothing'" in cli("topics", "read", "nothing", *team, code=1).err


def test_artifacts_go_there_and_come_back(cli: Cli, tmp_path: Path) -> None:
    team, file, copy = ("--team", fresh("team")), tmp_path / "may.csv", tmp_path / "copy.csv"
    file.write_text("a,b\n")
    assert cli("artifacts", "put", "reports/may.csv", str(file), *team).out.startswith(
        "reports/may.csv has version 1, 4 b"
    )
    file.write_text("a,b\n1,2\n")
    assert cli("artifacts", "put", "reports/may.csv", str(file), "--json", *team).json["media_type"] == "text/csv"
    assert "version_conflict" in cli("artifacts", "put", "reports/may.csv", str(file), "--if-absent", *team, code=1).err
    assert [row[:4] for row in cli("artifacts", "list", *team).rows] == [["reports/may.csv", "2", "8", "text/csv"]]
    assert cli("artifacts", "get", "reports/may.csv", *team).out == "a,b\n1,2\n"
    cli("artifacts", "get", "reports/may.csv", "-o", str(copy), "--version", "1", *team)
    assert copy.read_text() == "a,b\n"
    assert "does not exist" in cli("artifacts", "get", "reports/may.csv", "-o", str(copy), *team, code=1).err
    assert "`agent artifacts list`" in cli("artifacts", "get", "x", "-o", str(tmp_path / "x"), *team, code=1).err
    assert not (tmp_path / "x").exists()
    assert "-o FILE" in cli("artifacts", "get", "reports/may.csv", "--json", *team, code=2).err
    assert "cannot be read" in cli("artifacts", "put", "x", str(tmp_path / "none"), *team, code=1).err
    cli("artifacts", "delete", "reports/may.csv", *team)
    assert cli("artifacts", "list", *team).rows == []


def test_agents_are_listed_shown_asked_and_handed_work(world: World, cli: Cli) -> None:
    eventually(lambda: cli("agents", "--json").json["agents"])
    (row,) = cli("agents", "--team", "counting", "--capability", "bash").rows
    assert row[:3] == ["ada", "counting", "attached"]
    assert "agent ada of the team counting: attached" in cli("agents", "show", "ada").out
    world.provider.script.replace([Say("three \x1b[31mbeds"), Fail(400, "no")], otherwise=Say("done"))
    assert cli("agents", "ask", "ada", "How many beds?").out == "three \\x1b[31mbeds\n"
    assert "failed: " in cli("agents", "ask", "ada", "And now?", code=1).err
    work = cli("agents", "hand-off", "ada", "Plant them.", "--key", (key := fresh("key"))).out.strip()
    assert cli("agents", "hand-off", "ada", "Plant them.", "--key", key, "--json").json["request_id"] == work
    eventually(lambda: cli("work", "show", work, "--json").json["status"] == "resulted")
    assert "`agent agents` lists" in cli("agents", "ask", "nobody", "Hello?", code=1).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_what_was_asked(world: World, cli: Cli, number: signal.Signals) -> None:
    eventually(lambda: cli("agents", "--json").json["agents"])
    world.provider.script.replace([Hang()])
    asking = cli.start("agents", "ask", "ada", "How many beds?")
    world.provider.wait_for(1)
    asking.send_signal(number)
    assert asking.communicate(timeout=60) == ("", "")
    assert asking.returncode == 130
    eventually(lambda: cli("work", "--json").json["work"][0]["status"] == "cancelled")
