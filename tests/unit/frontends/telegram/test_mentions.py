"""The name of the bot is taken out of a text, whatever else is in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from telegram import MessageEntity

from frontends.telegram.incoming.mentions import Mentions

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
