"""A large set of facts for measuring speed: the same frames, with names joined from parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import yaml

from .corpus import Fact
from .frames import world

_QUERIES = Path(__file__).parent / "large_queries.yaml"
_LANGUAGES = {"en": 15, "de": 15, "es": 15, "ru": 15, "zh": 15, "ja": 15, "ko": 2, "ar": 2, "hi": 2, "th": 2, "el": 2}
"""Language -> its share of a hundred facts."""
_KINDS = {"person": 6, "project": 2, "machine": 1, "supplier": 1}
_RARE = 24


@dataclass(frozen=True, slots=True)
class Large:
    """Facts, and what to ask of them."""

    facts: Sequence[Fact]
    queries: Mapping[str, Sequence[str]]
    """Kind of query (`pair`, `frequent`, `rare`, `long`, `absent`) -> queries."""


def large(count: int = 100_000, seed: int = 6) -> Large:
    """So many facts, no two of them alike, and the same for the same seed. A hundred thousand take seconds.

    Rare queries are names that few facts of the set are about.
    """
    facts: dict[str, Fact] = {}
    names: Counter[str] = Counter()
    for lang, name, text, tags in _said(Random(seed)):
        if text not in facts:
            facts[text] = Fact(f"{lang}-l{len(facts):06}", lang, text, tags)
            names[name] += 1
        if len(facts) == count:
            break
    told: dict[str, list[str]] = yaml.safe_load(_QUERIES.read_text(encoding="utf-8"))
    rare = [name for name, _ in islice(reversed(names.most_common()), _RARE)]
    return Large(list(facts.values()), {**told, "rare": rare})


def _said(random: Random) -> Iterator[tuple[str, str, str, tuple[str, str]]]:
    """Language, subject, sentence and tags, without end."""
    worlds = [world(lang) for lang, share in _LANGUAGES.items() for _ in range(share)]
    kinds = [kind for kind, share in _KINDS.items() for _ in range(share)]
    while True:
        here = random.choice(worlds)
        kind = here.kinds.get(random.choice(kinds), here.kinds["person"])
        who = random.choice(kind.many).draw(random)
        attribute = random.choice(list(kind.frames))
        text = here.say(random.choice(kind.frames[attribute]), who, here.person(random), random)
        yield here.lang, who[0], text, (kind.name, attribute)
