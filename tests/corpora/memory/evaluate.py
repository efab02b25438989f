"""How well a search finds the facts that answer questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .corpus import Question

Search = Callable[[str], Awaitable[Sequence[str]]]
"""A query -> ids of facts, best first. Only the first ten count."""

_DEPTH = 10


@dataclass(frozen=True, slots=True)
class Found:
    """Where the right fact stood in what was found for a question."""

    question: Question
    place: int | None
    """Counted from one; none when it was not among the first ten."""


@dataclass(frozen=True, slots=True)
class Score:
    """Shares between 0 and 1."""

    questions: int
    first: float
    five: float
    mrr: float
    """Mean of 1 / place, 0 where the fact was not found."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a search is worth."""

    found: Sequence[Found]

    @property
    def overall(self) -> Score:
        return _score(self.found)

    @property
    def languages(self) -> Mapping[str, Score]:
        by: dict[str, list[Found]] = {}
        for one in self.found:
            by.setdefault(one.question.lang, []).append(one)
        return {lang: _score(found) for lang, found in by.items()}

    @property
    def missed(self) -> list[Found]:
        """Questions whose fact is not among the first five."""
        return [one for one in self.found if one.place is None or one.place > 5]


async def evaluate(search: Search, questions: Iterable[Question]) -> Report:
    """Asks every question, one after another."""
    found: list[Found] = []
    for question in questions:
        ids = list(await search(question.text))[:_DEPTH]
        found.append(Found(question, ids.index(question.fact) + 1 if question.fact in ids else None))
    return Report(found)


def table(reports: Mapping[str, Report]) -> str:
    """Top one, top five and MRR of several searches in Markdown, one line per language."""
    names, languages = list(reports), next(iter(reports.values())).languages
    head = [
        f"| language | {' | '.join(f'{name}: 1st, top 5, MRR' for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    lines = [_line(lang, [reports[name].languages[lang] for name in names]) for lang in languages]
    return "\n".join([*head, *lines, _line("all", [reports[name].overall for name in names])])


def _line(name: str, scores: Iterable[Score]) -> str:
    cells = (f"{score.first:.0%}, {score.five:.0%}, {score.mrr:.2f}" for score in scores)
    return f"| {name} | {' | '.join(cells)} |"


def _score(found: Sequence[Found]) -> Score:
    whole = len(found) or 1
    places = [one.place for one in found if one.place is not None]
    return Score(
        len(found),
        sum(place == 1 for place in places) / whole,
        sum(place <= 5 for place in places) / whole,
        sum(1 / place for place in places) / whole,
    )
