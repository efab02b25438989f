"""The tester finds each fault of a listener, and finds none where there is none."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_conformance import LISTENER_RULES

from .bench import SOUND, Runs, failed, skipped, try_listener, try_listeners
from .listener_mutants import LISTENER_FAULTS
from .swift import run_swiftly

RULES: dict[str, tuple[str, ...]] = {
    "speaks_first": ("L01",),
    "chokes_on_probes": ("L02",),
    "chokes_on_resets": ("L03",),
    "probes_displace": ("L04", "L21"),
    "hasty": ("L05",),
    "extra_field": ("L06",),
    "eager": ("L07", "L19", "L22", "L37", "L41"),
    "floods": ("L08",),
    "last_wins": ("L09",),
    "loses_unaccepted": ("L10",),
    "loses_accepted": ("L11", "L12"),
    "reads_cut_lines": ("L12",),
    "dies_of_bad_lines": ("L13",),
    "drops_crumbs": ("L14",),
    "always_welcomes": ("L15",),
    "bad_welcome": ("L16",),
    "no_ack": ("L17",),
    "takes_any_mac": ("L18", "L19", "L21"),
    "takes_old_macs": ("L19",),
    "asks_in_vain": ("L20", "L19", "L37", "L41"),
    "newcomers_displace": ("L21",),
    "two_sessions": ("L22",),
    "one_epoch": ("L23",),
    "dies_of_foreign_results": ("L24",),
    "heeds_quarantine": ("L25",),
    "no_pong": ("L26",),
    "dies_of_unknown_control": ("L27",),
    "half_closes": ("L28",),
    "dies_of_long_lines": ("L29",),
    "endures_endless_lines": ("L30",),
    "endures_floods": ("L31",),
    "trusts_silence": ("L32",),
    "retries_denied": ("L34",),
    "few_connections": ("L35",),
    "no_resume_ok": ("L36",),
    "does_not_want_results": ("L37",),
    "wants_all_results": ("L38",),
    "cancels_after_breaks": ("L41",),
    "blank_lines": ("L45",),
    "takes_any_result": ("L46",),
    "no_task_ack": ("L47",),
    "no_proof": ("L48",),
}
"""Fault -> the rule that it breaks, and those that must fall with it."""


RESETS = "chokes_on_resets"
TCP = "tcp://127.0.0.1:0"


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with tempfile.TemporaryDirectory() as folder:  # paths of sockets must be short
        yield try_listeners(Path(folder))


def test_there_is_a_listener_for_each_rule() -> None:
    assert {rules[0] for rules in RULES.values()} == {rule.id for rule in LISTENER_RULES}
    assert RULES.keys() == LISTENER_FAULTS - {"strict_requests"}


def test_a_sound_listener_keeps_every_rule(runs: Runs) -> None:
    assert [one for one in runs[SOUND] if one.state != "passed"] == []
    assert [one.id for one in runs[SOUND]] == sorted(rule.id for rule in LISTENER_RULES)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in RULES if fault != RESETS])
def test_a_broken_listener_fails_at_its_rule_and_no_other(runs: Runs, fault: str) -> None:
    findings = runs[fault]
    assert failed(findings) == set(RULES[fault]), [one for one in findings if one.state == "failed"]
    assert all(one.seen for one in findings if one.state == "failed")


@pytest.mark.slow
async def test_what_only_tcp_has_is_found_over_tcp() -> None:
    """A unix socket knows no RST."""
    sound, broken = await asyncio.gather(try_listener(url=TCP), try_listener(RESETS, url=TCP))
    assert [one for one in sound if one.state != "passed"] == []
    assert failed(broken) == set(RULES[RESETS]), [one for one in broken if one.state == "failed"]
    assert all(one.seen for one in broken if one.state == "failed")


def test_a_listener_that_asks_for_no_proof_is_not_held_to_the_rules_about_it(tmp_path: Path) -> None:
    findings = run_swiftly(try_listener(url=f"unix:{tmp_path}/s", key=None))
    assert failed(findings) == set()
    assert skipped(findings) == {"L18", "L19", "L20", "L21", "L48"}


def test_a_loose_listener_is_held_to_what_the_guide_promises(tmp_path: Path) -> None:
    findings = run_swiftly(try_listener(url=f"unix:{tmp_path}/s", dialect="loose", key=None))
    assert failed(findings) == set()
    assert {one.id for one in findings if one.state == "passed"} == {rule.id for rule in LISTENER_RULES if rule.loose}
