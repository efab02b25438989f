"""Names of letters and digits, and quoted words, are sought as they are; other words may be written otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_runtime.memory.search.query import parse_query

from .world import World, world

FACTS = {
    "bob": "Locker w2291 is Bob's, and its code is on the board.",
    "ada": "Ada has w2290 since spring.",
    "lane": "The warehouse in Mill Lane has the number 2290.",
    "order": "Order2291 was sent back.",
    "commit": "The walnut release is commit 1fe685f9e000c0ffee.",
    "other": "The hazel release is commit 1fe685a0b1c2d3e4f.",
    "phone": "The iPhone 15 of the office is in the upper drawer.",
    "virus": "Dr. Weber asks for a COVID-19 test in winter.",
    "dentists": "The dentists of Mill Lane are closed in August.",
    "tag": "The blue one is for guests.",
}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as here:
        for name, text in FACTS.items():
            await here.save(text, tags=["x77y"] if name == "tag" else [])
        yield here


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("w2290", ["ada"]),
        ("W2290?", ["ada"]),
        ("where is w2290", ["ada"]),
        ("w2299", []),
        ("order2290", ["lane"]),
        ("q7x9z", []),
        ("1fe685f", ["commit"]),
        ("iphone15", ["phone"]),
        ("covid19", ["virus"]),
        ("x77y", ["tag"]),
        ("x77z", []),
        ('"dentist"', ["dentists"]),
        ('"dentistry"', []),
        ('5" x 6" dentistry', ["dentists"]),
        ("dentistry", ["dentists"]),
    ],
)
async def test_a_name_finds_what_has_it_and_nothing_that_is_nearly_so_called(
    here: World, query: str, found: list[str]
) -> None:
    assert await here.texts(query) == [FACTS[name] for name in found]


async def test_what_has_the_name_comes_before_what_has_the_other_words(here: World) -> None:
    shown = await here.texts("code of the locker w2290 of bob on the board")
    assert shown[0] == FACTS["ada"]
    assert FACTS["bob"] in shown, "it is about lockers all the same"


async def test_a_slip_in_another_word_is_forgiven(here: World) -> None:
    assert await here.texts("warehuose") == [FACTS["lane"]]
    assert await here.texts("warehuose q7x9z") == [FACTS["lane"]]


def test_quotes_within_a_sentence_and_around_nothing_are_none() -> None:
    for query in ('walnut" tree"', '" walnut "', '""', '5" walnut 6"', "«walnut»", "'walnut'"):
        assert not any(one.verbatim for one in parse_query(query)), query
    assert {one.word for one in parse_query('"walnut tree" planted') if one.verbatim} == {"walnut", "tree"}
