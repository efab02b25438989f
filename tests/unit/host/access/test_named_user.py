"""Which user a request of a scoped token is for: the token's only one, or the one that it names and covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_host.access import HostCaller, TokenScope, UserSet, parse_users, speaking_user, visible_users
from agent_host.errors import Forbidden, InvalidRequest

Headers = list[tuple[bytes, bytes]]
OPERATOR, ANN = HostCaller("operator"), HostCaller("user:ann", TokenScope(parse_users(["ann"]), frozenset({"w"})))
USERS = parse_users(["telegram:*", "discord:7", "änn"])
BOT = HostCaller("users:tok_0", TokenScope(USERS, frozenset({"w"})))


def named(*values: bytes) -> Headers:
    return [(b"accept", b"*/*"), *((b"x-agent-user", value) for value in values)]


REFUSED: list[tuple[Headers, type[Exception]]] = [
    (named(), InvalidRequest),
    (named(b""), InvalidRequest),
    (named(b"telegram:1", b"telegram:1"), InvalidRequest),
    (named(b"telegram:1", b"ann"), InvalidRequest),
    (named(b"telegram:*"), InvalidRequest),
    (named(b"*"), InvalidRequest),
    (named(b"operator"), InvalidRequest),
    (named(b" telegram:1"), InvalidRequest),
    (named(b"telegram:1\t"), InvalidRequest),
    (named(b"telegram:1\x00"), InvalidRequest),
    (named("telegram:1\u200b".encode()), InvalidRequest),
    (named("telegram:\u202e1".encode()), InvalidRequest),
    (named("telegram:\u00a01".encode()), InvalidRequest),
    (named("telegram:é".encode("latin-1")), InvalidRequest),
    (named(b"telegram:\xc0\xb1"), InvalidRequest),
    (named(b"telegram:\xed\xa0\x80"), InvalidRequest),
    (named(b"telegram:" + b"1" * 200), InvalidRequest),
    (named(b"Telegram:1"), Forbidden),
    (named(b"telegram%3A1"), Forbidden),
    (named(b"=?utf-8?q?telegram:1?="), Forbidden),
    (named(b'"telegram:1"'), Forbidden),
    (named("telegram\uff1a1".encode()), Forbidden),
    (named(b"telegram"), Forbidden),
    (named(b"discord:70"), Forbidden),
    (named("a\u0308nn".encode()), Forbidden),
    (named(b"ann"), Forbidden),
    ([(b"x_agent_user", b"telegram:1"), (b"x-agent-user-", b"telegram:1")], InvalidRequest),
]


@pytest.mark.parametrize(("headers", "error"), REFUSED)
def test_a_token_of_several_needs_one_user_that_it_covers(headers: Headers, error: type[Exception]) -> None:
    with pytest.raises(error, match="X-Agent-User"):
        speaking_user(BOT, headers)


@pytest.mark.parametrize("user", ["telegram:1", "telegram:10", "telegram:%31", "telegram:-100/7", "discord:7", "änn"])
def test_a_covered_user_is_the_one_to_speak_for(user: str) -> None:
    assert speaking_user(BOT, named(user.encode())) == user


@given(st.binary(max_size=30))
def test_no_header_makes_a_token_speak_for_others(value: bytes) -> None:
    try:
        user = speaking_user(BOT, named(value))
    except (InvalidRequest, Forbidden):
        return
    assert user is not None
    assert user in USERS
    assert user.encode() == value


@pytest.mark.parametrize("headers", [named(), named(b"bob"), named(b"a", b"b"), named(b"\xff")])
def test_a_token_of_one_and_the_operators_need_none(headers: Headers) -> None:
    assert speaking_user(ANN, headers) == "ann"
    assert speaking_user(OPERATOR, headers) is None
    assert visible_users(OPERATOR, headers, None) is None
    assert visible_users(ANN, headers, None) == visible_users(ANN, headers, "ann") == parse_users(["ann"])


def test_rows_are_of_all_that_are_covered_or_of_the_one_that_is_named() -> None:
    one = parse_users(["telegram:1"])
    assert visible_users(BOT, named(), None) == USERS
    assert visible_users(BOT, named(), "telegram:1") == one
    assert visible_users(BOT, named(b"telegram:1"), None) == one
    assert visible_users(BOT, named(b"telegram:1"), "telegram:1") == one
    assert visible_users(OPERATOR, named(), "telegram:*") == UserSet.of("telegram:*")


@pytest.mark.parametrize(
    ("headers", "asked", "error"),
    [
        (named(b"telegram:1"), "telegram:2", InvalidRequest),
        (named(b"telegram:1", b"telegram:1"), None, InvalidRequest),
        (named(), "telegram:*", InvalidRequest),
        (named(), "operator", InvalidRequest),
        (named(), "", InvalidRequest),
        (named(), "bob", Forbidden),
        (named(b"bob"), None, Forbidden),
        (named(b"bob"), "bob", Forbidden),
    ],
)
def test_no_rows_of_others(headers: Headers, asked: str | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        visible_users(BOT, headers, asked)


def test_no_rows_of_others_for_a_token_of_one() -> None:
    for asked in ("bob", "", "ann ", "Ann"):
        with pytest.raises(Forbidden):
            visible_users(ANN, named(b"bob"), asked)
