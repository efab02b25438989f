"""Policy files of the watchdog: what they say, and what is wrong with them."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import StartError
from agent_runtime.tools.watchdog.policy_file import load_policy, parse_policy, pattern_fault

RULE = """\
tool.before:
  - tool: bash
    agent: "b*"
    command: ["rm *", "dd *"]
    pipeline: "a | b"
    writes: /etc/*
    argument: {workdir: "/x*"}
    pattern: "(?i)a{0,3}b"
    action: ask
    reason: Not this.
"""


def test_a_rule_is_read() -> None:
    (rule,) = parse_policy(RULE, "p")
    assert (rule.tool, rule.agent, rule.action, rule.reason) == ("bash", "b*", "ask", "Not this.")
    assert (rule.command, rule.pipeline, rule.writes) == (("rm *", "dd *"), ("a | b",), ("/etc/*",))
    assert rule.argument == {"workdir": ("/x*",)}
    assert rule.pattern == re.compile("(?i)a{0,3}b")
    assert parse_policy("tool.before: []", "p") == ()


RIGHT = "  - {tool: read, action: deny, reason: no}\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "p:1: the file: must be a mapping of tool.before"),
        ("- a", "p:1: the file: must be a mapping of tool.before"),
        ("tool.after: []", "p:1: the file.tool.after: no such field; there are: tool.before"),
        ("tool.before: x", "p:1: tool.before: must be a list of rules"),
        ("a: [", "p:1: is not YAML: "),
        ("tool.before:\n  - x", "p:2: tool.before[0]: must be a mapping of tool, agent, "),
        ("tool.before:\n  - {tool: read, action: deny}", "p:2: tool.before[0].reason: is required"),
        (f"tool.before:\n{RIGHT}  - {{action: deny, reason: x}}", "p:3: tool.before[1].tool: is required"),
        (RULE.replace("action: ask", "action: allow"), "p:9: tool.before[0].action: must be deny or ask, not 'allow'"),
        (RULE.replace("agent:", "agnet:"), "p:3: tool.before[0].agnet: no such field; there are: tool, agent, "),
        (RULE.replace("agent:", "tool:"), "p:3: tool.before[0].tool: is there twice; keep one"),
        (RULE.replace("Not this.", ""), "p:10: tool.before[0].reason: must be a text that is not empty"),
        (RULE.replace('"a | b"', "[]"), "p:5: tool.before[0].pipeline: must be a glob or a list of globs"),
        (RULE.replace('"rm *"', "[x]"), "p:4: tool.before[0].command[0]: must be a text that is not empty"),
        (RULE.replace("tool: bash", "tool: '*'"), "p:4: tool.before[0].command: is for shell commands; set tool: bash"),
        (RULE.replace("a{0,3}b", "a+b"), "p:8: tool.before[0].pattern: '+' has no end; write how often at most"),
        (RULE.replace("a{0,3}b", "a(b"), "p:8: tool.before[0].pattern: is not a regular expression: "),
        (
            RULE.replace('{workdir: "/x*"}', "x"),
            "p:7: tool.before[0].argument: must be a mapping of arguments to globs",
        ),
    ],
)
def test_a_fault_names_its_line_its_field_and_the_fix(text: str, fault: str) -> None:
    with pytest.raises(StartError) as error:
        parse_policy(text, "p")
    assert error.value.message.startswith(fault)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(StartError) as error:
        parse_policy(RULE.replace("agent:", "agnet:").replace("ask", "allow").replace("a{0,3}b", "a*"), "p")
    assert len(error.value.message.split("\n")) == 3


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "x", "No such file or directory")):
        with pytest.raises(StartError, match=f"{path}: cannot be read: {why}"):
            load_policy(path)
    (tmp_path / "b").write_bytes(b"\xff")
    with pytest.raises(StartError, match="not text"):
        load_policy(tmp_path / "b")


@given(st.text(max_size=60) | st.lists(st.sampled_from([*" \n-:{}[]\"'&*!|>a", "tool.before:", "- "])).map("".join))
def test_whatever_the_file_holds_the_start_is_refused_or_goes_on(text: str) -> None:
    with suppress(StartError):
        parse_policy(text, "p")


@pytest.mark.parametrize(
    "pattern",
    [
        "a*",
        "a+",
        "a{1,}",
        "(a{0,9}){0,9}",
        "(a)\\1",
        "(?=a)",
        "(?P<n>a)",
        "a{0,99}b{0,99}",
        "(",
        "a" * 501,
        "(a|b){2}",
        "[a-z]+",
    ],
)
def test_a_pattern_that_could_hang_is_refused(pattern: str) -> None:
    assert pattern_fault(pattern)


@pytest.mark.parametrize(
    "pattern", [r"curl[^|]{0,200}\| ?sh", "(?i)a|b", "[*+]x{3}", r"\*\+\(\?", "(?:a|b)?c", "[]*]a", r"[^]\]+]b"]
)
def test_a_simple_pattern_is_taken(pattern: str) -> None:
    assert pattern_fault(pattern) is None


def test_a_pattern_that_is_taken_is_quick_on_the_longest_command() -> None:
    pattern = "a{0,40}a{0,40}b"
    assert pattern_fault(pattern) is None
    before = time.process_time()
    assert re.search(pattern, "a" * 120 * 1024) is None
    assert time.process_time() - before < 10
