"""What a person types about an approval."""

from __future__ import annotations

import time

import pytest

from agent_common.protocol import TypedDecision, how_to_decide, lacks_code, read_typed_decision

YES, NO = TypedDecision("K7", approved=True), TypedDecision("K7", approved=False)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("yes K7", YES),
        ("  Yes, k7! \n", YES),
        ("YES: K7.", YES),
        ("yes K7M4", TypedDecision("K7M4", approved=True)),
        ("no K7", NO),
        ("No k7, not on a Friday", TypedDecision("K7", approved=False, reason="not on a Friday")),
        ("no K7\nuse b.txt", TypedDecision("K7", approved=False, reason="use b.txt")),
        ("yes K7, but use b.txt", None),
        ("yes K7M", None),
        ("yesK7", None),
        ("yes", None),
        ("always K7", None),
        ("K7", None),
        ("well, yes K7", None),
        ("yes \u212a7", None),  # the Kelvin sign, which `re` takes for a K
        ("", None),
    ],
)
def test_only_yes_and_no_with_a_code_are_decisions(text: str, read: TypedDecision | None) -> None:
    assert read_typed_decision(text) == read


def test_the_longest_reason_and_the_worst_text_are_read_at_once() -> None:
    began = time.process_time()
    for text in ("no K7" + " " * 10**7 + "x", "yes" + " " * 10**7, "no " + "k7" * 10**6):
        read_typed_decision(text)
    assert time.process_time() - began < 5
    read = read_typed_decision("no K7 " + "x" * 10_000)
    assert read is not None
    assert len(read.reason or "") == 2000


def test_what_is_advised_is_read() -> None:
    yes, no = how_to_decide("K7").split("`")[1::2]
    assert (read_typed_decision(yes), read_typed_decision(no)) == (YES, NO)


def test_a_decision_without_a_code_is_noticed() -> None:
    assert all(map(lacks_code, ("Yes!", "ok.", " ALWAYS ", "no")))
    assert not any(map(lacks_code, ("yes K7", "why?", "no, use b.txt", "")))
