"""Tokens of an alias are counted as those of the model behind it, over live HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_common.protocol import ModelCard
from agent_testing import Garbage, Say, ScriptedProvider
from agent_testing.provider import Recorded

from ..live import Runtime

RULES = ("-" * 78 + "\n") * 200
"""A text of 200 tokens that an estimate, which knows only kinds of characters, takes for some 9000."""
SILENT = '{"choices": [{"message": {"role": "assistant", "content": "noted"}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize(("upstream", "compacted"), [("vendor/gpt-4o", False), (None, True)])
def test_an_alias_is_counted_as_the_model_behind_it(tmp_path: Path, upstream: str | None, compacted: bool) -> None:
    """The model reports nothing, so near the edge of the window what it was sent is counted here."""
    card = ModelCard(id="default", context_limit=32_000, upstream=upstream)
    summaries: list[str] = []

    def answer(request: Recorded) -> Garbage | Say:
        if "<conversation>" in request.last_user_text:
            summaries.append(request.last_user_text)
            return Say("They drew lines.")
        return Garbage(SILENT, "application/json")

    with ScriptedProvider(answer, models=[card]) as provider, Runtime(provider, tmp_path) as agent:
        for _ in range(4):
            reply = agent.chat(RULES)
            assert reply.status_code == 200, reply.text[:500]
    assert bool(summaries) == compacted
