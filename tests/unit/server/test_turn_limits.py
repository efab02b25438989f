"""How large the window of each model is."""

from __future__ import annotations

from typing import Any

import pytest

from agent_common.protocol import ModelCard
from agent_runtime.context import ContextWindow
from agent_runtime.runtime.turn_limits import TurnLimitPolicy
from agent_runtime.settings import DEFAULT_CONTEXT, Settings

CARDS = {
    "default": ModelCard(id="default", context_limit=200_000, max_output_tokens=8000),
    "small": ModelCard(id="small", context_limit=8000),
    "unknown": ModelCard(id="unknown"),
}


def window(model: str, **settings: Any) -> ContextWindow:
    return TurnLimitPolicy(Settings(**settings), CARDS).window(model)


@pytest.mark.parametrize(
    ("model", "set_to", "limit"),
    [
        ("default", None, 200_000),
        ("default", 16_000, 16_000),
        ("default", 900_000, 900_000),
        ("small", None, 8000),
        ("small", 16_000, 8000),
        ("small", 4000, 4000),
        ("unknown", None, DEFAULT_CONTEXT),
        ("unknown", 16_000, 16_000),
        ("nobody", 16_000, 16_000),
    ],
)
def test_the_operator_speaks_of_his_own_model_and_the_catalog_of_all(
    model: str, set_to: int | None, limit: int
) -> None:
    assert window(model, context_limit=set_to).limit == limit


def test_the_reserve_is_no_more_than_the_model_answers_unless_the_operator_wants_it() -> None:
    assert window("default").reserve == 8000
    assert window("default", compaction={"reserve_tokens": 30_000}).reserve == 30_000
    assert window("small", compaction={"reserve_tokens": 30_000}).reserve == 2000
