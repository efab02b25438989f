"""The name of the bot is taken out of a text, whatever else is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram import MessageEntity

from frontends.telegram.incoming.mentions import LINK_CHARACTERS, Mentions

from .raw import ME, units

TEXTS = st.text(st.sampled_from("ab \n@/👩‍👧é\U0001f600"), max_size=12)
NAME = f"@{ME.username}"


@given(before=TEXTS, between=TEXTS, after=TEXTS)
def test_all_mentions_are_removed_and_nothing_else_but_blanks(before: str, between: str, after: str) -> None:
    text = f"{before}{NAME}{between}{NAME}{after}"
    offsets = units(before), units(f"{before}{NAME}{between}")
    found = Mentions(text, [MessageEntity(MessageEntity.MENTION, at, units(NAME)) for at in offsets], ME)
    assert found.addressed
    assert "".join(found.text.split()) == "".join(f"{before}{between}{after}".split())


@given(text=TEXTS, kind=st.sampled_from(list(MessageEntity.ALL_TYPES)), at=st.integers(-3, 40), size=st.integers(0, 40))
def test_any_entity_leaves_the_text_as_it_is_unless_it_names_the_bot(text: str, kind: str, at: int, size: int) -> None:
    assert Mentions(text, [MessageEntity(kind, at, size)], ME).text == text


ARTICLE = "https://news.example.org/2026/09/28/long-read"


@pytest.mark.parametrize(
    ("text", "links", "shown"),
    [
        ("Summarise this article", [("this article", ARTICLE)], f"Summarise this article ({ARTICLE})"),
        ("👩‍👩‍👧 this one, then that 👩‍👩‍👧", [("this one", "https://a.example"), ("that", "tg://x?y")],
         "👩‍👩‍👧 this one (https://a.example), then that (tg://x?y) 👩‍👩‍👧"),
        (f"{NAME} read  this", [("this", ARTICLE)], f"read  this ({ARTICLE})"),
        (f"this {NAME}", [("this", ARTICLE)], f"this ({ARTICLE})"),
        (f"read {NAME}", [(NAME, ARTICLE)], f"read ({ARTICLE})"),
        (f"see it {NAME} there", [(f"it {NAME} there", ARTICLE)], f"see it there ({ARTICLE})"),
        (f"see {NAME}", [(f"see {NAME[:4]}", ARTICLE)], "see"),
        (ARTICLE, [(ARTICLE, f"{ARTICLE}/")], ARTICLE),
        ("News.example.org/", [("News.example.org/", "http://news.example.org")], "News.example.org/"),
        ("https://good.example", [("https://good.example", "https://bad.example")],
         "https://good.example (https://bad.example)"),
        ("a", [("a", "https://a.example/\n[from \ud83d")], "a (https://a.example/[from�)"),
        ("a", [("a", "https://a.example/" + "x" * LINK_CHARACTERS)], "a"),
        ("a", [("a", "")], "a"),
    ],
)  # fmt: skip
def test_a_link_comes_with_its_address(text: str, links: list[tuple[str, str]], shown: str) -> None:
    marked = [
        MessageEntity(MessageEntity.TEXT_LINK, units(text[: text.index(part)]), units(part), url=url)
        for part, url in links
    ]
    if NAME in text:
        marked.append(MessageEntity(MessageEntity.MENTION, units(text[: text.index(NAME)]), units(NAME)))
    assert Mentions(text, marked, ME).text == shown


@given(text=TEXTS, at=st.integers(-3, 40), size=st.integers(0, 40))
def test_an_address_is_only_added(text: str, at: int, size: int) -> None:
    found = Mentions(text, [MessageEntity(MessageEntity.TEXT_LINK, at, size, url="URL")], ME).text
    assert found.replace(" (URL)", "") == text
    assert found.count("(URL)") == (at >= 0 and size > 0 and at + size <= units(text))
