"""How much of what a provider gave is kept with a part."""

from __future__ import annotations

from typing import Any

import pytest

from agent_common.completions import MAX_KEPT_BYTES, bounded
from agent_common.completions.kept import MAX_KEPT_REASONING_BYTES

LONG = "x" * (MAX_KEPT_BYTES + 1)


@pytest.mark.parametrize("name", ["reasoning_details", "reasoning_opaque", "thinking_blocks"])
def test_long_reasoning_is_kept_beside_all_else(name: str) -> None:
    fields: dict[str, Any] = {"first": 1, "extra": LONG, name: [{"text": LONG, "signature": "c2ln"}], "last": 2}
    assert bounded(fields) == {"first": 1, name: fields[name], "last": 2}


def test_reasoning_has_a_bound_too() -> None:
    assert bounded({"reasoning_details": "x" * MAX_KEPT_REASONING_BYTES, "last": 2}) == {"last": 2}
