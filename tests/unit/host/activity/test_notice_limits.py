"""Notices of an agent that is not trusted: no more, and no longer, than a person may have."""

from __future__ import annotations

from typing import Any

import pytest

from agent_common.protocol import MAX_NOTICE
from agent_host.activity.event_reader import AgentEvent
from agent_host.activity.notice_limits import BURST, REFILL_SECONDS, NoticeLimits
from agent_testing import ManualClock


def notice(text: Any) -> AgentEvent:
    return AgentEvent.model_validate({"type": "notice", "user": "ann", "session_id": "s", "text": text})


def test_so_many_at_once_and_then_at_a_pace() -> None:
    clock = ManualClock()
    limits = NoticeLimits(clock)
    assert [limits.admit("ada", notice("x")) is not None for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    assert limits.admit("bob", notice("x")) is not None
    clock.advance(REFILL_SECONDS)
    assert limits.admit("ada", notice("x")) is not None
    assert limits.admit("ada", notice("x")) is None
    limits.forget("ada")
    assert limits.admit("ada", notice("x")) is not None


def test_a_long_text_is_cut() -> None:
    cut = NoticeLimits(ManualClock()).admit("ada", notice("x" * 5000))
    assert cut is not None
    assert len(cut.facts["text"]) == MAX_NOTICE


@pytest.mark.parametrize("text", [None, "", "  \n", 7, ["x"], {"a": "b"}])
def test_what_is_no_text_is_no_notice(text: Any) -> None:
    assert NoticeLimits(ManualClock()).admit("ada", notice(text)) is None
