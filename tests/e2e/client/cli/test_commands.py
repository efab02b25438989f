"""Each command as a process, piped and with `--json`, against a live host."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from agent_client import NotFound
from agent_client.sync import SyncMesh
from agent_testing import Call, Say
from tests.e2e.live import eventually, fresh
from tests.integration.host.live import OPERATOR

from .conftest import COMMAND, Cli, World

pytestmark = pytest.mark.slow


def test_a_table_on_a_terminal_has_a_heading_and_no_color_if_asked(cli: Cli) -> None:
    command = ["script", "-qec", " ".join([*COMMAND, "ps"]), "/dev/null"]
    for more, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
        env = {**cli.env, "TERM": "xterm-256color", **more}
        shown = subprocess.run(command, env=env, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
        assert b"ada" in shown
        assert b"folder" in shown
        assert (b"\x1b[3" in shown) <= colored


def test_logs_print_the_output_of_a_runtime_and_follow_it(world: World, cli: Cli) -> None:
    assert '"event": "ready"' in cli("logs", "ada").out
    assert cli("logs", "--json", "-w", "ada").out.startswith('{"workspace": "ada", "line": ')
    following = cli.start("logs", "-f")
    assert following.stdout is not None
    assert '"event": "ready"' in following.stdout.readline()
    world.provider.script.replace([Say("ok")])
    cli("-p", "hello", "-s", (name := fresh("logged")))
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        session = mesh.agent("ada").sessions.get(name).id
    while session not in following.stdout.readline():
        pass  # the test's own deadline ends this
    following.terminate()
    assert following.wait(30) == 130
    following.communicate()


def test_one_agent_is_started_stopped_and_deleted(world: World, cli: Cli, tmp_path: Path) -> None:
    (folder := tmp_path / "mine").mkdir()
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        mesh.workspaces.create("dan", settings={"AGENT_WORKSPACE_DIR": str(folder)})
    try:
        assert str(folder) in next(row for row in cli("ps").rows if row[0] == "dan")
        assert "`agent start dan`" in cli("-p", "hello", "-w", "dan", code=1).err
        assert cli("start", "dan").out == "dan is running\n"
        assert "`agent rm -f dan`" in cli("rm", "dan", code=1).err
        cli("context", "add", "here", world.host.url, "--token-file", str(tmp_path / "token"), "-w", "dan")
        assert cli("stop", "dan", "--json").json["state"] == "stopped"
        assert cli("rm", "dan").out == "dan is deleted\n"
        assert folder.is_dir()
        assert cli("context", "list", "--json").json["contexts"][0]["workspace"] is None
        assert "there is no workspace 'dan'" in cli("rm", "dan", code=1).err
    finally:
        with SyncMesh(world.host.url, OPERATOR) as mesh, suppress(NotFound):
            mesh.workspaces.delete("dan", force=True)


def test_a_reader_that_has_enough_ends_a_command_without_a_word(cli: Cli) -> None:
    with subprocess.Popen([*COMMAND, "logs"], env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait(30)) == (b"", 141)


def test_sessions_from_the_list_to_a_copy(world: World, cli: Cli, tmp_path: Path) -> None:
    name = fresh("poem")
    world.provider.script.replace([Say("Roses \x1b[31mare red"), Say("Violets")])
    cli("-p", "Write a poem", "-s", name)
    cli("-p", "And more", "-s", name)
    shown = cli("sessions", "show", name).out
    assert "Write a poem" in shown
    assert r"Roses \x1b[31mare red" in shown
    session = cli("sessions", "show", name, "--json").json
    assert session["id"] in {row["id"] for row in cli("sessions", "--json").json["sessions"]}
    assert cli("sessions").rows == cli("sessions", "list").rows
    second = [message for message in session["messages"] if message["role"] == "user"][1]
    assert cli("sessions", "rewind", name, second["id"], "--json").json["hidden"] == 2
    assert "Violets" not in cli("sessions", "show", name).out
    assert cli("sessions", "unrewind", name).out == "2 messages are back\n"
    copy = cli("sessions", "fork", name, "--title", "A copy").out.strip()
    assert cli("sessions", "show", copy, "--json").json["title"] == "A copy"
    file = tmp_path / "poem.jsonl"
    cli("sessions", "export", name, "-o", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == cli("sessions", "export", name).out
    assert "does not exist" in cli("sessions", "export", name, "-o", str(file), code=1).err
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        mesh.workspaces.create("bea")
        mesh.workspaces.start("bea")
        imported = cli("sessions", "import", str(file), "-w", "bea").out.strip()
        assert "Roses" in cli("sessions", "show", imported, "-w", "bea").out
        mesh.workspaces.delete("bea", force=True)
    assert cli("sessions", "archive", name).out == "archived\n"
    assert session["id"] not in {row["id"] for row in cli("sessions", "--json").json["sessions"]}


def test_tasks_and_work_are_listed_read_and_cancelled(world: World, cli: Cli) -> None:
    world.provider.script.replace(None, otherwise=Say('{"result": {"orders": 3}}'))
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        mesh.agent("ada").run("Count the orders", id=(task := fresh("count")))
        mesh.work.submit("ada", "Tell a story", id=(work := fresh("story")))
        mesh.work.wait(work)
    assert task in {row[0] for row in cli("tasks", "--status", "complete").rows}
    assert cli("tasks", "--status", "failed", "--json").json == {"tasks": []}
    assert '"orders": 3' in cli("tasks", "show", task).out
    assert cli("tasks", "cancel", task, "--json").json["status"] == "complete"
    assert cli("tasks", "show", "nothing", code=1).err.startswith("agent: unknown_task")
    assert [work, "ada", "resulted"] in [row[:3] for row in cli("work", "-w", "ada").rows]
    assert cli("work", "show", work, "--json").json["result"]["status"] == "completed"
    heading, answer = cli("work", "show", work).out.splitlines()
    assert heading == f"work {work} of ada: resulted, 1 attempt"
    assert answer == '{"result": {"orders": 3}}', "what the agent said, not the record around it"
    assert cli("work", "cancel", work).out == "resulted\n"
    assert "--user" in cli("work", "--user", "ann", code=2).err
    cli("context", "add", "here", world.host.url, "--token-file", f"{cli.env['HOME']}/token", "-w", "other")
    assert [work, "ada", "resulted"] in [row[:3] for row in cli("work").rows], "of all, without -w"
    assert cli("work", "-w", "other").rows == []


def test_cost_sums_up_agents_and_models(world: World, cli: Cli, tmp_path: Path) -> None:
    world.provider.script.replace([Say("ok")])
    cli("-p", "hello")
    report = cli("cost", "--json").json
    assert report["total_cost_usd"] == sum(row["usage"]["cost_usd"] for row in report["sums"]) > 0
    shown = cli("cost")
    assert shown.rows[0][:2] == ["ada", "default"]
    assert "in all" in shown.err
    cli("context", "add", "here", world.host.url, "--token-file", str(tmp_path / "token"), "-w", "another")
    assert cli("cost").rows == shown.rows, "of the whole host"
    assert cli("cost", "-w", "another").rows == []


def test_cost_with_a_user_is_of_that_user_only(world: World, cli: Cli) -> None:
    ann, bob = fresh("ann"), fresh("bob")
    world.provider.script.replace([Say("ok"), Say("ok"), Say("ok")])
    for user in (ann, ann, bob):
        cli("-p", "hello", "--user", user)
    assert [row["calls"] for row in cli("cost", "--user", ann, "--json").json["sums"]] == [2]
    assert cli("cost", "--user", fresh("nobody"), "--json").json["sums"] == []


def test_a_token_for_people_is_in_a_file_and_opens_its_workspaces_only(world: World, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "anns"
    made = cli("token", "create", "ann", "--workspaces", "ada", "--expires", "1h", "-o", str(file), "--json")
    secret = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in made.out + made.err
    listed = cli("token", "list")
    assert made.json["id"] in {row[0] for row in listed.rows}
    assert secret not in listed.out
    as_ann = ("--token-file", str(file))
    assert "-w WORKSPACE" in cli("sessions", *as_ann, code=2).err
    world.provider.script.replace([Say("ok")])
    assert cli("-p", "hello", "-w", "ada", *as_ann).out == "ok\n"
    assert "operator" in cli("ps", *as_ann, code=1).err
    assert cli("token", "revoke", made.json["id"]).out == f"{made.json['id']} is revoked\n"
    assert "unauthorized" in cli("-p", "hello", "-w", "ada", *as_ann, code=1).err


def test_a_token_for_several_people_needs_the_one_to_speak_for(world: World, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bots"
    made = cli("token", "create", "telegram:*", "discord:*", "--workspaces", "ada", "-o", str(file), "--json")
    assert made.json["scope"]["users"] == ["discord:*", "telegram:*"]
    assert "discord:*, telegram:*" in cli("token", "list").out
    as_bot = ("-w", "ada", "--token-file", str(file))
    world.provider.script.replace([Say("ok")])
    assert cli("-p", "hello", "--user", "telegram:1", *as_bot).out == "ok\n"
    assert "X-Agent-User" in cli("-p", "hello", *as_bot, code=1).err
    assert "X-Agent-User" in cli("-p", "hello", "--user", "ann", *as_bot, code=1).err
    assert cli("token", "revoke", made.json["id"]).out == f"{made.json['id']} is revoked\n"


def test_a_token_that_could_not_be_made_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "anns"
    cli("token", "create", "ann", "--workspaces", "nowhere", "--expires", "never", "-o", str(file), code=1)
    assert not file.exists()


def test_contexts_for_a_host_and_an_agent_behind_it(world: World, cli: Cli) -> None:
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        mesh.workspaces.create("bea")
    try:
        assert "ada, bea; name one with -w" in cli("sessions", code=2).err
        cli("context", "add", "writer", world.host.url, "--token-stdin", "-w", "ada", "--use", stdin=f"{OPERATOR}\n")
        assert cli("sessions", "--json").json.keys() == {"sessions"}
        assert cli("context", "list").rows == [
            ["", "here", "host", world.host.url, "", "", cli.env["HOME"] + "/token"],
            ["*", "writer", "host", world.host.url, "ada", "", "in the file of contexts"],
        ]
        assert OPERATOR not in cli("context", "list", "--json").out
        assert "several" in cli("--context", "here", "sessions", code=2).err
        assert "not_running" in cli("sessions", "-w", "bea", code=1).err
        cli("context", "use", "here")
        assert cli("context", "remove", "writer").out == "writer is removed\ncurrent context: here\n"
    finally:
        with SyncMesh(world.host.url, OPERATOR) as mesh:
            mesh.workspaces.delete("bea")


def test_a_url_is_a_host_or_an_agent(world: World, cli: Cli, tmp_path: Path) -> None:
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        url = mesh.workspaces.get("ada").url
    assert "unauthorized" in cli("sessions", "--url", url, code=1).err
    assert "unauthorized" in cli("sessions", "--url", world.host.url, code=1).err
    cli.env |= {"AGENT_URL": world.host.url, "AGENT_TOKEN": OPERATOR}
    assert cli("ps").rows[0][0] == "ada"
    del cli.env["AGENT_TOKEN"]
    cli.env["AGENT_TOKEN_FILE"] = str(tmp_path / "token")
    assert cli("ps").rows[0][0] == "ada"


def test_a_broken_file_of_contexts_is_named(cli: Cli) -> None:
    file = Path(cli.env["XDG_CONFIG_HOME"]) / "agent" / "contexts.json"
    file.write_text("{")
    assert str(file) in cli("ps", code=1).err
    file.write_text("{}")
    file.chmod(0o644)
    assert "chmod 600" in cli("context", "list", code=1).err


# ---------------------------------------------------------------- skills and MCP servers


def test_a_new_skill_passes_its_test_and_is_offered_by_the_agent(world: World, cli: Cli, tmp_path: Path) -> None:
    cli.env["AGENT_DATA_DIR"] = str(tmp_path / "runtime")
    assert cli("skill", "new", "count_words", cwd=tmp_path).out == "count_words.py\n"
    assert "does not exist" in cli("skill", "new", "count_words", cwd=tmp_path, code=1).err
    assert "no name" in cli("skill", "new", "../x", code=2).err
    arguments = ("--arguments", '{"text": "one two three"}')
    tried = cli("skill", "test", str(tmp_path / "count_words.py"), *arguments)
    assert 'count_words returned {"words": 3}' in tried.out
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        skills = Path(mesh.workspaces.get("ada").data_dir) / "skills"
    skills.joinpath("count_words.py").write_text((tmp_path / "count_words.py").read_text() + "    print('checked')\n")
    eventually(lambda: ["count_words", "active"] in [row[:2] for row in cli("skill", "list").rows])
    listed = cli("skill", "list", "--json").json["skills"]
    assert [one["error"] for one in listed if one["file"] == "count_words.py"] == [None]
    assert "skill changed" in cli("skill", "logs", "count_words").out
    assert "count_words.py" in {json.loads(line)["file"] for line in cli("skill", "logs", "--json").out.splitlines()}
    assert cli("skill", "logs", "another").out == ""


def test_a_skill_is_given_to_the_agent_of_this_machine_version_by_version(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "shout.py"
    for version, sign in (("1", "!"), ("2", "?")):
        file.write_text(f"@skill\ndef shout(text: str) -> str:\n    'Make it loud.'\n    return text + {sign!r}\n")
        added = cli("skill", "add", str(file))
        assert "shout.py passes" in added.out
        assert f"shout is active, version {version}\n" in added.err
        assert ["shout", "active", version, "shout.py", ""] in cli("skill", "list").rows, "at once"
    assert "shout is active, version 2\n" in cli("skill", "add", str(file)).err, "which the agent has already"
    twice = tmp_path / "again.py"
    twice.write_text(file.read_text())
    assert "is failed" in cli("skill", "add", str(twice), code=1).err, "the name is taken"
    cli("skill", "remove", "again")
    file.write_text("oops(")
    cli("skill", "add", str(file), code=1)
    assert ["shout", "active", "2", "shout.py", ""] in cli("skill", "list").rows
    assert "no plugin" in cli("skill", "add", str(tmp_path), code=2).err
    cli("skill", "remove", "shout")
    eventually(lambda: "shout" not in [row[0] for row in cli("skill", "list").rows])


def test_the_folder_of_skills_may_be_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text("@skill\ndef shout() -> str:\n    'Shout.'\n    return '!'\n")
    (tmp_path / "mine").mkdir()
    cli("skill", "add", "shout.py", "-o", "mine", cwd=tmp_path)
    assert (tmp_path / "mine" / "shout.py").read_bytes() == (tmp_path / "shout.py").read_bytes()
    assert "cannot be written" in cli("skill", "add", "shout.py", "-o", "missing", cwd=tmp_path, code=1).err


def test_a_skill_that_fails_its_test_is_exit_code_1(cli: Cli, tmp_path: Path) -> None:
    cli.env["AGENT_DATA_DIR"] = str(tmp_path / "runtime")
    (tmp_path / "broken.py").write_text("oops(")
    assert cli("skill", "test", "--json", "broken.py", cwd=tmp_path, code=1).json["passed"] is False


def test_mcp_servers_are_added_listed_and_tried(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    cli.env["AGENT_DATA_DIR"] = str(tmp_path)
    cli("mcp", "add", "notes", "--env", "TOKEN", "--network", "a.example", "--", "/nowhere/notes", "-v")
    keyed = ("--header", "X-Key=DOCS_KEY")
    added = cli("mcp", "add", "docs", "--server", "http://127.0.0.1:1/mcp", *keyed, "--file", str(file))
    assert "needs DOCS_KEY in the environment" in added.err
    assert json.loads(file.read_text()) == {
        "mcpServers": {
            "notes": {
                "command": "/nowhere/notes",
                "args": ["-v"],
                "env": {"TOKEN": "${TOKEN}"},
                "network": ["a.example"],
            },
            "docs": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "${DOCS_KEY}"}},
        }
    }
    assert "already" in cli("mcp", "add", "notes", "--", "x", code=2).err
    assert "a program or a URL" in cli("mcp", "add", "both", "--server", "http://x", "--", "x", code=2).err
    assert "no name of a variable" in cli("mcp", "add", "leak", "--env", "TOKEN=secret", "--", "x", code=2).err
    cli.env |= {"TOKEN": "t", "DOCS_KEY": "k"}
    assert "notes" in cli("mcp", "test", "notes", code=1).out
    assert cli("mcp", "list", "--json").json == {"mcp_servers": []}
    file.write_text("[]")
    assert str(file) in cli("mcp", "add", "more", "--", "x", code=1).err


def test_a_server_is_added_to_the_workspace_of_this_machine(world: World, cli: Cli) -> None:
    added = cli("mcp", "add", "notes", "--json", "--", "/nowhere/notes").json
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        assert added["file"] == mesh.workspaces.get("ada").data_dir + "/mcp.json"
    os.unlink(added["file"])


@pytest.mark.parametrize("argv", [("-p", "hello", "ps"), ("sessions", "--archived", "show", "x")])
def test_an_option_that_would_have_no_effect_is_refused(cli: Cli, argv: tuple[str, ...]) -> None:
    assert "leave it out" in cli(*argv, code=2).err


def test_completion_knows_the_commands(cli: Cli) -> None:
    cli.env |= {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent se", "COMP_CWORD": "1"}
    assert subprocess.run([*COMMAND], env=cli.env, capture_output=True, check=False, text=True).stdout == "sessions\n"


def test_a_tool_call_is_a_line_in_a_session(world: World, cli: Cli) -> None:
    name = fresh("called")
    world.provider.script.replace([Call("glob", {"pattern": "*"}), Say("done")])
    cli("-p", "look", "-s", name)
    assert "(glob {" in cli("sessions", "show", name).out
