"""The page on compaction says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_common.protocol import CompactionPolicy
from agent_runtime.context import MIN_SUMMARY, ContextWindow
from agent_runtime.context.window import MAX_RESERVE, SUMMARY_CAP
from agent_runtime.loop.compaction.auto_compaction import MAX_SUMMARY_SHARE, RETRY_GROWTH, TARGET_SHARE
from agent_runtime.settings import DEFAULT_CONTEXT

DOCS = Path(__file__).parents[4] / "docs"
PAGE = "\n".join((DOCS / kind / "compaction.md").read_text() for kind in ("explanation", "reference"))


def test_the_settings_on_the_page_are_the_defaults() -> None:
    shown = re.search(r"```json\n(\{\n.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert CompactionPolicy.model_validate(json.loads(shown[1])) == CompactionPolicy()
    assert CompactionPolicy().model_dump() == json.loads(shown[1])


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    policy = CompactionPolicy()
    assert f"else {DEFAULT_CONTEXT}" in PAGE
    assert f"the least of {MAX_RESERVE}," in PAGE
    assert f"the last {policy.tail_turns} turns, as far as they take at most {policy.tail_budget_pct} %" in PAGE
    assert f"at most {policy.tail_budget_pct} % of the room" in PAGE
    assert f"at most {SUMMARY_CAP}, half of the reserve, and a third of the room; {MIN_SUMMARY} in any case" in PAGE
    assert (TARGET_SHARE, MAX_SUMMARY_SHARE) == (1 / 2, 1 / 3)
    assert f"grown by {round((RETRY_GROWTH - 1) * 100)} %" in PAGE
    assert ContextWindow.from_limit(16_000, None) == ContextWindow(16_000, 4_000)
    assert ContextWindow.from_limit(1_000_000, 8_000).reserve == 8_000
    assert ContextWindow.from_limit(1_000_000, None).max_summary == SUMMARY_CAP
