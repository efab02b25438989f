"""The tester finds each fault of an agent, and finds none where there is none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_conformance import AGENT_RULES, Finding

from .agent_mutants import AGENT_FAULTS
from .bench import SOUND, Runs, failed, skipped, try_agents

RULES: dict[str, tuple[str, ...]] = {
    "silent": ("A01",),
    "ack_after_ready": ("A02",),
    "extra_field": ("A03",),
    "blank_lines": ("A04",),
    "early_control": ("A05",),
    "bad_offer": ("A06",),
    "one_sid": ("A07",),
    "bare_hash": ("A08", "A53"),
    "no_accepting": ("A10",),
    "no_audit_ref": ("A11",),
    "two_results": ("A12", "A17", "A62"),
    "own_identity": ("A13",),
    "needs_welcome": ("A14",),
    "accepts_then_denies": ("A15", "A70"),
    "trusts_anyone": ("A16",),
    "starts_again": ("A17",),
    "runs_again": ("A18",),
    "no_conflict": ("A19",),
    "ignores_version": ("A20",),
    "keeps_outdated": ("A21",),
    "takes_any_bound": ("A22",),
    "no_deadline": ("A23",),
    "no_budget": ("A24",),
    "no_tool_bound": ("A25",),
    "takes_two_shapes": ("A29",),
    "dies_of_bad_lines": ("A30",),
    "dies_of_blanks": ("A31",),
    "dies_of_long_lines": ("A32",),
    "drops_crumbs": ("A33",),
    "takes_extra_fields": ("A34",),
    "dies_of_unknown_control": ("A35",),
    "endures_floods": ("A36",),
    "endures_endless_lines": ("A37",),
    "reads_cut_lines": ("A38",),
    "takes_double_keys": ("A39",),
    "no_attach": ("A40",),
    "wrong_mac": ("A40",),
    "late_attach": ("A41",),
    "no_pong": ("A42",),
    "trusts_silence": ("A43",),
    "no_resume": ("A44",),
    "lets_results_go": ("A44",),
    "no_resend": ("A45",),
    "ignores_acks": ("A46",),
    "no_cancel": ("A47",),
    "progress_stands": ("A49",),
    "ignores_forget": ("A50",),
    "ignores_cancel_verdict": ("A51",),
    "believes_hosts": ("A52",),
    "no_push": ("A53",),
    "rewrites_payload": ("A53",),
    "believes_hashes": ("A54",),
    "exits_on_eof": ("A60",),
    "dials_hotly": ("A61",),
    "loses_work": ("A62",),
    "no_word_of_breaks": ("A63",),
    "dials_twice": ("A64",),
    "works_while_draining": ("A70",),
    "stays_after_drain": ("A71",),
    "reports_unasked": ("A72",),
    "lets_reports_go": ("A73",),
    "ignores_task_acks": ("A74",),
}
"""Fault -> the rule that it breaks, and those that must fall with it."""


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with tempfile.TemporaryDirectory() as folder:  # paths of sockets must be short
        yield try_agents(Path(folder))


def test_there_is_an_agent_for_each_rule() -> None:
    assert {rules[0] for rules in RULES.values()} == {rule.id for rule in AGENT_RULES}
    assert RULES.keys() == AGENT_FAULTS - {"strict_signals", "strict_results"}


def test_a_sound_agent_keeps_every_rule(runs: Runs) -> None:
    assert [one for one in runs[SOUND] if one.state != "passed"] == []
    assert [one.id for one in runs[SOUND]] == sorted(rule.id for rule in AGENT_RULES)


@pytest.mark.slow
@pytest.mark.parametrize("fault", RULES)
def test_a_broken_agent_fails_at_its_rule_and_no_other(runs: Runs, fault: str) -> None:
    findings = runs[fault]
    assert failed(findings) == set(RULES[fault]), [one for one in findings if one.state == "failed"]
    assert all(one.seen for one in findings if one.state == "failed")


def test_what_cannot_be_tried_any_more_says_why(runs: Runs) -> None:
    def why(fault: str, name: str) -> str:
        return next(one.seen for one in runs[fault] if one.id == name)

    assert why("silent", "A30") == "not tried: see A01"
    assert why("exits_on_eof", "A62") == "the agent has not dialed in again"
    assert why("trusts_anyone", "A15") == "the agent does not refuse: see A16"
    few: list[Finding] = runs["no_audit_ref"]
    assert skipped(few) == set()
