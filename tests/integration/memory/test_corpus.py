"""What the memory of the runtime finds of a corpus of facts, asked in other words than they were told in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora.memory import corpus
from tests.corpora.memory.engine import remembered
from tests.corpora.memory.evaluate import evaluate, table

ENOUGH, ENOUGH_OF_A_LANGUAGE = 0.85, 0.7
"""Shares of the questions whose fact must be among the first five."""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_the_right_fact_is_among_the_first_five(tmp_path: Path) -> None:
    async with remembered(tmp_path, corpus.facts()) as search:
        asked = await evaluate(search, corpus.questions())
        unseen = await evaluate(search, corpus.questions(corpus.HELDOUT))
    print(table({"questions": asked}))
    print(table({"held out": unseen}))
    for report in (asked, unseen):
        assert report.overall.five >= ENOUGH
    assert {lang: score.five for lang, score in asked.languages.items() if score.five < ENOUGH_OF_A_LANGUAGE} == {}
