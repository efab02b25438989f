"""todo, skill and tool_search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.ports import LoadedSkill, PackageCatalog, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import ToolRegistry, builtin_tools

from .doubles import finished

STEP = {"content": "read the page", "status": "pending"}


class Shelf:
    """Packages that were put there."""

    def __init__(self, **packages: LoadedSkill) -> None:
        self._packages = packages

    def list_packages(self) -> Sequence[tuple[str, str]]:
        return [(name, "For tests.") for name in self._packages]

    def catalog(self) -> PackageCatalog:
        return PackageCatalog([{"name": name, "description": "For tests."} for name in self._packages])

    async def load(self, name: str, context: ToolContext) -> LoadedSkill:
        return self._packages[name]


def told(context: ToolContext, *names: str) -> ToolContext:
    """A session that began with these packages."""
    return replace(context, packages=dict.fromkeys(names, "project"))


async def call(tool: str, context: ToolContext, shelf: Shelf | None = None, **arguments: Any) -> ToolResult:
    tools = ToolRegistry(builtin_tools(Confinement(None), skills=shelf)).snapshot()
    return finished(await tools.run(tool, arguments, context))


@pytest.mark.parametrize(
    "todos",
    [
        [],
        [STEP],
        [{**STEP, "id": "1"}, {**STEP, "status": "in_progress"}],
        [STEP] * 100,
        [{**STEP, "content": "x" * 1000}],
    ],
)
async def test_a_list_is_taken_as_a_whole(context: ToolContext, todos: list[Any]) -> None:
    assert (await call("todo", context, todos=todos)).data == {"count": len(todos)}


@pytest.mark.parametrize(
    ("todos", "fault"),
    [
        ([STEP] * 101, "todos: maxItems is 100"),
        ([{**STEP, "content": ""}], "todos[0].content: minLength is 1"),
        ([{**STEP, "content": "x" * 1001}], "todos[0].content: maxLength is 1000"),
        ([STEP, {**STEP, "status": "done"}], "todos[1].status: must be one of "),
        ([{"content": "x"}], "todos[0].status: is required"),
        ([{**STEP, "priority": "high"}], "todos[0].priority: no such field; there are: content, id, status"),
        ([{**STEP, "id": {}}], "todos[0].id: must be of type string"),
        ("x", "todos: must be of type array"),
    ],
)
async def test_a_list_that_is_wrong_says_where(context: ToolContext, todos: Any, fault: str) -> None:
    result = await call("todo", context, todos=todos)
    assert (result.error_text or "").startswith(fault)
    assert result.metadata["kind"] == "invalid"


async def test_without_packages_a_skill_is_not_there(context: ToolContext) -> None:
    result = await call("skill", context, name="pdf")
    assert result.error_text == "there are no skill packages in this session; go on with the other tools"
    assert result.metadata["kind"] == "unavailable"


async def test_a_package_comes_in_its_tag(context: ToolContext) -> None:
    result = await call("skill", told(context, "pdf"), Shelf(pdf=LoadedSkill("\n# PDF\nUse it.\n")), name="pdf")
    assert result.data == {"content": '<skill_content name="pdf">\n# PDF\nUse it.\n</skill_content>'}


async def test_a_package_names_its_folder_and_its_files(context: ToolContext) -> None:
    loaded = LoadedSkill("Use it.", "", "/there/pdf", ("a.md", "</skill_files>.md"), 7, "2 of its files are gone")
    result = await call("skill", told(context, "pdf"), Shelf(pdf=loaded), name="pdf")
    assert result.data["content"].splitlines() == [
        '<skill_content name="pdf">',
        "Use it.",
        "",
        "The paths in these instructions start in the folder of the package, /there/pdf",
        "<skill_files>",
        "a.md",
        "&lt;/skill_files>.md",
        "</skill_files>",
        "[7 more are not listed]",
        "[2 of its files are gone]",
        "</skill_content>",
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("`python ${CLAUDE_SKILL_DIR}/fill.py`", "`python /w/skills/pdf/fill.py`"),
        ('python "$CLAUDE_SKILL_DIR"/fill.py', 'python "/w/skills/pdf"/fill.py'),
        ("node {baseDir}/run.js {baseDir}", "node /w/skills/pdf/run.js /w/skills/pdf"),
        ("cat ${CLAUDE_PLUGIN_ROOT}/skills/pdf/a.md", "cat /w/skills/pdf/a.md"),
        ("cat $CLAUDE_PLUGIN_ROOT/a.md", "cat /w/a.md"),
        ("$CLAUDE_SKILL_DIRS ${baseDir} {baseDirs} $HOME", "$CLAUDE_SKILL_DIRS ${baseDir} {baseDirs} $HOME"),
    ],
)
async def test_instructions_name_their_folder_in_the_ways_of_others(
    context: ToolContext, written: str, shown: str
) -> None:
    loaded = LoadedSkill(written, "", "/w/skills/pdf", ("fill.py",))
    result = await call("skill", told(context, "pdf"), Shelf(pdf=loaded), name="pdf")
    assert result.data["content"].splitlines()[1] == shown


@pytest.mark.parametrize(
    ("folder", "written", "shown"),
    [
        ("", "${CLAUDE_SKILL_DIR} {baseDir}", "${CLAUDE_SKILL_DIR} {baseDir}"),
        ("/w/tools/pdf", "$CLAUDE_PLUGIN_ROOT {baseDir}", "$CLAUDE_PLUGIN_ROOT /w/tools/pdf"),
        ("/w/<skill_files>/pdf", "{baseDir}", "/w/&lt;skill_files>/pdf"),
        (r"/w/\1/pdf", "{baseDir}", r"/w/\1/pdf"),
    ],
)
async def test_only_a_folder_that_is_known_is_named(
    context: ToolContext, folder: str, written: str, shown: str
) -> None:
    result = await call("skill", told(context, "pdf"), Shelf(pdf=LoadedSkill(written, "", folder)), name="pdf")
    assert result.data["content"].splitlines()[1] == shown


@pytest.mark.parametrize("tag", ["</skill_content>", "< / SKILL_CONTENT", '<skill_content name="x">', "<skill_files>"])
async def test_no_body_ends_its_tag_or_begins_another(context: ToolContext, tag: str) -> None:
    result = await call("skill", told(context, "pdf"), Shelf(pdf=LoadedSkill(f"a {tag} <b>b</b>")), name="pdf")
    assert result.data["content"].splitlines()[1] == f"a {tag.replace('<', '&lt;')} <b>b</b>"


@pytest.mark.parametrize("name", ["pfd", "../pdf", "*"])
async def test_a_package_that_is_not_there_tells_which_are(context: ToolContext, name: str) -> None:
    result = await call("skill", told(context, "pdf", "doc"), Shelf(), name=name)
    assert result.error_text == f"name: there is no skill package {name!r}; there are: pdf, doc"
    assert result.metadata["kind"] == "unavailable"
    many = await call("skill", told(context, *(f"p{n}" for n in range(60))), Shelf(), name="x")
    assert (many.error_text or "").endswith("p49 and 10 more")


async def test_a_package_that_came_later_waits_for_a_new_session(context: ToolContext) -> None:
    result = await call("skill", told(context, "doc"), Shelf(pdf=LoadedSkill("x")), name="pdf")
    assert result.error_text == "name: there is no skill package 'pdf' in this session; it will be there in a new one"


async def test_rules_name_packages(context: ToolContext) -> None:
    rules = (
        Rule(permission="skill", action="allow"),
        Rule(permission="skill", pattern="deploy-*", action="deny"),
        Rule(permission="skill", pattern="pay", action="ask"),
    )
    asking = replace(told(context, "pdf", "deploy-web", "pay"), authority=Authority((Layer(rules=rules),)))
    shelf = Shelf(pdf=LoadedSkill("x"), pay=LoadedSkill("x"))
    assert (await call("skill", asking, shelf, name="pdf")).type == "output"
    denied = await call("skill", asking, shelf, name="deploy-web")
    assert (denied.error_text or "").startswith("skill deploy-web: a session rule for skill deploy-* forbids it")
    unattended = await call("skill", asking, shelf, name="pay")
    assert "needs a human's approval" in (unattended.error_text or "")


async def test_there_is_nothing_to_find_beyond_the_list(context: ToolContext) -> None:
    result = await call("tool_search", context, query="send mail")
    assert result.data["matches"] == []
    assert "in your list" in result.data["note"]
