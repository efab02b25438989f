"""Long texts in messages: what was sent stays, and nothing gets lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontends.text import (
    DISCORD_LIMIT,
    TELEGRAM_LIMIT,
    Measure,
    discord,
    discord_measure,
    discord_text,
    split,
    split_discord,
    split_telegram,
    telegram,
    telegram_measure,
    telegram_text,
)
from frontends.text.characters import is_boundary, utf16_length
from frontends.text.split import parts

LIMIT = 500
SNIPPETS = [
    *("`*_~|[]()<>@/#$:-+>\\&!. \n\t\r"),
    *("```", "```py\n", "~~~\n", "````\n", "\n\n", "\n> ", "> > ", "\n- ", "\n  - ", "- > ", "\n1. ", "- [ ] ", "    "),
    *("\n| a | b |\n|---|---|\n", "| c | dd |\n", "|-|\n", "a|b\n-|-\n", "x\n", "# head\n", "\n---\n", "[](b)"),
    *(
        "**bold text**",
        "`code @x`",
        "[a link](https://example.com/a_b)",
        "https://example.com/x",
        "word ",
        "sentence. ",
    ),
    *("@everyone", "/start", "<@1>", "tg://x", "discord.gg/x", "&#64;", "&amp;", "\ud83d", "\u202e", "\u200b"),
    *("漢字、文。", "👨\u200d👩\u200d👧", "🇩🇪🇫🇷", "e\u0301", "a" * 40, "x" * 200),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Few kinds of snippets, often repeated: what makes a text long makes it fail."""
    few = draw(st.lists(st.sampled_from(SNIPPETS), min_size=1, max_size=6))
    many = draw(st.lists(st.tuples(st.sampled_from(few), st.sampled_from([1, 1, 2, 7, 60])), min_size=1, max_size=60))
    return "".join(text * count for text, count in many)[:6000]


MEASURES = st.sampled_from([telegram_measure, discord_measure])


@given(texts(), MEASURES, st.data())
def test_messages_that_were_sent_stay_as_they_are(text: str, measure: Measure, data: st.DataObject) -> None:
    whole = split(text, LIMIT, measure)
    for end in data.draw(st.lists(st.integers(0, len(text)), max_size=8)):
        sent = split(text[:end], LIMIT, measure)[:-1]
        assert whole[: len(sent)] == sent


@pytest.mark.parametrize("measure", [telegram_measure, discord_measure])
def test_every_beginning_of_a_reply_is_split_as_the_whole(measure: Measure) -> None:
    paragraph = "Some **bold** text with [a link](https://example.com/x), `code` and 👨\u200d👩\u200d👧. It goes on.\n"
    code = "```py\ndef f():\n\n    return '/start'\n```\n"
    table = "\n| a | b |\n|---|---|\n" + "| cell | 漢字 |\n" * 12
    listed = f"\n- one\n  - two: {paragraph}\n> quote\n> {paragraph * 4}"
    text = f"# Head\n\n{paragraph * 3}{listed}{code * 9}{table}{paragraph * 2}"
    whole = split(text, LIMIT, measure)
    assert len(whole) >= 4
    for end in range(len(text)):
        sent = split(text[:end], LIMIT, measure)[:-1]
        assert whole[: len(sent)] == sent


ENDS = [
    *("[a link](https://example.com/a_b) x", "```py\ncode\n```\n", "# Head\n\ntext", "a. b c", "`code of words`"),
    *("| a |\n|---|\n", "👨\u200d👩", "e\u0301", "🇩🇪🇫🇷", "**bold_of words**", "> ```\n> a\n", "- [a](b)\n"),
]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("start", "joint"),
    [("", " "), ("word " * 20 + "\n", " "), ("word " * 60 + "\n", "\n"), ("word " * 60 + "\n\n", "\n")],
)
def test_what_arrives_last_moves_nothing(start: str, joint: str, end: str) -> None:
    for size in range(LIMIT - len(end) - 4, LIMIT + 2, 1 + len(end) // 12):
        text = (start + "word " * 120)[: size - 1] + joint + end + " more" * 40
        whole = split(text, LIMIT, telegram_measure)
        for length in range(LIMIT - 4, LIMIT + len(end) + 9):
            sent = split(text[:length], LIMIT, telegram_measure)[:-1]
            assert whole[: len(sent)] == sent


LONGEST = [
    *(
        "> a\n" + "b\n" * 99,
        "```\n",
        "a\n```\n\n",
        "> ```\n",
        "|a\n|-\n\n",
        "a|b\n-|-\n",
        "discord.gg/",
        "@here ",
        "<@1",
    ),
    *("http://a ", *("```\n" + "x" * size for size in range(LIMIT - 12, LIMIT, 3))),
]


@pytest.mark.parametrize("unit", LONGEST)
def test_what_grows_most_fits(unit: str) -> None:
    for markdown in split(unit * 60, LIMIT, telegram_measure):
        assert utf16_length(telegram.written(markdown, aligned=False)[0]) <= LIMIT
    for markdown in split(unit * (2 * LIMIT // len(unit)), LIMIT, discord_measure):
        assert utf16_length(discord.written(markdown, aligned=False)) <= LIMIT


@given(texts(), MEASURES)
def test_nothing_is_left_out_but_blanks_and_ends_of_code(text: str, measure: Measure) -> None:
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    end = 0
    for part in parts(source, LIMIT, measure):
        assert not source[end : part.start].strip(" \t\n`~>")
        assert source[part.start : part.end].strip()
        end = part.end
    assert not source[end:].strip(" \t\n`~>")


@given(texts(), st.sampled_from([LIMIT, 1500]))
@settings(deadline=None)
def test_a_message_is_never_longer_than_was_counted(text: str, limit: int) -> None:
    for markdown in split(text, limit, telegram_measure):
        assert utf16_length(telegram.written(markdown, aligned=False)[0]) <= limit
    for markdown in split(text, limit, discord_measure):
        assert utf16_length(discord.written(markdown, aligned=False)) <= limit


@given(texts())
@settings(deadline=None)
def test_a_platform_takes_every_message(text: str) -> None:
    for markdown in split_telegram(text):
        assert utf16_length(telegram_text(markdown).text) <= TELEGRAM_LIMIT
    for markdown in split_discord(text):
        assert utf16_length(discord_text(markdown)) <= DISCORD_LIMIT


def test_a_short_text_is_one_message_and_a_blank_one_none() -> None:
    assert split_telegram("short\r\ntext\n") == ["short\ntext"]
    assert split_telegram("x" * TELEGRAM_LIMIT) == ["x" * TELEGRAM_LIMIT]
    assert split_discord(" \n\n\t") == split_discord("") == []
    with pytest.raises(ValueError, match="limit"):
        split("x", 10, telegram_measure)


def test_code_is_closed_and_opened_again_with_its_language() -> None:
    lines = [f"    line {at}" for at in range(400)]
    messages = split_discord("Look:\n```py\n" + "\n".join(lines) + "\n```\nThe end.")
    assert len(messages) > 2
    assert all(message.startswith("```py\n    line") for message in messages[1:])
    assert all(message.endswith("\n```") for message in messages[:-1])
    assert "\n".join(messages).replace("\n```\n```py", "").splitlines() == ["Look:", "```py", *lines, "```", "The end."]
    for size in range(12):
        messages = split_telegram("```\n" + "x" * size + "\n" + "xxxxxx\n" * 1200)
        assert all(set(telegram_text(message).text) == {"x", "\n"} for message in messages)
    quoted = split_discord("> ```py\n" + "> code\n" * 600)
    assert all(message.startswith("> ```py\n> code") for message in quoted)
    assert all(discord_text(message).count("```") == 2 for message in quoted)


def test_code_that_ends_where_a_message_is_full_is_not_opened_again() -> None:
    code = "```\n" + "x" * 470 + "\n"
    for size in range(30):
        messages = split(code + "y" * size + "\n```\n\nafter" + " word" * 20, LIMIT, telegram_measure)
        assert all(telegram_text(message).text != "\u2026" for message in messages)


def test_a_table_begins_each_message_with_its_head() -> None:
    head = "| name | size |\n|:-----|-----:|\n"
    messages = split_telegram(
        "# Files\n\n" + head + "".join(f"| file {at} | {at} |\n" for at in range(300)) + "\nDone."
    )
    assert len(messages) > 1
    assert all(message.startswith(head) for message in messages[1:])
    assert telegram_text(messages[-1]).text.endswith("Done.")


@pytest.mark.parametrize(
    "whole",
    [
        "[a link with words](https://example.com/path)",
        "`some code in words`",
        "https://example.com/a/b",
        "**bold words**",
    ],
)
def test_what_belongs_together_is_in_one_message(whole: str) -> None:
    for size in range(60):
        messages = split("y" * (size + 420) + " " + whole + " and more words" * 20, LIMIT, telegram_measure)
        assert sum(whole in message for message in messages) == 1


@pytest.mark.parametrize(
    "whole", ["👨\u200d👩\u200d👧", "🇩🇪", "e\u0301\u0323", "👍🏽", "각", "\u1112\u1161\u11ab", "❤\ufe0f"]
)
def test_no_character_is_cut(whole: str) -> None:
    for size in range(12):
        messages = split("x" * size + whole * 600, LIMIT, telegram_measure)
        assert len(messages) > 1
        assert all(message.replace(whole, "").strip("x") == "" for message in messages)


def test_a_word_is_cut_only_if_it_has_to_be() -> None:
    words = [f"word{at}" for at in range(400)]
    assert " ".join(split(" ".join(words), LIMIT, discord_measure)).split(" ") == words
    items = [f"- item {at} of a list" for at in range(60)]
    assert "\n".join(split("\n".join(items), LIMIT, telegram_measure)).splitlines() == items


def test_messages_end_with_paragraphs_or_sentences() -> None:
    paragraph = ("A sentence of some words. " * 8).strip()
    assert split(f"{paragraph}\n\n" * 4, LIMIT, telegram_measure) == [f"{paragraph}\n\n{paragraph}"] * 2
    assert all(message.endswith(".") for message in split(f"{paragraph} " * 5, LIMIT, telegram_measure))


def test_a_heading_begins_a_message_rather_than_ending_one() -> None:
    section = "# Head\n\n" + "text " * 30 + "\n\n"
    for size in range(0, 400, 20):
        messages = split("y" * size + "\n" + section * 9, LIMIT, telegram_measure)
        assert not any(message.endswith("# Head") for message in messages)


def test_the_rest_of_a_nested_list_stays_a_list() -> None:
    messages = split("- top\n" + "    - nested item\n" * 60, LIMIT, telegram_measure)
    assert all(
        line.strip().startswith("•") for message in messages for line in telegram_text(message).text.splitlines()
    )


def test_a_boundary_is_not_within_a_character() -> None:
    text = "a\u0301🇩🇪🇫🇷👨\u200d👩"
    assert [at for at in range(len(text) + 1) if is_boundary(text, at)] == [0, 2, 4, 6, 9]
