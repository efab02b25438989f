"""The names of people on the hub."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_host.errors import Forbidden
from agent_host.hub.http.admission import name_of


@given(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_each_person_has_a_name_of_its_own(one: str, other: str) -> None:
    names = name_of(one), name_of(other)
    assert all(re.fullmatch("user[.][A-Za-z0-9_-]{1,95}", name) for name in names)
    assert (names[0] == names[1]) == (one == other)


def test_a_name_that_would_be_too_long_is_refused() -> None:
    assert name_of("a" * 95) == "user." + "a" * 95
    with pytest.raises(Forbidden, match="more than 100 characters"):
        name_of("a" * 96)
