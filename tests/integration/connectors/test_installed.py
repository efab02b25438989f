"""Local servers as other products' configurations name them: what their programs need to see is found, or named."""

from __future__ import annotations

import json
import os
import venv
from pathlib import Path

import pytest

from agent_common.net import HostPatterns
from agent_runtime.connectors import Timeouts
from agent_runtime.connectors.config.config import LocalServer
from agent_runtime.connectors.config.installed_files import confinement_advice, find_installation

from .conftest import Grow
from .test_protocols import old

ONCE = Timeouts(first_wait=20, backoff=(30.0,))
NODE = """
const {greeting} = require("greeting");
const send = (id, result) => console.log(JSON.stringify({jsonrpc: "2.0", id, result}));
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method} = JSON.parse(line);
  if (method === "initialize")
    send(id, {protocolVersion: "2025-11-25", capabilities: {tools: {}}, serverInfo: {name: "node", version: "1"}});
  else if (method === "tools/list") send(id, {tools: [{name: "ok", inputSchema: {type: "object"}}]});
  else if (method === "tools/call") send(id, {content: [{type: "text", text: greeting}]});
  else if (id !== undefined) console.log(JSON.stringify({jsonrpc: "2.0", id, error: {code: -32601, message: "no"}}));
});
"""


@pytest.fixture(scope="module")
def venv_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a server as a module, and as a program of its own."""
    folder = tmp_path_factory.mktemp("project") / ".venv"
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "served.py").write_text(old())
    program = folder / "bin" / "served"
    program.write_text(f"#!{folder}/bin/python\nimport served\n")
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a package that needs another one, and a program that needs it too."""
    project = tmp_path_factory.mktemp("project")
    modules = project / "node_modules"
    for name, code in (("greeting", 'exports.greeting = "hello";'), ("served", NODE)):
        (modules / name).mkdir(parents=True)
        (modules / name / "package.json").write_text(json.dumps({"name": name, "main": "index.js"}))
        (modules / name / "index.js").write_text(f"#!/usr/bin/env node\n{code}")
    (modules / "served" / "index.js").chmod(0o755)
    (modules / ".bin").mkdir()
    (modules / ".bin" / "served").symlink_to("../served/index.js")
    (project / "build").mkdir()
    (project / "build" / "server.js").write_text(NODE)
    (project / "package.json").write_text("{}")
    project.chmod(0o755)
    return project


async def test_a_virtual_environment_is_seen(grow: Grow, venv_folder: Path) -> None:
    plant = grow(
        ONCE,
        module={"command": f"{venv_folder}/bin/python", "args": ["-m", "served"]},
        program={"command": f"{venv_folder}/bin/served"},
    )
    await plant.prepare()
    for name in ("module", "program"):
        assert plant.state(name).error is None
        assert await plant.value(f"{name}_ok") == "fine"


async def test_node_modules_are_seen(grow: Grow, node_folder: Path) -> None:
    plant = grow(ONCE, node={"command": f"{node_folder}/node_modules/.bin/served"})
    await plant.prepare()
    assert plant.state("node").error is None
    assert await plant.value("node_ok") == "hello"


async def test_a_script_that_is_not_seen_is_named_with_its_fix(grow: Grow, node_folder: Path) -> None:
    given = {"command": "node", "args": [f"{node_folder}/build/server.js"]}
    plant = grow(ONCE, node=given)
    await plant.prepare()
    missing = f'it cannot see {node_folder}/build/server.js; add "read": ["{node_folder}"]'
    assert missing in plant.state("node").error
    mended = grow(ONCE, node={**given, "read": [str(node_folder)]})
    await mended.prepare()
    assert mended.state("node").error is None
    assert await mended.value("node_ok") == "hello"


async def test_a_folder_that_is_closed_to_the_user_of_servers_is_named_with_its_fix(grow: Grow, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    (folder / "notes.txt").write_text("hello")
    given = {"command": "python3", "args": ["-c", f"open({str(folder / 'notes.txt')!r})"], "read": [str(folder)]}
    plant = grow(ONCE, notes=given)
    await plant.prepare()
    user = plant.confinement.uid
    if user is None:
        pytest.skip("servers run as the runtime itself, who owns the folder")
    wanted = f"read: {folder} is closed to user {user}, whom servers run as; run chmod o+rx {folder}, or give it to"
    assert wanted in plant.state("notes").error
    folder.chmod(0o705)
    mended = grow(ONCE, notes=given)
    await mended.prepare()
    assert "is closed to user" not in mended.state("notes").error


async def test_a_script_in_the_folder_that_it_runs_in(grow: Grow, node_folder: Path) -> None:
    plant = grow(ONCE, node={"command": "node", "args": ["build/server.js"]})
    await plant.prepare()
    assert 'args[0]: build/server.js is a relative path; add "cwd": its folder' in plant.state("node").error
    mended = grow(ONCE, node={"command": "node", "args": ["build/server.js"], "cwd": str(node_folder)})
    await mended.prepare()
    assert mended.state("node").error is None
    assert await mended.value("node_ok") == "hello"


async def test_the_agent_plants_no_code_in_a_server(grow: Grow, venv_folder: Path) -> None:
    """Python imports from the folder that it runs in before all others, and npx runs what it finds there."""
    given = {"command": f"{venv_folder}/bin/python", "args": ["-m", "served"], "env": {"NOTES_TOKEN": "secret"}}
    plant = grow(ONCE, it=given)
    for name in ("served", "json"):
        (plant.home.workspace / f"{name}.py").write_text("import sys; sys.exit('planted')")
    await plant.prepare()
    assert plant.state("it").error is None
    assert await plant.value("it_ok") == "fine"
    chosen = grow(ONCE, it={**given, "cwd": str(plant.home.workspace)})
    await chosen.prepare()
    assert "planted" in chosen.state("it").error, "the operator may choose the workspace all the same"


async def test_a_program_on_the_path_of_the_runtime_is_found(
    grow: Grow, venv_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{venv_folder}/bin:{os.environ['PATH']}")
    plant = grow(ONCE, it={"command": "served"})
    await plant.prepare()
    assert plant.state("it").error is None
    assert await plant.value("it_ok") == "fine"


async def test_what_is_beside_a_program_is_not_seen(grow: Grow, venv_folder: Path) -> None:
    """What it is installed in, and nothing of the project around that."""
    secret = venv_folder.parent / ".env"
    secret.write_text("KEY=1")
    code = f"import os, sys; sys.exit(str((os.path.exists({str(secret)!r}), os.listdir({str(venv_folder.parent)!r}))))"
    plant = grow(ONCE, it={"command": f"{venv_folder}/bin/python", "args": ["-c", code]})
    await plant.prepare()
    assert "(False, ['.venv'])" in plant.state("it").error


def told(where: LocalServer, workspace: Path) -> list[str]:
    return confinement_advice(where, find_installation(where, workspace.parent / "data", os.environ), workspace)


def test_programs_that_cannot_run_or_cannot_run_alone(tmp_path: Path) -> None:
    programs = {name: f"{tmp_path}/{name}" for name in ("npx", "docker")}
    for program in programs.values():
        Path(program).touch(mode=0o755)
    downloads = 'command: npx downloads what it runs; add "network": true, or install the program'
    assert told(LocalServer((programs["npx"], "-y", "served"), {}), tmp_path) == [downloads]
    assert told(LocalServer((programs["npx"], "-y", "served"), {}, HostPatterns.from_patterns(["*"])), tmp_path) == []
    [inside] = told(LocalServer((programs["docker"], "run"), {}), tmp_path)
    assert inside == "command: docker cannot be used from inside; run the container elsewhere and give its url"
    [gone] = told(LocalServer(("no-such-program",), {}), tmp_path)
    assert gone == "command: there is no program no-such-program; install it, or write its absolute path"


def test_all_that_a_server_cannot_read_is_named(tmp_path: Path) -> None:
    script, somebody = tmp_path / "server.py", os.geteuid() + 1
    script.touch(mode=0o600)
    (tmp_path / "cwd").mkdir(mode=0o710)
    (tmp_path / "read").mkdir(mode=0o704)
    for folder in (tmp_path, tmp_path / "open"):
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)
    where = LocalServer(
        ("python3", str(script)), {}, read=(tmp_path, tmp_path / "read", tmp_path / "open"), cwd=tmp_path / "cwd"
    )
    about = find_installation(where, tmp_path / "data", os.environ)
    closed = [line.partition(" is closed to ")[0] for line in confinement_advice(where, about, tmp_path, somebody)]
    assert closed == [f"read: {tmp_path}/read", f"cwd: {tmp_path}/cwd", f"args: {script}"]
    tmp_path.chmod(0o700)
    [*_, last] = confinement_advice(where, about, tmp_path, somebody, by_path=True)
    assert last.startswith("args: ")
    assert "; run chmod o+x /" in last, "a folder on the way to the script"
    assert "is closed to" not in "".join(confinement_advice(where, about, tmp_path, os.geteuid()))


def test_folders_that_are_arguments_are_named_too(tmp_path: Path) -> None:
    for name in ("workspace", "notes", "seen"):
        (tmp_path / name).mkdir()
    words = (f"--root={tmp_path}/notes", f"{tmp_path}/workspace", f"{tmp_path}/seen", "/usr", "/", "/no/such/file")
    given = LocalServer(("python3", *words), {}, read=(tmp_path / "seen",))
    assert told(given, tmp_path / "workspace") == [
        f'args: it cannot see {tmp_path}/notes; add "read": ["{tmp_path}/seen", "{tmp_path}/notes"],'
        " which is --read of `agent mcp add`"
    ]


PEEK = """
import os, sys
sys.exit(str([os.path.exists(path) for path in %r]))
"""


async def test_what_the_agent_writes_decides_not_what_a_server_sees(grow: Grow, tmp_path: Path) -> None:
    """The agent owns an environment whose program the operator has named, and the way to a folder that a server may
    read."""
    secret = tmp_path / "elsewhere" / "secrets"
    secret.mkdir(parents=True)
    (secret / "key").write_text("KEY=1")
    (secret / "python3").touch()
    seen = [str(secret / "key"), "/usr"]
    plant = grow(ONCE)
    project = plant.home.workspace / "venv"
    (project / "bin").mkdir(parents=True)
    (project / "bin" / "srv").write_text(f"#!/usr/bin/python3\n{PEEK % seen}")
    (project / "bin" / "srv").chmod(0o755)
    (project / "bin" / "linked").symlink_to(secret / "python3")
    (project / "pyvenv.cfg").write_text(f"home = {secret}\n")
    (plant.home.workspace / "docs").symlink_to(secret)
    (tmp_path / "way").symlink_to(plant.home.workspace / "docs")
    peek = {"command": "/usr/bin/python3", "args": ["-c", PEEK % seen]}
    attacked = grow(
        ONCE,
        program={"command": f"{project}/bin/srv"},
        read={**peek, "read": [str(plant.home.workspace / "docs")]},
        far={**peek, "read": [str(tmp_path / "way")]},
        cwd={**peek, "cwd": str(plant.home.workspace / "docs")},
        control={**peek, "read": [str(secret)]},
    )
    await attacked.prepare()
    assert "[False, True]" in attacked.state("program").error
    for name in ("read", "far", "cwd"):
        assert "[True, True]" not in attacked.state(name).error
    assert "read: " in attacked.state("far").error
    assert "[True, True]" in attacked.state("control").error
    linked = LocalServer((f"{project}/bin/linked",), {})
    changeable = (plant.home.workspace,)
    assert find_installation(linked, plant.home.data_dir, os.environ, changeable).folders == ()


async def test_what_was_found_first_stays(grow: Grow, tmp_path: Path) -> None:
    """A folder beside a program that comes later is not seen until the runtime starts again."""
    program, later = tmp_path / "app" / "bin" / "srv", tmp_path / "app" / "lib"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/usr/bin/python3\n{PEEK % [str(later)]}")
    program.chmod(0o755)
    plant = grow(Timeouts(first_wait=20, backoff=(0.05,)), srv={"command": str(program)})
    await plant.prepare()
    later.mkdir()
    plant.state("srv")
    target = LocalServer((str(program),), {})
    assert later in find_installation(target, plant.home.data_dir, os.environ).folders
    assert "[False]" in plant.state("srv").error
