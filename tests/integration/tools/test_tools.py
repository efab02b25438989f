"""bash, glob and grep as the loop calls them, and what the model is told about all six."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agent_runtime.ports import ToolResult
from agent_runtime.sandbox import Confinement, SandboxLimits, choose_confinement
from agent_runtime.tools import ToolGate
from agent_runtime.tools.bash.tool import bash_tool
from agent_runtime.tools.files.glob_grep import FileSearch, glob_tool, grep_tool
from agent_runtime.workspace import Home

from .conftest import House, furnish


@pytest.fixture
def unconfined(tmp_path: Path) -> House:
    """A machine on which no command can be confined."""
    home = Home(tmp_path / "data")
    home.prepare()
    return furnish(home, Confinement(None, "bubblewrap does not work (test)"))


# ---------------------------------------------------------------- bash


async def test_bash_answers_with_both_streams_and_the_exit_code(house: House) -> None:
    result = await house.call("bash", command="echo out; echo err >&2; exit 7", description="Fails on purpose")
    assert result.data == {"stdout": "out\n", "stderr": "err\n", "exit_code": 7, "timed_out": False}
    assert set(result.metadata) == {"duration_ms"}


async def test_bash_starts_in_the_workspace_with_a_clean_environment(house: House) -> None:
    printed = await house.bash("pwd; echo $HOME $SCRATCH $WORKSPACE; env | cut -d= -f1 | sort | tr '\\n' ' '")
    scratch, workspace = house.context.scratch, house.context.workspace
    where, homes, names = printed.splitlines()
    assert (where, homes) == (str(workspace), f"{scratch} {scratch} {workspace}")
    assert set(names.split()) == {
        *("GIT_CONFIG_SYSTEM", "HOME", "LANG", "LOGNAME", "PATH", "PWD", "SCRATCH", "SHELL", "SHLVL"),
        *("TERM", "TMPDIR", "USER", "WORKSPACE", "_"),
    }


async def test_bash_in_another_folder(house: House) -> None:
    (house.home.workspace / "sub").mkdir()
    assert await house.bash("pwd", workdir="sub") == f"{house.home.workspace}/sub\n"
    assert await house.bash("pwd", workdir=str(house.context.scratch)) == f"{house.context.scratch}\n"
    outside = "workdir: /usr is outside the folders you may use"
    for workdir, told in (("/usr", outside), ("gone", "workdir: gone is not a folder")):
        result = await house.call("bash", command="pwd", workdir=workdir)
        assert told in (result.error_text or "")


async def test_what_commands_write_the_file_tools_read_and_the_other_way_round(house: House) -> None:
    await house.bash("mkdir -m 700 private; echo by bash > private/f; chmod 600 private/f")
    assert (await house.call("read", path="private/f")).data["content"] == "by bash\n"
    await house.call("edit", path="private/f", old_string="bash", new_string="edit")
    await house.call("write", path="new/f", content="by write\n")
    assert await house.bash("cat private/f new/f; echo more >> private/f; echo more >> new/f; touch new/g") == (
        "by edit\nby write\n"
    )
    assert (await house.call("grep", pattern="more")).data["matches"] == [
        {"path": "new/f", "line": 2, "text": "more"},
        {"path": "private/f", "line": 2, "text": "more"},
    ]


async def test_python_runs_and_the_packages_of_the_runtime_are_there(house: House) -> None:
    assert await house.python("import jsonschema, multiprocessing as m; m.Lock(); print('fine')") == "fine\n"


async def test_the_streams_can_be_opened_by_name(house: House) -> None:
    assert (
        await house.bash("echo out > /dev/stdout; echo err | tee /dev/stderr >/dev/null; cat /dev/stdin")
        == "out\nerr\n"
    )


@pytest.mark.parametrize("over", [0, 1])
async def test_the_boundary_of_bash(house: House, over: int) -> None:
    command = f"head -c 150000 /dev/zero | tr '\\0' o; head -c {54_800 + over} /dev/zero | tr '\\0' e >&2"
    result = await house.call("bash", command=command)
    assert ("truncated" in result.metadata) == bool(over)
    assert ("[... 1 bytes left out ...]" in result.data["stdout"]) == bool(over)
    assert result.data["stderr"] == "e" * (54_800 + over)
    if over:
        assert result.data["head"] == "o" * 2048
        read = await house.call("read", path=result.metadata["output_path"], unit="bytes", offset=204_799)
        assert read.data["total_bytes"] == 204_801
        assert await house.bash(f"f={result.metadata['output_path']}; printf mine > $f && cat $f") == "mine"


async def test_a_deadline_gives_an_output_that_says_so(house: House) -> None:
    result = await house.call("bash", command="echo begun; sleep 60", timeout_ms=1500)
    assert result.type == "output"
    assert result.data == {"stdout": "begun\n", "stderr": "", "exit_code": None, "timed_out": True}
    assert 1500 <= result.metadata["duration_ms"] < 30_000


async def test_the_default_deadline_is_the_setting(house: House) -> None:
    """Also where the gate's own deadline for tools is shorter: the answer keeps its shape."""
    tool = bash_tool(house.confinement, timeout=0.2, limits=SandboxLimits())
    result = await ToolGate(timeout=0.1).run(tool, {"command": "sleep 60"}, house.context)
    assert isinstance(result, ToolResult)
    assert result.data["timed_out"] is True


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": ""}, "command: minLength is 1"),
        ({"command": "a\0b"}, "command: must not contain null bytes"),
        ({"command": "x", "timeout_ms": 600_001}, "timeout_ms: maximum is 600000"),
        ({"command": "x", "timeout_ms": 1.5}, "timeout_ms: must be of type integer, not 1.5"),
        ({"command": "x" * 2**18}, "command: is longer than 120 KiB; put it into a file with write and run that"),
    ],
)
async def test_commands_that_cannot_be(house: House, arguments: dict[str, object], told: str) -> None:
    result = await house.call("bash", **arguments)
    assert result.error_text == told


async def test_output_that_is_not_text_is_replaced(house: House) -> None:
    result = await house.call("bash", command="printf 'caf\\xe9\\x00\\x07'")
    assert result.data["stdout"] == "caf\ufffd\0\a"


async def test_commands_of_one_step_run_side_by_side(house: House) -> None:
    met = "touch {}.there; until [ $(ls *.there | wc -l) -eq 4 ]; do sleep 0.05; done"
    async with asyncio.timeout(60):
        await asyncio.gather(*(house.bash(met.format(number)) for number in range(4)))


async def test_without_confinement_bash_says_so_and_the_rest_works(unconfined: House) -> None:
    result = await unconfined.call("bash", command="id")
    assert result.error_text == "commands cannot be run here: bubblewrap does not work (test)"
    assert result.metadata["kind"] == "unavailable"
    await unconfined.call("write", path="a.py", content="hello = 1\n")
    assert (await unconfined.call("glob", pattern="*.py")).data["entries"] == ["a.py"]
    assert len((await unconfined.call("grep", pattern="hello")).data["matches"]) == 1


# ---------------------------------------------------------------- glob and grep


async def test_found_files_are_named_as_read_takes_them(house: House) -> None:
    await house.call("write", path="src/one.py", content="import os\n")
    await house.call("write", path=f"{house.context.scratch}/two.py", content="import os\n")
    for arguments, names in [
        ({}, ["src/one.py"]),
        ({"path": "src"}, ["src/one.py"]),
        ({"path": str(house.context.scratch)}, [f"{house.context.scratch}/two.py"]),
    ]:
        entries = (await house.call("glob", pattern="*.py", **arguments)).data["entries"]
        matches = (await house.call("grep", pattern="import", **arguments)).data["matches"]
        assert entries == [match["path"] for match in matches] == names
        assert (await house.call("read", path=names[0])).data["content"] == "import os\n"
    absolute = await house.call("glob", pattern=f"{house.home.workspace}/src/*.py")
    assert absolute.data["entries"] == ["src/one.py"]
    assert (await house.call("grep", pattern="import", path="src/one.py")).data["matches"][0]["line"] == 1


@pytest.mark.parametrize("over", [0, 1])
async def test_the_boundaries_of_glob_and_grep(house: House, over: int) -> None:
    for number in range(1000 + over):
        (house.home.workspace / f"{number}.txt").write_text("x" if number < 200 + over else "")
    glob = await house.call("glob", pattern="*.txt")
    grep = await house.call("grep", pattern="x")
    assert (len(glob.data["entries"]), len(grep.data["matches"])) == (1000, 200)
    for result in (glob, grep):
        assert result.data["truncated"] == result.metadata.get("truncated", False) == bool(over)


async def test_a_listing_of_very_long_names_is_cut_to_size(house: House) -> None:
    folder = house.home.workspace / "/".join(["x" * 200] * 3)
    folder.mkdir(parents=True)
    for number in range(500):
        (folder / f"{number}").touch()
    result = await house.call("glob", pattern="*")
    assert result.metadata["truncated"]
    whole = await house.call("read", path=result.metadata["output_path"], unit="bytes", limit=100)
    assert "xxxx/" in whole.data["content"] + result.data["head"]
    assert result.data["total_bytes"] > 250_000


async def test_what_is_said_about_bash_is_true(unconfined: House) -> None:
    said = {spec.name: spec.description for spec in unconfined.tools.specs}["bash"]
    assert "no network" in said
    bare = await choose_confinement("off", unconfined.home.data_dir)
    house = furnish(unconfined.home, bare)
    assert "It is not confined." in {spec.name: spec.description for spec in house.tools.specs}["bash"]
    assert await house.bash("pwd") == f"{house.home.workspace}\n"


async def test_searches_that_cannot_be(house: House) -> None:
    await house.call("write", path="f", content="x")
    for name, arguments, told in [
        ("glob", {"pattern": "*", "path": "f"}, "path: is not a folder; look into its parent"),
        ("glob", {"pattern": "*", "path": ".."}, "outside the folders you may use"),
        ("grep", {"pattern": "x", "path": "gone"}, "path: there is no such file or folder"),
        ("grep", {"pattern": "x("}, "pattern: is not a regular expression"),
        ("glob", {"pattern": "{a,b}" * 20}, "more than 64 patterns"),
        ("glob", {"pattern": "!*.test.ts"}, "pattern: ! excludes nothing here"),
        ("grep", {"pattern": "x", "include": "*.ts, !*.test.ts"}, "include: ! excludes nothing here"),
        ("grep", {"pattern": "x", "include": "*.@(ts|tsx)"}, "include: write {a,b}"),
        ("glob", {"pattern": "part-{1..3}.txt"}, "pattern: .. in braces is no range here"),
    ]:
        result = await house.call(name, **arguments)
        assert told in (result.error_text or "")
        assert result.metadata["kind"] in ("invalid", "denied")


async def test_what_was_left_out_is_said(house: House) -> None:
    await house.bash("mkdir -p .git node_modules; touch .git/x; mkdir -m 0 locked")
    data = (await house.call("glob", pattern="**")).data
    assert data["entries"] == []
    assert data["left_out"] == [".git (skipped)", "locked (Permission denied)", "node_modules (skipped)"]


async def test_a_search_that_takes_too_long_says_what_to_do(house: House) -> None:
    await house.call("write", path="endless.py", content="while True: pass")
    endless = FileSearch(house.confinement, program=house.home.workspace / "endless.py", seconds=0.5)
    result = await ToolGate().run(grep_tool(endless), {"pattern": "x"}, house.context)
    assert isinstance(result, ToolResult)
    assert result.error_text == "the search took longer than 0.5 s; narrow the path or the pattern"


async def test_a_helper_that_dies_is_reported(house: House) -> None:
    dead = glob_tool(FileSearch(house.confinement, program=Path("/gone.py")))
    result = await ToolGate().run(dead, {"pattern": "*"}, house.context)
    assert isinstance(result, ToolResult)
    assert "the search ended with 2: " in (result.error_text or "")
    assert result.metadata["kind"] == "backend"


# ---------------------------------------------------------------- what the model is told


READING = {"read", "glob", "grep", "todo", "skill", "tool_search"}


def test_those_that_change_nothing_say_so(unconfined: House) -> None:
    assert {spec.name for spec in unconfined.tools.specs if spec.read_only} == READING
    assert {spec.name for spec in unconfined.tools.specs if spec.idempotent} == {*READING, "write"}


def test_root_commands_own_what_they_make(house: House) -> None:
    owner = house.home.workspace.stat().st_uid
    assert owner == (house.confinement.uid if os.geteuid() == 0 else os.geteuid())
