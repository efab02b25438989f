"""In the loose dialect, too, the tester finds each fault, and finds none where there is none."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from agent_conformance import AGENT_RULES, LISTENER_RULES, Finding, Options

from .bench import failed, try_agent, try_listener
from .swift import run_swiftly

AGENTS = {
    "silent": "A01",
    "strict_signals": "A03",
    "strict_results": "A03",
    "blank_lines": "A04",
    "early_control": "A05",
    "no_accepting": "A10",
    "two_results": "A12",
    "drops_crumbs": "A33",
}
"""Fault -> the rule that it breaks."""
LISTENERS = {
    "speaks_first": "L01",
    "hasty": "L05",
    "strict_requests": "L06",
    "drops_crumbs": "L14",
    "always_welcomes": "L15",
    "blank_lines": "L45",
}
UNTRIED = {"A02", "L02"}
"""A loose stub has no constraints; one that serves a single agent is not tried out after probes."""
OPTIONS = Options(dialect="loose", timeout=3, wait=10)


def loose_agent(fault: str, folder: str) -> list[Finding]:
    return run_swiftly(try_agent(Path(folder) / "s", fault, options=OPTIONS, dialect="loose"))


def loose_listener(fault: str, folder: str) -> list[Finding]:
    return run_swiftly(try_listener(fault, url=f"unix:{folder}/s", dialect="loose", key=None))


def test_each_loose_rule_is_tried() -> None:
    rules = {rule.id for rule in (*AGENT_RULES, *LISTENER_RULES) if rule.loose}
    assert {*AGENTS.values(), *LISTENERS.values()} == rules - UNTRIED


@pytest.mark.parametrize("fault", AGENTS)
def test_a_broken_loose_agent_fails_at_its_rule_and_no_other(fault: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # paths of sockets must be short
        findings = loose_agent(fault, folder)
    assert failed(findings) == {AGENTS[fault]}, [one for one in findings if one.state == "failed"]


@pytest.mark.parametrize("fault", LISTENERS)
def test_a_broken_loose_listener_fails_at_its_rule_and_no_other(fault: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        findings = loose_listener(fault, folder)
    assert failed(findings) == {LISTENERS[fault]}, [one for one in findings if one.state == "failed"]


@pytest.mark.parametrize("extensions", [True, False])
def test_strict_words_are_a_fault_where_the_guide_is_spoken(extensions: bool, tmp_path: Path) -> None:
    findings = run_swiftly(try_agent(tmp_path / "s", options=OPTIONS, extensions=extensions))
    assert "A03" in failed(findings)
