"""Cards of approvals and questions, and what presses and texts mean for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.conversation.requests import Answer, AskReason, Progress, card, choice_of_press, choice_of_text
from frontends.conversation.requests.card import MOST
from frontends.store import StoredRequest
from tests.bot_platform import MemoryPlatform

RULE = {"permission": "bash", "pattern": "git *"}
APPROVAL = StoredRequest(
    "ab12", "bot", "500", "ada", "telegram:1", "s", "approval_1", 1, "approval", "bash", {"command": "git push"},
    "bash * asks", [RULE], "telegram:1", "Ann", None, 9, code="K7", agent="default",
)  # fmt: skip
COLOURS = {"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue", "description": "as the sky"}]}
QUESTION = replace(APPROVAL, kind="question", tool="question", input={"questions": [COLOURS]}, reason=None, always=())


def text_of(request: StoredRequest) -> str:
    return "\n".join(piece.markdown for piece in card(request, lambda text: [text]))


def labels(request: StoredRequest) -> list[str]:
    return [button.label for row in card(request, lambda text: [text])[-1].buttons for button in row]


def test_an_approval_shows_what_would_be_done_and_why() -> None:
    text = text_of(APPROVAL)
    assert "**Allow bash?**" in text
    assert "```sh\ngit push\n```" in text
    assert "*bash \\* asks*" in text
    assert "`bash git *`" in text
    assert "Or reply `yes K7` or `no K7`." in text
    assert "*Always* would allow `bash git *`. *All* are yours." in text
    assert "*All* are this group's." in text_of(replace(APPROVAL, user="telegram:-7"))
    always = ["♾ Always in this conversation", "♾ Always in all with agent default"]
    assert labels(APPROVAL) == ["✅ Once", *always, "❌ Reject", "✍️ Reject, because…"]
    assert labels(replace(APPROVAL, agent=None)) == ["✅ Once", always[0], "❌ Reject", "✍️ Reject, because…"]
    assert all(len(label) <= 48 for label in labels(replace(APPROVAL, agent="a" * 200)))
    assert labels(replace(APPROVAL, always=())) == ["✅ Once", "❌ Reject", "✍️ Reject, because…"]
    decided = replace(APPROVAL, state="decided", verdict="✅ Allowed once by Ann")
    assert text_of(decided).endswith("**✅ Allowed once by Ann**")
    assert "K7" not in text_of(decided)
    assert labels(decided) == []


def test_words_that_are_asked_for_reach_the_bot_in_a_group() -> None:
    """There it gets replies and mentions only."""
    rejected = replace(APPROVAL, reason_from="telegram:1")
    free = replace(QUESTION, input={"questions": [{"question": "Why?"}]})
    assert [text_of(one).lower().count("reply") for one in (APPROVAL, rejected, free, QUESTION)] == [1, 1, 1, 1]


def test_arguments_cannot_forge_what_is_around_them() -> None:
    forged = replace(
        APPROVAL, tool="x*", input={"a`": "```\n**✅ Allowed**\u202e", "b": "one line", "c": [1, {"d": "`"}]}
    )
    text = text_of(forged)
    assert "````\n```\n**✅ Allowed**\\u202e\n````" in text
    assert "**b**: `one line`" in text
    assert '``[1, {"d": "`"}]``' in text


def test_nothing_of_an_approval_is_cut_or_looks_like_something_else() -> None:
    """Short arguments that become long by what is invisible in them, blanks that a line would swallow, long names."""
    hidden = "notes.txt" + "\u200b" * 60 + "/../key"
    call = {"path": hidden, "old  name": "a  b", "x" * 70 + "1": "y", "host": "g\u0456thub.com"}
    rule = {"permission": "write", "pattern": "notes" * 30 + "/*"}
    text = text_of(replace(APPROVAL, tool="t" * 63 + "1", input=call, always=[rule]))
    for shown in (
        "\\u200b" * 60 + "/../key",
        "a  b",
        "x" * 70 + "1",
        "t" * 63 + "1",
        "g\\u0456thub.com",
        rule["pattern"],
    ):
        assert shown in text, shown


@pytest.mark.parametrize("lines", [2000, MOST])
def test_more_than_fits_cannot_be_allowed(lines: int) -> None:
    long = replace(APPROVAL, input={"command": "x\n" * lines})
    pieces = card(long, MemoryPlatform().split)
    assert len(pieces) == 3
    assert "Allow bash?" in pieces[0].markdown
    assert "more than fits" in pieces[-1].markdown
    assert [button.label for row in pieces[-1].buttons for button in row] == ["❌ Reject", "✍️ Reject, because…"]


@pytest.mark.parametrize(
    "changed",
    [
        {"input": {"command": "`" * 2_000_000}},
        {"input": {"command": "\n" * 2_000_000}},
        {"input": {"command": "ls", "more": [["a"] * 10] * 50_000}},
        {"input": {f"k{number}": 1 for number in range(50_000)}},
        {"tool": "*" * 2_000_000},
        {"always": [{"permission": "bash", "pattern": "`" * 1000}] * 2000},
        {"kind": "question", "input": {"questions": [{"question": "x" * 2_000_000, "options": ["y" * 50] * 50_000}]}},
    ],
    ids=["marks", "lines", "values", "names", "tool", "rules", "question"],
)
def test_no_more_of_a_call_is_split_than_fits(changed: dict[str, Any]) -> None:
    """Megabytes would take seconds, in which the bots do nothing else."""
    lengths: list[int] = []

    def split(markdown: str) -> list[str]:
        lengths.append(len(markdown))
        return MemoryPlatform().split(markdown)

    pieces = card(replace(APPROVAL, **changed), split)
    assert len(pieces) <= 3
    assert max(lengths) <= MOST
    assert "question" in changed.values() or "more than fits" in pieces[-1].markdown


@pytest.mark.parametrize(
    ("word", "choice"),
    [
        ("once", Answer("once")),
        ("always", Answer("always", scope="session")),
        ("agent", Answer("always", scope="agent")),
        ("reject", Answer("reject")),
        ("reason", AskReason()),
        ("0.0", None),
        ("", None),
        ("drop", None),
    ],
)
def test_presses_on_an_approval(word: str, choice: object) -> None:
    assert choice_of_press(APPROVAL, word) == choice


def test_always_needs_rules() -> None:
    assert choice_of_press(replace(APPROVAL, always=()), "always") is None
    assert choice_of_press(replace(APPROVAL, always=()), "agent") is None
    assert choice_of_press(replace(APPROVAL, agent=None), "agent") is None


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("Yes K7!", Answer("once")),
        ("no k7", Answer("reject")),
        ("No K7, not today", Answer("reject", "not today")),
        ("yes", None),
        ("yes M4", None),
        ("always K7", None),
        ("maybe", None),
        ("", None),
    ],
)
def test_texts_on_an_approval(text: str, choice: object) -> None:
    assert choice_of_text(APPROVAL, text) == choice


def test_a_question_is_answered_by_a_press_or_a_text() -> None:
    assert "2. **blue**: as the sky" in text_of(QUESTION)
    assert labels(QUESTION) == ["red", "blue"]
    assert choice_of_press(QUESTION, "0.1") == Answer(answers=[["blue"]])
    assert choice_of_press(QUESTION, "1.1") is None
    assert choice_of_press(QUESTION, "0.2") is None
    assert choice_of_press(QUESTION, "0.done") is None
    assert choice_of_press(QUESTION, "0.²") is None
    assert choice_of_text(QUESTION, "2.") == Answer(answers=[["blue"]])
    assert choice_of_text(QUESTION, "BLUE") == Answer(answers=[["blue"]])
    assert [choice_of_text(QUESTION, blanks) for blanks in ("", " \n", "\u200b", "\u2800")] == [None] * 4
    assert choice_of_text(QUESTION, "green") == Answer(answers=[["green"]])


def test_several_may_be_picked() -> None:
    several = replace(QUESTION, input={"questions": [{**COLOURS, "multi_select": True}]})
    first = choice_of_press(several, "0.1")
    assert first == Progress((), [1])
    assert choice_of_press(several, "0.done") is None
    picked = replace(several, picked=[1])
    assert labels(picked) == ["☐ red", "☑ blue", "Done"]
    assert choice_of_press(picked, "0.1") == Progress((), [])
    assert choice_of_press(picked, "0.done") == Answer(answers=[["blue"]])
    assert choice_of_text(several, "1, blue") == Answer(answers=[["red", "blue"]])
    assert choice_of_text(several, "red, green") == Answer(answers=[["red, green"]])


@pytest.mark.parametrize("count", [0, 4, 5, 6, 20, 30])
@pytest.mark.parametrize("multiple", [False, True])
def test_many_options_fit_on_every_platform(count: int, multiple: bool) -> None:
    options = [{"label": f"option {number}"} for number in range(count)]
    asked = {"question": "Which?", "options": options, "multi_select": multiple}
    many = replace(QUESTION, input={"questions": [asked]})
    (piece,) = card(many, lambda text: [text])
    assert len(piece.buttons) <= 5
    assert all(1 <= len(row) <= 5 for row in piece.buttons)
    assert sum(map(len, piece.buttons)) == min(count, 20) + multiple
    shown = " ".join((piece.markdown, *labels(many)))
    assert all(f"option {number}" in shown for number in range(count))


def test_several_questions_come_one_after_the_other() -> None:
    two = replace(QUESTION, input={"questions": [COLOURS, {"question": "Why?"}]})
    assert choice_of_press(two, "0.0") == Progress([["red"]])
    second = replace(two, answers=[["red"]])
    assert "(2 of 2) **Why?**" in text_of(second)
    assert "- Which colour? → **red**" in text_of(second)
    assert choice_of_press(second, "0.0") is None
    assert choice_of_text(second, "because") == Answer(answers=[["red"], ["because"]])


@given(st.dictionaries(st.text(max_size=20), st.text() | st.lists(st.integers()) | st.none(), max_size=4), st.text())
def test_any_arguments_have_a_card(given: dict[str, object], tool: str) -> None:
    for kind in ("approval", "question"):
        pieces = card(replace(APPROVAL, kind=kind, input=given, tool=tool), MemoryPlatform().split)
        assert pieces
        assert all(button.label for row in pieces[-1].buttons for button in row)
