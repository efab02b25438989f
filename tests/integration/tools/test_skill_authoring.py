"""The tools by which an agent extends itself: tried first, kept for good, undone when asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Folders, RequirementSet, Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.ports import HumanRequest, OutsideText, ToolResult
from agent_runtime.skills.authoring import MAX_CODE_LENGTH

from .school import School
from .test_skill_reload import greeting, said, says, states

MEDIAN = """
import statistics

@skill
def median(numbers: list[float]) -> float:
    \"\"\"The middle one of some numbers.\"\"\"
    return statistics.median(numbers)
"""


async def make(school: School, name: str, code: str, **more: Any) -> ToolResult:
    result = await school.call("create_skill", name=name, code=code, **more)
    school.look()
    return result


async def made(school: School, name: str, code: str, **more: Any) -> Any:
    result = await make(school, name, code, **more)
    assert result.type == "output", result.error_text
    return result.data


async def test_what_passes_is_a_tool_from_then_on(school: School) -> None:
    await school.teach()
    code = greeting("one")
    result = await make(school, "greet", code, test={})
    assert result.data == {
        "name": "greet",
        "file": "greet.py",
        "version": 1,
        "skills": [
            {
                "name": "greet",
                "description": "d",
                "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
            }
        ],
        "test": {"skill": "greet", "result": "one"},
    }
    assert result.added_tools == ("greet",)
    assert await said(school) == "one"
    assert (school.house.home.skills / "greet.py").read_text() == code
    await school.open(school.house.confinement)
    assert (await said(school), states(school)[0].version) == ("one", 1)


@pytest.mark.parametrize(
    ("name", "code", "test", "told"),
    [
        ("greet", "def f(:\n", None, "greet.py line 1: SyntaxError: invalid syntax"),
        ("greet", greeting("x") + "1 / 0\n", None, "greet.py line 4: ZeroDivisionError: division by zero"),
        ("greet", greeting("x"), {"a": 1}, "test: the arguments do not fit greet: a: no such field; there are: none"),
        ("greet", greeting("x").replace("'x'", "1 / 0"), {}, "test: greet failed: greet.py line 3 in greet: Zero"),
        ("greet", greeting("x"), {"arguments": {}, "expect": "y"}, "test: greet gave 'x', not 'y'"),
        ("greet", greeting("x"), {"arguments": {}, "skill": "z"}, "test.skill: name one of greet"),
        ("greet", greeting("x").replace("'x'", "exit(3)"), {}, "it called exit (3)"),
        ("greet", greeting("x").replace("'x'", "__import__('os')._exit(3)"), {}, "process ended (exit code 3)"),
        ("greet", greeting("x").replace("'d'", "'d', timeout=0.3").replace("return", "while 1: pass\n    return"), {},
         "test: greet did not finish within 0.3 s"),
        ("greet", greeting("x").replace("'x'", "object()"), {}, "test: greet failed: "),
        ("greet", greeting("x").replace("'x'", "'y' * 50_000_000"), {}, "test: greet failed: "),
        ("greet", greeting("x").replace("'x'", "bytearray(2 << 30)"), {}, "test: greet failed: "),
        ("greet", greeting("x") + "raise SystemExit(3)\n", None, "greet.py"),
        ("greet", greeting("x") + "__import__('os')._exit(3)\n", None, "greet.py"),
        ("greet", greeting("x") * 2, None, "greet.py"),
        ("greet", "x = 1\0\n", None, "greet.py"),
        ("greet", "x = 1\n", None, "greet.py declares no @skill"),
        ("greet", greeting("x", "bash"), None, "name: bash is a tool of the runtime; take another name"),
        ("bash", greeting("x"), None, "name: bash is a tool of the runtime; take another name"),
        ("list_skills", greeting("x"), None, "name: list_skills is a tool of the runtime"),
        ("../greet", greeting("x"), None, "name: '../greet' must be letters, digits and _"),
        ("a\nb", greeting("x"), None, r"name: 'a\nb' must be letters, digits and _"),
        ("_greet", greeting("x"), None, "name: '_greet' must be letters, digits and _, beginning with a letter"),
        ("other", greeting("x", "taken"), None, "name: taken is taken by taken.py; take another name"),
        ("greet", "#" * (MAX_CODE_LENGTH + 1), None, f"code: maxLength is {MAX_CODE_LENGTH}"),
        ("greet", "# \udc80", None, "code: character 2 is half of a character"),
    ],
)  # fmt: skip
async def test_what_does_not_pass_changes_nothing(school: School, name: str, code: str, test: Any, told: str) -> None:
    await school.teach(taken=greeting("t", "taken"))
    events = len(school.events)
    result = await make(school, name, code, **({"test": test} if test is not None else {}))
    assert (result.type, told in str(result.error_text)) == ("error", True), result.error_text
    assert result.metadata["kind"] == "invalid", "its author can mend it"
    assert [path.name for path in school.house.home.skills.iterdir()] == ["taken.py"]
    assert [one.file for one in states(school)] == ["taken.py"]
    assert len(school.events) == events
    result = await make(school, "greet", greeting("good"))
    assert (result.type, await said(school)) == ("output", "good")


async def test_a_wrong_version_leaves_the_good_one(school: School) -> None:
    await school.teach()
    await made(school, "greet", greeting("one"))
    before = school.tools
    assert (await make(school, "greet", greeting("two") + "1 / 0")).type == "error"
    assert (await said(school), (await made(school, "greet", greeting("two")))["version"]) == ("one", 2)
    assert await said(school) == "two"
    assert getattr(await before.run("greet", {}, school.house.context), "data", None) == "one"
    assert (await made(school, "greet.py", greeting("two")))["version"] == 2


async def test_every_version_is_kept_and_can_be_gone_back_to(school: School) -> None:
    await school.teach()
    for word in ("one", "two"):
        await made(school, "greet", greeting(word))
    (school.house.home.skills / "greet.py").write_text(greeting("by hand"))
    await says(school, "by hand")
    assert await school.value("remove_skill", name="greet") == {"name": "greet", "removed": True}
    assert (states(school), "there is no tool" in await said(school)) == ([], True)
    again = await school.call("remove_skill", name="greet")
    assert "there is no plugin greet.py; there are: none" in str(again.error_text)

    result = await school.call("reload_skills", name="greet", version=1)
    assert (result.data["version"], result.added_tools) == (5, ("greet",))
    assert await said(school) == "one"
    found = await school.value("list_skills", name="greet")
    assert [(one["version"], one["action"], one["by"]) for one in found["versions"]] == [
        (1, "created", "operator"),
        (2, "created", "operator"),
        (3, "saved", "the folder"),
        (4, "removed", "operator"),
        (5, "restored", "operator"),
    ]
    assert "-    return 'one'\n+    return 'two'\n" in found["versions"][1]["diff"]
    assert found["code"] == greeting("one")
    assert found["skills"] == [{"name": "greet", "file": "greet.py", "version": 5, "state": "active"}]
    copies = school.house.home.workspace / ".agents/skill-history/greet"
    assert sorted(path.name for path in copies.iterdir()) == [
        *("0001.diff", "0001.py", "0002.diff", "0002.py", "0003.diff", "0003.py", "0004.diff"),
        *("0005.diff", "0005.py"),
    ]
    assert (copies / "0003.py").read_text() == greeting("by hand")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("reload_skills", {"version": 1}, "name: is required with version"),
        ("reload_skills", {"name": "none"}, "name: there is no plugin none.py; there are: greet.py, pack"),
        ("reload_skills", {"name": "none", "version": 1}, "none.py has no version 1; there never was a plugin none.py"),
        ("reload_skills", {"name": "greet", "version": 9}, "version: greet.py has no version 9; there are 1 to 2"),
        ("reload_skills", {"name": "greet", "version": 0}, "version: minimum is 1"),
        ("list_skills", {"name": "none"}, "name: there never was a plugin none"),
        ("remove_skill", {}, "name: is required"),
        ("remove_skill", {"name": "pack"}, "there is no plugin pack.py; there are: greet.py, pack"),
    ],
)
async def test_what_cannot_be_is_told(school: School, tool: str, arguments: dict[str, Any], told: str) -> None:
    pack = school.house.home.skills / "pack"
    pack.mkdir(parents=True)
    (pack / "__init__.py").write_text(greeting("p", "packed"))
    await school.teach()
    await made(school, "greet", greeting("one"))
    await made(school, "greet", greeting("two"))
    result = await school.call(tool, **arguments)
    assert (result.type, told in str(result.error_text)) == ("error", True), result.error_text


async def test_a_reload_waits_for_the_verdicts(school: School) -> None:
    await school.teach()
    skills = school.house.home.skills
    (skills / "greet.py").write_text(greeting("one"))
    (skills / "bad.py").write_text("1 / 0")
    result = await school.call("reload_skills")
    assert result.data == {
        "skills": [
            {"name": "bad", "file": "bad.py", "version": 1, "state": "failed",
             "error": "bad.py line 1: ZeroDivisionError: division by zero"},
            {"name": "greet", "file": "greet.py", "version": 1, "state": "active"},
        ]
    }  # fmt: skip
    assert result.added_tools == ("greet",)


async def test_authors_who_come_at_once(school: School) -> None:
    await school.teach()
    results = await asyncio.gather(
        *(make(school, f"p{number % 4}", greeting(str(number), f"s{number % 4}")) for number in range(12)),
        *(make(school, f"q{number}", greeting("q", "same")) for number in range(3)),
    )
    assert [result.type for result in results[:12]] == ["output"] * 12
    assert sorted(result.type for result in results[12:]) == ["error", "error", "output"]
    assert sorted(one.file for one in states(school))[:4] == ["p0.py", "p1.py", "p2.py", "p3.py"]
    for number in range(4):
        numbers = [one["version"] for one in (await school.value("list_skills", name=f"p{number}"))["versions"]]
        assert numbers == [1, 2, 3]


async def test_a_folder_that_cannot_be_written_is_no_place_for_authors(school: School) -> None:
    await school.teach(greet=greeting("one"))
    (school.house.home.skills / "other.py").mkdir()  # no file takes its place, not even one of root's
    result = await make(school, "other", greeting("x", "other"))
    assert result.metadata["kind"] == "unavailable"
    assert "the folder of skills cannot be written here" in str(result.error_text)
    assert await said(school) == "one"


async def test_copies_in_the_workspace_follow_no_links(school: School, tmp_path: Path) -> None:
    await school.teach()
    (school.house.home.workspace / ".agents").symlink_to(tmp_path)
    await made(school, "greet", greeting("one"))
    assert not (tmp_path / "skill-history").exists()
    assert await said(school) == "one"


async def test_authors_of_one_plugin_come_at_once(school: School) -> None:
    """Whoever has waited for another one finds the place as that one has left it."""
    await school.teach(greet=greeting("one"))
    gone, _, last = await asyncio.gather(
        school.call("remove_skill", name="greet"),
        school.call("create_skill", name="greet", code=greeting("two"), test={"arguments": {}, "expect": "three"}),
        school.call("create_skill", name="greet", code=greeting("three"), test={}),
    )
    assert (gone.type, last.type) == ("output", "output"), (gone, last)
    school.look()
    assert await said(school) == "three"
    assert [(one.state, one.version) for one in states(school)] == [("active", last.data["version"])]
    again = await asyncio.gather(*(school.call("remove_skill", name="greet") for _ in range(3)))
    assert {one.type for one in again} <= {"output", "error"}
    school.look()
    assert states(school) == []


WRITER = """
@skill(name="writer", description="d")
def writer(*, workspace):
    (workspace / "written.txt").write_text("x")
"""
ALLOWED = Rule(permission="*", action="allow", source="manifest")
READS = RequirementSet(fs=Folders(read=["{workspace}"]), capabilities=["*"])


@pytest.mark.parametrize(
    "layer",
    [
        Layer(rules=(ALLOWED, Rule(permission="fs.write", action="deny", source="project"))),
        Layer(grant=READS, rules=(ALLOWED,)),
    ],
)
async def test_who_may_not_write_does_not_write_by_trying_code(school: School, layer: Layer) -> None:
    await school.teach()
    house = school.house
    school.house = replace(house, context=replace(house.context, authority=Authority((layer,))))
    result = await make(school, "writer", WRITER, test={})
    assert (result.type, result.metadata.get("kind")) == ("error", "denied")
    assert not (house.home.workspace / "written.txt").exists()


THEIRS = greeting("theirs")


async def as_user(school: School, tool: str, principal: str, *, outside: bool = False, **arguments: Any) -> Any:
    """What comes of a call with a rule that lets the agent change all plugins, and a person there."""
    rules = (Rule(permission="skills.author", pattern="*", action="allow"),)
    if pattern := arguments.pop("named", None):
        rules += (Rule(permission="skills.author", pattern=pattern, action="allow"),)
    context = replace(
        school.house.context,
        principal=principal,
        interactive=True,
        outside_text=OutsideText(outside),
        authority=Authority((Layer(rules=rules),)),
    )
    return await school.tools.run(tool, arguments, context)


CHANGES: dict[str, dict[str, Any]] = {
    "create_skill": {"name": "greet", "code": greeting("mine")},
    "remove_skill": {"name": "greet"},
    "reload_skills": {"name": "greet", "version": 1},
}


@pytest.mark.parametrize("tool", CHANGES)
async def test_a_plugin_of_people_is_changed_by_an_agent_only_if_it_is_named(school: School, tool: str) -> None:
    await school.teach(greet=THEIRS)
    for principal, outside in (("bob", False), ("operator", True)):
        asked = await as_user(school, tool, principal, outside=outside, **CHANGES[tool])
        assert isinstance(asked, HumanRequest), asked
        assert "a person has put this plugin into the folder" in asked.reason
        assert [(rule.permission, rule.pattern) for rule in asked.always] == [(tool, "greet")]
    assert (school.house.home.skills / "greet.py").read_text() == THEIRS
    named = await as_user(school, tool, "bob", named="greet", **CHANGES[tool])
    assert isinstance(named, ToolResult)
    assert named.type == "output", named.error_text


async def test_the_operators_own_agent_and_everybodys_own_plugins_need_no_question(school: School) -> None:
    await school.teach(greet=THEIRS)
    assert (await as_user(school, "reload_skills", "bob", name="greet")).type == "output", "it only looks"
    assert (await as_user(school, "create_skill", "operator", **CHANGES["create_skill"])).type == "output"
    for code in ("one", "two"):
        made = await as_user(school, "create_skill", "bob", name="wave", code=greeting(code).replace("greet", "wave"))
        assert made.type == "output", made.error_text


async def test_a_plugin_of_people_keeps_its_tools_names_over_a_restart(school: School) -> None:
    """The agent's plugin comes first by name, and declares the tool of the people's while that one is broken."""
    await school.teach(zoo=THEIRS)
    theirs = school.house.home.skills / "zoo.py"
    theirs.unlink()
    await school.call("reload_skills")
    await made(school, "aaa", greeting("mine"))
    theirs.write_text(THEIRS)
    await school.open(school.house.confinement)
    assert await said(school) == "theirs"
