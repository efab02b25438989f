"""`python -m tests.corpora.memory.compose`: composes the facts of `facts.jsonl` anew that no hand wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from random import Random

from . import corpus
from .corpus import Fact
from .frames import Kind, World, world

LANGUAGES = ("en", "de", "es", "ru", "zh", "ja")
_SEED = 6
_STATED = {"person": 9, "project": 6, "machine": 4, "supplier": 4}
"""Kind -> attributes of each subject that facts state."""


def composed(lang: str) -> list[Fact]:
    """The facts that the frames of a language give for the names in its world: the same each time."""
    random, here = Random(f"{_SEED} {lang}"), world(lang)
    said = (one for kind in here.kinds.values() for one in _of_kind(here, kind, random))
    return [Fact(f"{lang}-c{number:03}", lang, text, tags) for number, (text, tags) in enumerate(said, 1)]


def _of_kind(here: World, kind: Kind, random: Random) -> Iterator[tuple[str, tuple[str, str]]]:
    people = here.kinds["person"].few
    for who in kind.few:
        for attribute in random.sample(kind.attributes(who), _STATED[kind.name]):
            other = random.choice([person for person in people if person != who])
            yield here.say(random.choice(kind.frames[attribute]), who, other, random), (kind.name, attribute)


def mixed(facts: Iterable[Fact]) -> list[Fact]:
    """In an order that has nothing to do with how they were made: rankers break ties by place or age."""
    return sorted(facts, key=lambda fact: sha256(fact.id.encode()).digest())


def corpus_of(written: Iterable[Fact]) -> list[Fact]:
    return mixed([*written, *(fact for lang in LANGUAGES for fact in composed(lang))])


def main() -> None:
    written = [fact for fact in corpus.facts() if not fact.composed]
    corpus.FACTS.write_text(corpus.lines(corpus_of(written)), encoding="utf-8")


if __name__ == "__main__":
    main()
