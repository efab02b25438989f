"""What the daily log is told of turns, and of which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent_runtime.loop.limits.outcome import TurnOutcome
from agent_runtime.loop.notes.daily_log import MAX_TEXT_CHARACTERS, log_turn
from agent_runtime.ports import DailyLogEntry
from tests.unit.loop.support import conversation, new_turn

DONE = TurnOutcome("complete", "stop")


@dataclass
class Diary:
    """Fills ports.Diary."""

    entries: list[DailyLogEntry] = field(default_factory=list[DailyLogEntry])

    def append(self, entry: DailyLogEntry) -> None:
        self.entries.append(entry)


def told(**fields: Any) -> list[DailyLogEntry]:
    diary = Diary()
    log_turn(new_turn(**{"outcome": DONE, "reply_parts": [{"type": "text", "text": "hi"}], **fields}), diary)
    return diary.entries


def test_a_turn_of_a_person_is_told_by_its_alias() -> None:
    named = conversation()
    named.aliases = ("main",)
    assert told(session=named) == [DailyLogEntry(named.principal, "main", "complete", "hello", "hi")]
    (entry,) = told()
    assert entry.who == new_turn().session.id


def test_a_task_is_told_by_its_id() -> None:
    assert [entry.who for entry in told(task_id="report-1")] == ["report-1"]


def test_how_it_ended_is_told_with_the_reason() -> None:
    ends = {
        "failed (model_unavailable)": TurnOutcome("failed", "error", "model_unavailable", "it is gone"),
        "complete (iterations)": TurnOutcome("complete", "stop", limit="iterations"),
        "cancelled": TurnOutcome("cancelled", "abort", "cancelled"),
        "timeout (deadline_exceeded)": TurnOutcome("timeout", "other", "deadline_exceeded", limit="deadline"),
    }
    for status, outcome in ends.items():
        assert [entry.status for entry in told(outcome=outcome, reply_parts=[])] == [status]


def test_what_agents_do_for_each_other_is_not_told() -> None:
    assert told(parent=new_turn()) == []
    assert told(outcome=None) == []


def test_only_the_beginning_of_a_text_is_passed_on() -> None:
    (entry,) = told(reply_parts=[{"type": "text", "text": "x" * 1_000_000}])
    assert len(entry.answered) == MAX_TEXT_CHARACTERS
