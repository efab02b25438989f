"""A denied file is read neither from the copies that the runtime keeps, which no tool changes, nor in another way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, assert_problem, fresh

SECRET = "rotated-but-still-good"
AGENT = {
    "mode": "all",
    "permissions": [
        {"permission": "*", "pattern": "*", "action": "allow"},
        {"permission": "fs.read", "pattern": "secrets/*", "action": "deny"},
        {"permission": "fs.read", "pattern": "*/skills/hidden*", "action": "deny"},
        {"permission": "fs.read", "pattern": "**/*.key", "action": "deny"},
        {"permission": "fs.read", "pattern": ".agents/skills/inner/*", "action": "deny"},
    ],
}
SKILL = "from agent_runtime.skills import skill\n\n\n@skill\ndef {name}() -> str:\n    {doc!r}\n    return 'x'\n"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("copies")
    with ScriptedProvider() as provider, Runtime(provider, folder) as runtime:
        (folder / "agents").mkdir(exist_ok=True)
        (folder / "agents" / "careful.json").write_text(json.dumps(AGENT))
        for name in ("secrets/key.md", "open/note.md"):
            for content in (f"first {SECRET}\n", "second\n"):
                assert runtime.http.put(f"/workspace/{name}", content=content).status_code in (201, 204)
        for name in ("hidden", "shown"):
            made = call(runtime, "create_skill", agent="default", name=name, code=SKILL.format(name=name, doc=SECRET))
            assert made["state"] == "output-available", made
        yield runtime


def call(runtime: Runtime, tool: str, *, agent: str = "careful", **arguments: Any) -> dict[str, Any]:
    """One call of a tool and what came of it."""
    runtime.provider.script.replace([Call(tool, arguments), Say("over")])
    reply = runtime.chat("work", session_id=fresh("s"), agent=agent)
    assert reply.status_code == 200, reply.text
    return reply.json()["tool_outputs"][0]


def copies(agent: Runtime, below: str) -> list[str]:
    workspace = agent.data_dir / "workspace"
    found = [str(path.relative_to(workspace)) for path in (workspace / below).rglob("*") if path.is_file()]
    assert found, f"nothing was kept below {below}"
    return found


@pytest.mark.parametrize("below", [".backups/secrets", ".agents/skill-history/hidden"])
def test_what_is_denied_is_not_read_from_its_copies(agent: Runtime, below: str) -> None:
    for copy in copies(agent, below):
        for name in (copy, f"./{copy}", str(agent.data_dir / "workspace" / copy), copy.replace("/", "/../x/../", 1)):
            output = call(agent, "read", path=name)
            assert output["state"] == "output-error", name
        for tool, arguments in (
            ("grep", {"path": copy}),
            ("grep", {"path": below}),
            ("grep", {"include": f"{below}/**"}),
        ):
            output = call(agent, tool, pattern=SECRET, **arguments)
            assert SECRET not in json.dumps(output["output"]), arguments
    listed = call(agent, "glob", pattern=f"{below.split('/', maxsplit=1)[0]}/**")
    assert not [name for name in listed["output"]["data"]["entries"] if name.startswith(below)]


def test_a_link_to_a_denied_copy_is_not_read(agent: Runtime) -> None:
    workspace = agent.data_dir / "workspace"
    (workspace / "innocent").symlink_to(workspace / ".backups" / "secrets")
    for copy in copies(agent, ".backups/secrets"):
        name = copy.replace(".backups/secrets", "innocent", 1)
        assert call(agent, "read", path=name)["state"] == "output-error"


def test_a_search_knows_a_file_by_all_names_that_rules_use(agent: Runtime) -> None:
    """As `read` does: `**/NAME` means the file at the top too."""
    assert agent.http.put("/workspace/top.key", content=f"{SECRET}\n").status_code in (201, 204)
    assert call(agent, "read", path="top.key")["state"] == "output-error"
    assert SECRET not in json.dumps(call(agent, "grep", pattern=SECRET, include="*.key")["output"])
    assert "top.key" not in call(agent, "glob", pattern="*.key")["output"]["data"]["entries"]


def test_a_search_tells_nothing_of_what_a_denied_file_says(agent: Runtime) -> None:
    """Of a file with thousands of lines, `truncated` told whether a pattern fits them, and they took all places."""
    workspace = agent.data_dir / "workspace"
    (workspace / "secrets" / "many.md").write_text(f"{SECRET}: giraffe\n" * 3000)
    with (workspace / "secrets" / "large.md").open("wb") as file:
        file.truncate(51 * 2**20)
    assert agent.http.put("/workspace/zoo.txt", content="giraffe\n").status_code in (201, 204)
    for pattern, fits in (("giraffe", ["zoo.txt"]), (SECRET, []), ("no-such-word", [])):
        data = call(agent, "grep", pattern=pattern, include="{secrets/*,*.txt}")["output"]["data"]
        assert [match["path"] for match in data["matches"]] == fits
        assert not data["truncated"]
        assert "large.md" not in json.dumps(data)
    assert call(agent, "memory_search", query="giraffe")["output"]["data"]["results"] == []


def test_instructions_of_a_package_that_is_denied_are_not_loaded(agent: Runtime) -> None:
    for name in ("inner", "outer"):
        text = f"---\nname: {name}\ndescription: Tells a secret\n---\n{SECRET}\n"
        assert agent.http.put(f"/workspace/.agents/skills/{name}/SKILL.md", content=text).status_code == 201
    assert SECRET not in json.dumps(call(agent, "skill", name="inner")["output"])
    assert SECRET in json.dumps(call(agent, "skill", name="outer")["output"])


@pytest.mark.parametrize("below", [".backups/open", ".agents/skill-history/shown"])
def test_other_copies_are_read_as_before(agent: Runtime, below: str) -> None:
    texts = [call(agent, "read", path=copy)["output"]["data"]["content"] for copy in copies(agent, below)]
    assert any(SECRET in text for text in texts)
    assert SECRET in json.dumps(call(agent, "grep", pattern=SECRET, path=below)["output"])


@pytest.mark.parametrize("folder", [".backups/open", ".agents/skill-history/shown", "innocent-2", "innocent-3"])
def test_no_tool_and_no_caller_changes_a_copy(agent: Runtime, folder: str) -> None:
    workspace = agent.data_dir / "workspace"
    for link, target in (("innocent-2", ".backups/open"), ("innocent-3", ".agents/skill-history/shown")):
        if not (workspace / link).is_symlink():
            (workspace / link).symlink_to(workspace / target)
    real = str((workspace / folder).resolve().relative_to(workspace))
    before = {copy: (workspace / copy).read_bytes() for copy in copies(agent, real)}
    for copy in before:
        name = copy.replace(real, folder, 1)
        for tool, arguments in (
            ("write", {"content": "forged"}),
            ("edit", {"old_string": SECRET, "new_string": "forged"}),
        ):
            output = call(agent, tool, agent="default", path=name, **arguments)
            assert output["state"] == "output-error", (tool, name)
        status, code = (409, "not_a_folder") if folder.startswith("innocent") else (403, "read_only")
        assert_problem(agent.http.put(f"/workspace/{name}", content="forged"), status, code)
    assert call(agent, "write", agent="default", path=f"{folder}/new/file", content="x")["state"] == "output-error"
    assert {copy: (workspace / copy).read_bytes() for copy in copies(agent, real)} == before
