"""Patterns against their plain definition."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol.authority import covers, matches
from agent_common.protocol.authority.globs import matches_any_continuation

from .pairwise import stepwise_covers
from .written import TEXTS, fits, patterns, texts


@given(patterns, texts)
def test_a_pattern_matches_what_its_definition_says(pattern: str, text: str) -> None:
    assert matches(pattern, text) is fits(pattern, text)


@given(patterns, patterns)
def test_what_covers_another_pattern_takes_every_text_of_it(wide: str, narrow: str) -> None:
    if covers(wide, narrow):
        assert all(fits(wide, text) for text in TEXTS if fits(narrow, text))


@given(st.text("ab *?", max_size=12), st.text("ab *?", max_size=12))
def test_a_pattern_covers_what_it_covers_sign_by_sign(wide: str, narrow: str) -> None:
    assert covers(wide, narrow) is stepwise_covers(wide, narrow)


@given(patterns, texts)
def test_what_matches_any_end_takes_every_text_that_begins_so(pattern: str, start: str) -> None:
    if matches_any_continuation(pattern, start):
        assert all(fits(pattern, start + end) for end in TEXTS)
    # With a star at its end and nothing else to leave out, it does match any end.
    assert matches_any_continuation(f"{start}*", start)
    assert not matches_any_continuation("git *", "git")


@given(patterns, st.text("abé\n./", max_size=12))
def test_signs_of_regular_expressions_and_line_breaks_mean_nothing(pattern: str, text: str) -> None:
    assert matches(pattern, text) is fits(pattern, text)
    assert matches(text, text)
    assert matches("*", text)


@given(patterns, patterns, patterns)
def test_covering_is_an_order(one: str, two: str, three: str) -> None:
    assert covers(one, one)
    assert covers("*", one)
    if covers(one, two) and covers(two, three):
        assert covers(one, three)


@pytest.mark.parametrize(
    ("wide", "narrow", "answer"),
    [
        ("git *", "git", True),
        ("git *", "git push *", True),
        ("git push *", "git *", False),
        ("git", "git *", False),
        ("*.org", "a.org", True),
        ("a?c", "abc", True),
        ("a?c", "a*c", False),
        ("src/*", "src/a/b", True),
        ("src/*", "srcs/a", False),
    ],
)
def test_examples(wide: str, narrow: str, answer: bool) -> None:
    assert covers(wide, narrow) is answer


@pytest.mark.parametrize("pattern", ["*a" * 499 + "b", "*" * 1000, "*a*" * 333, "?*" * 400 + "b", "*ab" * 330 + "*"])
def test_no_pattern_makes_a_long_text_take_long(pattern: str) -> None:
    started = time.process_time()
    matches(pattern, "a" * 500_000)
    matches(pattern, "ab" * 250_000)
    covers(pattern, "a*" * 500)
    covers("?*" * 500, pattern)
    assert time.process_time() - started < 5
