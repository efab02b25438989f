"""The corpus by which the search of memory is judged is what its README says."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.corpora.memory import compose, corpus, large, overlap
from tests.corpora.memory.__main__ import baselines
from tests.corpora.memory.baselines import Plain
from tests.corpora.memory.corpus import Fact, Question
from tests.corpora.memory.evaluate import evaluate, table

LONGEST = {"zh": 7, "ja": 7}
"""Characters that a question may copy in a row; elsewhere three words."""


@pytest.fixture(scope="module")
def facts() -> dict[str, Fact]:
    return {fact.id: fact for fact in corpus.facts()}


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return corpus.questions() + (corpus.questions(corpus.HELDOUT) if corpus.HELDOUT.exists() else [])


def test_there_are_enough_facts_and_no_two_alike(facts: dict[str, Fact]) -> None:
    assert len(facts) == len(corpus.facts()) >= 2000
    assert len({fact.text for fact in facts.values()}) == len(facts)
    shares = Counter(fact.lang for fact in facts.values())
    assert set(shares) == set(compose.LANGUAGES)
    assert min(shares.values()) > 0.8 * max(shares.values())


def test_every_question_has_a_fact_of_its_language_that_was_written_for_it(facts: dict[str, Fact]) -> None:
    asked = corpus.questions()
    assert len(asked) >= 200
    assert len({question.text for question in asked}) == len(asked)
    assert [question for question in asked if facts[question.fact].lang != question.lang] == []
    assert [question for question in asked if facts[question.fact].composed] == []
    shares = Counter(question.lang for question in asked)
    assert set(shares) == set(compose.LANGUAGES)
    assert min(shares.values()) > 0.7 * max(shares.values())


def test_composed_facts_are_what_the_frames_give(facts: dict[str, Fact]) -> None:
    written = [fact for fact in facts.values() if not fact.composed]
    assert compose.corpus_of(written) == list(facts.values()), "run: python -m tests.corpora.memory.compose"


def test_questions_are_no_copies(facts: dict[str, Fact], questions: list[Question]) -> None:
    copied = [
        question.text
        for question in questions
        if overlap.overlap(question.lang, question.text, facts[question.fact].text).phrase
        > LONGEST.get(question.lang, 3)
    ]
    assert copied == []


def test_questions_share_something_with_their_facts(facts: dict[str, Fact], questions: list[Question]) -> None:
    assert [question.text for question in questions if not _shared(question, facts[question.fact].text)] == []


def _shared(question: Question, told: str) -> bool:
    """Four letters in a row or a short word; in Chinese and Japanese a character that is not hiragana."""
    asked = set(overlap.pieces(question.lang, question.text))
    if question.lang in overlap.UNSPACED:
        return any(not re.match("[\u3040-\u309f]", piece) for piece in asked & set(overlap.pieces(question.lang, told)))
    words = overlap.pieces(question.lang, told)
    runs = (word[at : at + 4] for word in asked for at in range(max(1, len(word) - 3)))
    return any(run in word for run in runs if len(run) > 2 for word in words)


def test_overlap_counts_same_words_other_forms_and_the_longest_phrase() -> None:
    found = overlap.overlap("en", "who reviews the boilers of the mill", "The boiler of the mill: review in May")
    assert (found.same, found.akin, found.phrase) == (1 / 3, 2 / 3, 3)
    assert overlap.overlap("de", "Schluessel", "Schlüssel").same == 0
    assert overlap.overlap("es", "graduacion", "Graduación").same == 1
    japanese = overlap.overlap("ja", "リモコンの場所", "冷房のリモコンは隣")
    assert (japanese.same, japanese.phrase) == (0.5, 2)


async def test_places_become_shares() -> None:
    asked = [Question(f"q{number}", lang, str(number), "right") for number, lang in enumerate(("en", "en", "de", "de"))]
    answers = {"0": ["right"], "1": ["wrong", "right"], "2": ["wrong"] * 5 + ["right"], "3": ["wrong"] * 10 + ["right"]}

    async def search(query: str) -> list[str]:
        return answers[query]

    report = await evaluate(search, asked)
    assert (report.overall.first, report.overall.five, report.overall.mrr) == (0.25, 0.5, (1 + 1 / 2 + 1 / 6) / 4)
    assert (report.languages["en"].five, report.languages["de"].five) == (1, 0)
    assert [found.question.id for found in report.missed] == ["q2", "q3"]
    assert "| all | 25%, 50%, 0.42 |" in table({"ours": report})


async def test_plain_fts_finds_words_and_parts_of_words(facts: dict[str, Fact]) -> None:
    words, parts = Plain("unicode61", facts.values()), Plain("trigram", facts.values())
    honey = next(fact.id for fact in facts.values() if "keeps bees on the roof" in fact.text)
    assert (await words.search("bees"))[0] == (await parts.search("bees on"))[0] == honey
    assert await words.search("?!") == await parts.search("ab") == []
    words.close()
    parts.close()


async def test_the_corpus_tells_searches_apart(facts: dict[str, Fact]) -> None:
    """No plain index is good enough, or the corpus were too easy to judge one."""
    found = await baselines(list(facts.values()), corpus.questions())
    assert found["unicode61"].overall.five < 0.5
    assert found["trigram"].overall.five < 0.83
    assert found["both"].overall.five < found["both, pairs"].overall.five < 0.95


def test_a_large_set_is_distinct_and_always_the_same() -> None:
    once, again = large.large(3000), large.large(3000)
    assert once == again
    assert len({fact.text for fact in once.facts}) == len({fact.id for fact in once.facts}) == 3000
    assert len({fact.lang for fact in once.facts}) == 11
    assert large.large(3000, seed=7) != once
    assert set(once.queries) == {"pair", "frequent", "rare", "long", "absent"}
    for name in once.queries["rare"]:
        assert sum(name in fact.text for fact in once.facts) <= 3
