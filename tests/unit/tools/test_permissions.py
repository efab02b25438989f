"""What a person's word is worth: for what it was given, and no more."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent_common.protocol import ArgPattern, Net, Program, RequirementSet, Rule
from agent_common.protocol.authority import ALL_GRANTED, Authority, Layer
from agent_runtime.ports import HumanRequest, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement, SandboxLimits
from agent_runtime.tools import Tool, ToolGate, choose_watchdog
from agent_runtime.tools.agent.task import task_tool
from agent_runtime.tools.bash.tool import bash_tool
from agent_runtime.tools.core.contract import AccessRequest
from agent_runtime.tools.files.glob_grep import FileSearch, glob_tool, grep_tool
from agent_runtime.tools.files.read import read_tool
from agent_runtime.workspace import PathLocks

from .doubles import answering

GATE = ToolGate(watchdog=choose_watchdog("reference"))
OPEN = Rule(permission="*", action="allow", source="manifest")


def bash() -> Tool:
    return bash_tool(Confinement(None), timeout=10, limits=SandboxLimits())


def under(context: ToolContext, *rules: Rule, **more: Any) -> ToolContext:
    return replace(context, authority=Authority((Layer(rules=(OPEN, *rules)),)), **{"interactive": True, **more})


def allowed(pattern: str) -> Rule:
    return Rule(permission="bash", pattern=pattern, action="allow", source="session")


async def asked(context: ToolContext, command: str) -> HumanRequest | None:
    """What a person is asked before the command runs; none: it ran."""
    answer = await GATE.run(bash(), {"command": command}, context)
    return answer if isinstance(answer, HumanRequest) else None


async def test_what_a_person_allowed_says_nothing_of_what_else_a_line_runs(context: ToolContext) -> None:
    within = under(context, allowed("echo *"))
    assert await asked(within, "echo; npm publish || true") is not None
    assert await asked(within, "npm publish || echo") is not None
    everything = under(context, allowed("echo *"), allowed("npm publish"))
    assert await asked(everything, "echo; npm publish || echo") is None


@pytest.mark.parametrize(
    "command", ["true " + "a" * 1000, "; ".join(f"true {'a' * 900}{number}" for number in range(50)), "true; " * 1900]
)
async def test_rules_that_take_long_to_compare_do_not_hold_up_the_event_loop(
    context: ToolContext, command: str
) -> None:
    several = under(context, *(allowed("?" * (600 + number) + "*") for number in range(200)))
    began = time.thread_time()
    await asked(several, command)
    assert time.thread_time() - began < 1, "it takes seconds in the thread of the event loop"


@pytest.mark.parametrize(
    ("asks", "argument"),
    [
        ("*", "".join(map(chr, range(0x4E00, 0x4E00 + 30_000)))),
        ("python3 *", "".join(map(chr, range(0xAC00, 0xAC00 + 11_000))) * 3),
        ("*", "x" * 110_000),
    ],
)
async def test_a_command_that_is_too_long_for_a_rule_is_asked_about_and_forgotten(
    context: ToolContext, asks: str, argument: str
) -> None:
    within = under(context, Rule(permission="bash", pattern=asks, action="ask", source="project"))
    held: list[int] = []
    tracemalloc.start()
    try:
        for number in range(3):
            wait = await asked(within, f"python3 -c {argument}{number}")
            assert wait is not None
            assert wait.always == ()
            del wait
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[-1] - held[0] < 100_000, "neither the texts stay, nor what was worked out about them"


@pytest.mark.parametrize(("stars", "patterns"), [(20, ["*x" * 20]), (21, [])])
async def test_a_rule_for_good_has_few_stars(context: ToolContext, stars: int, patterns: list[str]) -> None:
    asks = Rule(permission="read", pattern="*x" * stars, action="ask", source="project")
    wait = await GATE.run(read_tool(PathLocks()), {"path": "x" * 30}, under(context, asks))
    assert isinstance(wait, HumanRequest)
    assert [rule.pattern for rule in wait.always] == patterns


async def test_a_caller_s_person_has_not_spoken_to_those_it_calls(context: ToolContext) -> None:
    within = under(context, allowed("npm *"))
    called = replace(within, authority=within.authority.with_layer(Layer(rules=(OPEN,))))
    assert await asked(called, "npm publish || true") is not None


async def test_for_good_is_for_the_very_command_that_the_watchdog_asked_about(context: ToolContext) -> None:
    wait = await asked(under(context), "npm publish || true")
    assert wait is not None
    assert [(rule.permission, rule.pattern) for rule in wait.always] == [("bash", "npm publish"), ("bash", "true")]
    for_good = [Rule(**rule.model_dump(), source="session") for rule in wait.always]
    assert await asked(under(context, *for_good), "npm publish || true") is None
    assert await asked(under(context, *for_good), "git push --force || true") is not None


@pytest.mark.parametrize(
    ("asks", "command", "patterns"),
    [
        ("*", "git status && ls -l | xargs git add", ["git status", "ls *", "xargs git add", "git add {}"]),
        ("git push *", "git push origin main", ["git push origin main"]),
        ("echo push *", "echo push x", ["echo push *"]),
        ("*", "find . -name '*.py'", ["find . -name '?.py'"]),
        ("*", "for f in x; do ls $f; done", []),
        ("*", f"python3 -c '{'x' * 1000}'", []),
        ("*", "; ".join(f"git {number}" for number in range(11)), []),
    ],
)
async def test_for_good_is_never_more_than_the_command_can_do(
    context: ToolContext, asks: str, command: str, patterns: list[str]
) -> None:
    """`git *` would be any command that git can be made to run; what no rule is short enough for is allowed once."""
    wait = await asked(under(context, Rule(permission="bash", pattern=asks, action="ask", source="project")), command)
    assert wait is not None
    assert [rule.pattern for rule in wait.always] == patterns


async def test_what_no_program_is_named_in_is_denied_by_any_rule_that_denies(context: ToolContext) -> None:
    within = under(context, Rule(permission="bash", pattern="rm *", action="deny", source="manifest"))
    for command in ("$X -rf y", "eval $X", "a=rm; $a y", "sudo rm y; $Z", "if true; then rm y; fi", "xargs rm < y"):
        answer = await GATE.run(bash(), {"command": command}, within)
        assert isinstance(answer, ToolResult)
        assert answer.metadata["kind"] == "denied", command
        assert "a manifest rule for bash rm * forbids it" in (answer.error_text or "")
    assert await asked(within, 'for f in x; do echo "$f"; done') is None


async def test_a_refusal_says_what_makes_a_script_hard_to_tell(context: ToolContext) -> None:
    narrow = Layer(rules=(Rule(permission="bash", pattern="git status", action="allow", source="manifest"),))
    answer = await GATE.run(bash(), {"command": "A=1; git status"}, replace(context, authority=Authority((narrow,))))
    assert isinstance(answer, ToolResult)
    assert "; only one for * does, because `A=1` sets a variable" in (answer.error_text or "")


async def test_what_is_filled_in_is_only_allowed_by_rules_that_leave_the_end_open(context: ToolContext) -> None:
    for command, pattern, allows in (
        ("echo x*", "echo *", True),
        ("echo x*", "echo x*", True),
        ("echo *", "echo ?", False),
        ("echo x*.py", "echo *.py", False),
        ("echo x*", "echo y*", False),
        ("echo '*'", "echo ???", True),
    ):
        rule = Rule(permission="bash", pattern=pattern, action="allow", source="manifest")
        answer = await GATE.run(
            bash(), {"command": command}, replace(context, authority=Authority((Layer(rules=(rule,)),)))
        )
        assert isinstance(answer, ToolResult)
        assert (answer.metadata.get("kind") != "denied") == allows, command


async def test_text_that_is_none_can_be_asked_about(context: ToolContext) -> None:
    wait = await asked(under(context, Rule(permission="bash", action="ask", source="project")), "echo \ud800")
    assert wait is not None
    assert wait.always == ()
    nothing_said = replace(context, authority=Authority((Layer(rules=()),)), interactive=True)
    wait = await asked(nothing_said, "'/opt/\ud800' x")
    assert wait is not None


@pytest.mark.parametrize(
    ("command", "granted"),
    [
        ("git status", True),
        ("git status --short", False),
        ("git $(git status)", False),
        ("git sta*", False),
        ("git $X", False),
        ("echo *", True),
        ("cat x", False),
        ("eval git status", False),
    ],
)
async def test_a_grant_of_a_program_is_one_for_its_arguments_too(
    context: ToolContext, command: str, granted: bool
) -> None:
    programs = [Program(cmd="git", args=["status"]), Program(cmd="echo", args=[ArgPattern(wildcard=True)])]
    grant = ALL_GRANTED.model_copy(update={"shell": programs})
    within = replace(context, authority=Authority((Layer(grant, rules=(OPEN,)),)))
    answer = await GATE.run(bash(), {"command": command}, within)
    assert isinstance(answer, ToolResult)
    assert (answer.metadata.get("kind") != "denied") == granted, answer.error_text


async def test_nobody_is_asked_about_an_agent_whose_name_is_a_pattern(context: ToolContext) -> None:
    asks = replace(context, authority=Authority((Layer(rules=()),)), interactive=True)
    tool = task_tool((), timeout=10)
    named = await ToolGate().run(tool, {"subagent_type": "a-b_1", "prompt": "x"}, asks)
    assert isinstance(named, HumanRequest)
    assert [rule.pattern for rule in named.always] == ["a-b_1"]
    for name in ("*", "a?", "a b"):
        answer = await ToolGate().run(tool, {"subagent_type": name, "prompt": "x"}, asks)
        assert isinstance(answer, ToolResult)
        assert answer.metadata["kind"] == "invalid"


async def test_the_network_can_be_denied_to_a_tool_with_a_capability_of_its_own(context: ToolContext) -> None:
    tool = replace(answering("sent"), requires=RequirementSet(net=Net(hosts=["*"]), capabilities=["mail"]))
    assert await found(tool, under(context)) == "sent"
    offline = under(context, Rule(permission="net.fetch", action="deny", source="project"))
    answer = await ToolGate().run(tool, {}, offline)
    assert isinstance(answer, ToolResult)
    assert answer.metadata["kind"] == "denied"


async def found(tool: Tool, context: ToolContext, **arguments: Any) -> Any:
    answer = await ToolGate().run(tool, arguments, context)
    assert isinstance(answer, ToolResult)
    assert answer.type == "output", answer.error_text
    return answer.data


async def test_a_search_shows_nothing_that_somebody_must_be_asked_about(context: ToolContext) -> None:
    finder = FileSearch(Confinement(None))
    for name in ("open", "private"):
        (context.workspace / name).write_text("word\n")
    private = Rule(permission="fs.read", pattern="priv*", action="ask", source="project")
    # The rule that names the tool would be the more exact one.
    within = under(context, private)
    assert isinstance(await ToolGate().run(read_tool(PathLocks()), {"path": "private"}, within), HumanRequest)
    assert (await found(glob_tool(finder), within, pattern="*"))["entries"] == ["open"]
    lines = (await found(grep_tool(finder), within, pattern="word"))["matches"]
    assert [line["path"] for line in lines] == ["open"]
    said_yes = replace(within, approved=True)
    assert (await found(glob_tool(finder), said_yes, pattern="*"))["entries"] == ["open", "private"]


@pytest.mark.parametrize("literal", ["private", "other"])
async def test_an_escaped_choice_is_searched_whatever_a_file_holds_that_is_not_shown(
    context: ToolContext, literal: str
) -> None:
    (context.workspace / "open").write_text("import json\nTool\n")
    (context.workspace / literal).write_text("json|Tool\n")
    within = under(context, Rule(permission="fs.read", pattern="priv*", action="deny", source="project"))
    grep = grep_tool(FileSearch(Confinement(None)))
    for pattern in (r"json\|Tool", r"\(json\|Tool\)", r"Tool\|json"):
        data = await found(grep, within, pattern=pattern)
        if literal == "other" and pattern == r"json\|Tool":
            assert data == {"matches": [{"path": "other", "line": 1, "text": "json|Tool"}], "truncated": False}
        else:
            assert {match["path"] for match in data["matches"]} >= {"open"}
            assert "private" not in str(data)
            assert "write | for that" in data["note"]
    for pattern in (r"nothing\|neither", "nothing"):
        assert await found(grep, within, pattern=pattern) == {"matches": [], "truncated": False}


async def test_a_link_that_leads_elsewhere_since_the_gate_looked_is_not_followed(context: ToolContext) -> None:
    (context.workspace / "open").write_text("open")
    (context.workspace / "private").write_text("private")
    (context.workspace / "link").symlink_to("open")
    within = under(context, Rule(permission="fs.read", pattern="priv*", action="ask", source="project"))
    tool = read_tool(PathLocks())
    look = tool.describe_access
    assert look is not None

    async def then_swapped(arguments: Mapping[str, Any], context: ToolContext) -> AccessRequest:
        reach = await look(arguments, context)
        (context.workspace / "link").unlink()
        (context.workspace / "link").symlink_to("private")
        return reach

    answer = await ToolGate().run(replace(tool, describe_access=then_swapped), {"path": "link"}, within)
    assert isinstance(answer, ToolResult)
    assert (answer.type, answer.metadata["kind"]) == ("error", "denied")
