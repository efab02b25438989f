"""The states of a turn: which may follow which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from agent_runtime.loop.core.turn_state import TRANSITIONS, State, StopReason

from ..support import new_turn

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("before", get_args(State))
@pytest.mark.parametrize("after", get_args(State))
def test_a_state_follows_only_those_that_the_table_names(before: State, after: State) -> None:
    turn = new_turn(state=before)
    if after in TRANSITIONS[before]:
        turn.transition(after)
        assert turn.state == after
    else:
        with pytest.raises(RuntimeError, match=f"cannot go from {before} to {after}"):
            turn.transition(after)
        assert turn.state == before


def test_nothing_follows_the_end_and_every_state_reaches_it() -> None:
    assert TRANSITIONS["ended"] == frozenset()
    for state in get_args(State):
        reached, new = {state}, {state}
        while new := {after for one in new for after in TRANSITIONS[one]} - reached:
            reached |= new
        assert "ended" in reached, state


@pytest.mark.parametrize("reason", [None, *get_args(StopReason)])
def test_a_turn_is_aborted_unless_the_process_ends(reason: StopReason | None) -> None:
    turn = new_turn(stop_reason=reason)
    assert turn.was_aborted() == (reason not in (None, "shutdown"))
    called = new_turn(parent=turn, stop_reason="caller")
    assert called.was_aborted() == (reason != "shutdown"), "nor if the process ends its caller"


def test_only_transition_changes_a_state() -> None:
    assignment = re.compile(r"\b(?:turn|message|caller|head)\.state\b[^=!<>]*(?<![=!<>])=(?!=)")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "agent_runtime").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if assignment.search(line)
    ]
    assert found == []
