"""JSON in the rows: what is written is what is read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.sessions.store.rows import dump, load

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(VALUES)
def test_what_was_written_is_read_as_it_was(value: Any) -> None:
    assert load(dump(value)) == json.loads(dump(value)) == value
    assert json.dumps(load(json.dumps(value))) == json.dumps(value)


def test_whatever_can_be_written_can_be_read_however_deep() -> None:
    value: Any = 1
    for _ in range(250):
        value = [value]
    assert load(dump(value)) == value
