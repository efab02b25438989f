"""For whom a scoped token speaks: names and patterns, which never reach the operator or a neighbour."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_host.access import OPERATOR, UserSet, check_user_name, parse_users
from agent_host.errors import InvalidRequest

NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda name: name.isprintable() and name == name.strip() and "*" not in name and name != OPERATOR
)
PREFIX = NAME.filter(lambda prefix: not OPERATOR.startswith(prefix))


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "*", "**", " *", "telegram:**", "tele*gram:*", "te*le", "*telegram", " telegram:*"),
        *("a\n*", "a\u202e*", "\ud800*", "x" * 96, "x" * 96 + "*"),
        *("o*", "oper*", "operator*", "operator"),
    ],
)
def test_a_pattern_that_says_too_little_or_reaches_the_operator_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_users(["ann", pattern])
    assert caught.value.faults[0][0] == "users"


@pytest.mark.parametrize("patterns", [[], ["ann"] * 101])
def test_none_and_too_many_are_refused(patterns: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="name at"):
        parse_users(patterns)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("telegram:*", ["telegram:1", "telegram:-100/7", "telegram:%31"], ["Telegram:1", "telegram", "discord:1", ""]),
        ("telegram:1", ["telegram:1"], ["telegram:10", "telegram:\uff11", "telegram:1 ", "telegram:*"]),
        ("operators*", ["operators", "operators-ann"], [OPERATOR]),
        ("Operator*", ["Operator", "Operators"], [OPERATOR]),
        ("\u00e9*", ["\u00e9ve"], ["e\u0301ve", "eve"]),
    ],
)
def test_a_pattern_compares_code_points(pattern: str, inside: list[str], outside: list[str]) -> None:
    users = parse_users([pattern])
    assert [name for name in inside if name not in users] == []
    assert [name for name in outside if name in users] == []


@given(names=st.sets(NAME, max_size=4), prefixes=st.sets(PREFIX, max_size=4), user=NAME, rest=NAME)
def test_a_set_has_its_names_and_what_begins_with_its_prefixes_and_never_the_operator(
    names: set[str], prefixes: set[str], user: str, rest: str
) -> None:
    assume(names or prefixes)
    users = parse_users([*names, *(f"{prefix}*" for prefix in prefixes)])
    assert OPERATOR not in users
    assert all(name in users for name in names)
    assert all(prefix + rest in users for prefix in prefixes)
    assert (user in users) == (user in names or any(user[: len(prefix)] == prefix for prefix in prefixes))
    assert parse_users(users.patterns) == UserSet.from_patterns(users.patterns) == users
    assert (users.only is not None) == (not prefixes and len(names) == 1)


@given(st.text())
def test_what_is_one_users_name_is_no_pattern(text: str) -> None:
    try:
        name = check_user_name(text, "user")
    except InvalidRequest:
        return
    assert parse_users([name]).only == text
    assert text not in (OPERATOR, "")
    assert not text.endswith("*")


def test_many_patterns_are_not_all_in_a_message() -> None:
    assert str(parse_users(["b:*", "ann"])) == "'ann', 'b:*'"
    assert str(parse_users([f"p{number}:*" for number in range(8)])).endswith("'p4:*', 3 more")
