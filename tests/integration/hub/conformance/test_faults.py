"""The tester finds each fault of a hub by the rule that is meant for it, and finds none where there is none."""

from __future__ import annotations

import pytest

from agent_conformance import HUB_RULES

from .bench import broken_by, failed, judge
from .faulty_hubs import HUB_FAULTS, faulty

FOUND_AT_ONCE = {
    "loses_acks": "H68",
    "delivers_twice": "H67",
    "reorders": "H62",
    "skips_a_number": "H51",
    "reads_everything": "H59",
    "outsiders_write": "H37",
    "forged_senders": "H24",
    "ignores_keys": "H53",
    "untyped_inbox_full": "H74",
}
"""Fault -> the rule that it breaks. No rule has to wait for what does not come."""
OTHERS = {
    "stops_at_bad_frames": "H04",
    "ignores_nacks": "H65",
    "no_welcome": "H01",
    "any_version": "H02",
    "no_pong": "H03",
    "ends_all_links": "H04",
    "stops_at_unknown_kinds": "H05",
    "swallows_long_frames": "H06",
    "cut_frames_end_all_links": "H07",
    "drops_unknown_fields": "H08",
    "small_frames": "H09",
    "no_request_id": "H10",
    "one_at_a_time": "H11",
    "anybody_is_let_in": "H12",
    "any_name": "H20",
    "new_id_each_time": "H21",
    "refuses_newer_links": "H22",
    "forgets_resumes": "H23",
    "forged_requests": "H25",
    "agents_end_sessions": "H26",
    "invites_to_anything": "H30",
    "opens_early": "H31",
    "ignores_rejections": "H32",
    "speaks_while_pending": "H33",
    "opens_twice": "H34",
    "anybody_closes": "H35",
    "speaks_when_over": "H36",
    "outsiders_read": "H38",
    "no_turns": "H39",
    "circles": "H40",
    "never_expires": "H41",
    "expects_nothing": "H42",
    "speaks_out_of_turn": "H43",
    "goes_back": "H43",
    "ignores_handoffs": "H44",
    "no_causation": "H50",
    "ids_fall": "H52",
    "first_id_for_all": "H54",
    "pages_have_holes": "H55",
    "deliveries_differ": "H56",
    "never_unsubscribes": "H57",
    "delivers_to_all": "H58",
    "watches_everything": "H60",
    "any_audience": "H61",
    "acknowledges_itself": "H63",
    "forgets_who_is_away": "H64",
    "no_attempt": "H65",
    "overtakes": "H66",
    "high_water_mark": "H69",
    "anybody_acknowledges": "H70",
    "guesses_receipts": "H71",
    "ignores_ttl": "H72",
    "forgets_outcomes": "H73",
    "ignores_inboxes": "H75",
    "sends_at_once": "H76",
    "ignores_priority": "H77",
    "ignores_rates": "H78",
    "ignores_access": "H79",
    "stays_registered": "H80",
    "ignores_most_sessions": "H81",
    "drops_newest": "H82",
    "tasks_are_private": "H83",
    "shows_all_tasks": "H83",
    "anybody_updates_tasks": "H84",
    "tasks_go_on": "H85",
    "anybody_cancels_tasks": "H86",
    "tasks_never_expire": "H87",
    "speaks_as_client": "H90",
}


def test_there_is_a_fault_for_each_rule() -> None:
    rules = {**FOUND_AT_ONCE, **OTHERS}
    assert set(rules.values()) == {rule.id for rule in HUB_RULES}
    assert rules.keys() == HUB_FAULTS


@pytest.mark.slow
async def test_a_sound_hub_keeps_every_rule() -> None:
    findings = await judge()
    assert [one for one in findings if one.state != "passed"] == []
    assert [one.id for one in findings] == sorted(rule.id for rule in HUB_RULES)


async def test_with_one_agent_the_rules_that_need_more_say_so() -> None:
    findings = await judge(agents=1)
    assert failed(findings) == {}
    reasons = {one.seen for one in findings if one.state == "skipped"}
    assert reasons == {f"it needs {n} agents: give --token NAME=TOKEN {n} times, not 1" for n in (2, 3)}
    assert {one.id for one in findings if one.state == "passed"} >= {"H01", "H02", "H03", "H10", "H12", "H20", "H21"}


@pytest.mark.parametrize("fault", FOUND_AT_ONCE)
async def test_a_fault_is_found_at_once(fault: str) -> None:
    findings = await broken_by(fault, FOUND_AT_ONCE[fault])
    assert failed(findings).keys() == {FOUND_AT_ONCE[fault]}, findings


@pytest.mark.slow
@pytest.mark.parametrize("fault", OTHERS)
async def test_a_fault_is_found_by_its_rule(fault: str) -> None:
    findings = await broken_by(fault, OTHERS[fault])
    assert failed(findings).keys() == {OTHERS[fault]}, findings


ALSO = {
    "ignores_keys": {"H54"},
    "ignores_nacks": {"H66"},
    "loses_acks": {"H69", "H73", "H74", "H75", "H76", "H77", "H82"},
}
"""Fault -> other rules that must fall with it."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FOUND_AT_ONCE, "stops_at_bad_frames", "ignores_nacks"])
async def test_a_likely_fault_breaks_no_other_rule(fault: str) -> None:
    rules = {**FOUND_AT_ONCE, **OTHERS}
    findings = await judge(faulty(fault), seconds=10.0)
    assert failed(findings).keys() == {rules[fault]} | ALSO.get(fault, set()), failed(findings)
