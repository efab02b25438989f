"""What a plugin has was given to code that somebody has seen, and to its author: other packages, other authors, another
place of an index, and whoever reads the list of processes get nothing of it."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent_testing import Call, LiveProcess, Say, ScriptedProvider
from tests.e2e.live import PATIENCE, TOKEN, Runtime, eventually, fresh
from tests.integration.tools.package_index import PackageIndex, package_index

SECRET, PASSWORD = "skill-canary-7711", "index-canary-80@13"
KEEN = """
# /// script
# requires-python = ">=3.11"
# dependencies = ["loud>=1"]
# ///
import os
import loud

@skill
def shout() -> str:
    '''Say it loud.'''
    return loud.shout("hello " + os.environ.get("SKILL_KEY", "nobody"))
"""
HONEST = {"loud.py": "def shout(text): return text.upper()\n"}
EVIL = {"loud.py": "import os\ndef shout(text): return 'stolen ' + os.environ.get('SKILL_KEY', 'nothing')\n"}
WEATHER = "@skill\ndef weather() -> str:\n    '''Tell the weather.'''\n    return '{}'\n"
OPEN = "description: Asks for nothing.\nmode: all\npermissions: {'*': allow}\n"


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        index.add("loud", "1.0", HONEST)
        yield index


def write(data: Path, **plugins: str) -> Path:
    """Have people put these plugins into a data folder, with an agent that may do everything. Return the folder."""
    for folder in ("skills", "agents"):
        (data / folder).mkdir(parents=True)
    for name, code in plugins.items():
        (data / "skills" / f"{name}.py").write_text(code)
    (data / "agents" / "open.yaml").write_text(OPEN)
    return data


def verdict(agent: Runtime) -> dict[str, Any]:
    """The one plugin, once it has been tried."""

    def tried() -> dict[str, Any] | None:
        found = agent.get("/capabilities").json()["skills"]
        return found[0] if found and found[0]["state"] in ("active", "failed") else None

    return eventually(tried)


def call(agent: Runtime, tool: str, user: str = "alice", **arguments: Any) -> tuple[int, str]:
    """Have the open agent call a tool for somebody. Return the status and the whole answer."""
    agent.provider.script.replace([Call(tool, arguments), Say("done")])
    with agent.client(Authorization=f"Bearer {TOKEN}", **{"X-Agent-User": user}) as person:
        reply = person.post("/chat", json={"message": "go", "session_id": fresh("s"), "agent": "open"})
    return reply.status_code, reply.text


def forget_packages(agent: Runtime) -> None:
    """As a move to another machine does: what is installed must be installed again."""
    for environment in (agent.data_dir / "skill-environments").iterdir():
        shutil.rmtree(environment)


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_other_code_than_was_allowed_gets_no_secret(
    provider: ScriptedProvider, index: PackageIndex, tmp_path: Path, version: str
) -> None:
    """A newer version of a dependency, and another build of the same one."""
    given = {"AGENT_SKILL_INDEX": index.url, "SKILL_KEY": SECRET}
    agent = Runtime(provider, write(tmp_path, shout=KEEN), **given)
    plugin = str(tmp_path / "skills" / "shout.py")
    allow = [sys.executable, "-m", "agent_runtime", "skill", "allow", plugin, "--secret", "SKILL_KEY"]
    with LiveProcess(allow, agent.env) as process:
        assert process.wait(PATIENCE) == 0, process.output()
    with agent:
        assert verdict(agent)["state"] == "active"
        assert f"HELLO {SECRET.upper()}" in call(agent, "shout")[1]
        forget_packages(agent)
        index.add("loud", version, EVIL)
        agent.start()
        found = verdict(agent)
        assert "stolen" not in call(agent, "shout")[1]
    assert "its dependencies are not the packages that the operator has allowed" in str(found.get("error"))


CHANGES: dict[str, dict[str, Any]] = {
    "create_skill": {"name": "weather", "code": WEATHER.format("version 2")},
    "remove_skill": {"name": "weather"},
    "reload_skills": {"name": "weather", "version": 1},
}


@pytest.mark.parametrize("tool", CHANGES)
def test_a_plugin_of_people_is_not_changed_by_anybodys_agent(
    provider: ScriptedProvider, tmp_path: Path, tool: str
) -> None:
    code = WEATHER.format("version 1")
    with Runtime(provider, write(tmp_path, weather=code)) as agent:
        assert verdict(agent)["state"] == "active"
        assert call(agent, tool, "bob", **CHANGES[tool])[0] == 202, "a person is asked"
        assert (tmp_path / "skills" / "weather.py").read_text() == code
        assert "version 1" in call(agent, "weather")[1]


def test_a_plugin_of_an_agent_is_one_after_a_restart_too(
    provider: ScriptedProvider, index: PackageIndex, tmp_path: Path
) -> None:
    given = {"AGENT_SKILL_INDEX": index.url, "AGENT_SKILL_DEPENDENCIES": "all"}
    with Runtime(provider, write(tmp_path), **given) as agent:
        assert call(agent, "create_skill", "bob", name="shout", code=KEEN)[0] == 200
        assert verdict(agent)["state"] == "active"
        forget_packages(agent)
        agent.env["AGENT_SKILL_DEPENDENCIES"] = "people"
        asked = len(index.asked)
        agent.start()
        assert "the operator allows it with AGENT_SKILL_DEPENDENCIES=all" in str(verdict(agent).get("error"))
        assert index.asked[asked:] == []


@pytest.mark.parametrize("way", ["redirect", "redirected-file", "link"])
def test_an_index_sends_nobody_to_another_port_of_its_machine(
    provider: ScriptedProvider, index: PackageIndex, tmp_path: Path, way: str
) -> None:
    with package_index() as neighbour:
        neighbour.add("loud", "1.0", HONEST)
        elsewhere = neighbour.url.removesuffix("/simple")
        [file] = index.files
        if way == "redirect":
            index.moved["/simple/loud/"] = f"{elsewhere}/simple/loud/"
        elif way == "redirected-file":
            index.moved[f"/files/{file}"] = f"{elsewhere}/files/{file}"
        else:
            index.page = lambda path: f'<a href="{elsewhere}/files/{file}">{file}</a>'.encode()
        with Runtime(provider, write(tmp_path, shout=KEEN), AGENT_SKILL_INDEX=index.url) as agent:
            assert "cannot be installed" in str(verdict(agent).get("error"))
        assert index.asked, "it was the index that sent it there"
        assert neighbour.asked == []


@pytest.mark.parametrize("setting", ["AGENT_SKILL_INDEX", "AGENT_SKILL_INDEX_FILE"])
def test_no_list_of_processes_shows_the_password_of_the_index(
    provider: ScriptedProvider, index: PackageIndex, tmp_path: Path, setting: str
) -> None:
    """The index answers nothing, so that the program that asks it can be looked at."""
    go_on = threading.Event()
    index.page = lambda path: b"" if go_on.wait(PATIENCE) else None
    url = index.url.replace("//", f"//reader:{quote(PASSWORD)}@")
    (file := tmp_path / "index").write_text(f"{url}\n")
    given = {setting: file if setting.endswith("_FILE") else url}
    try:
        with Runtime(provider, data := write(tmp_path / "data"), **given) as agent:
            (data / "skills" / "shout.py").write_text(KEEN)
            eventually(lambda: index.asked)
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
            assert any(b"uv\0pip\0install\0" in line for line in lines), "it is there to be looked at"
            secrets = (PASSWORD.encode(), quote(PASSWORD).encode())
            shown = [line.split(b"\0")[0] for line in lines if any(secret in line for secret in secrets)]
            assert shown == []
            assert agent.get("/healthz").status_code == 200
    finally:
        go_on.set()
