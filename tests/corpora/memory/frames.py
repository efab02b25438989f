"""Frames: sentences written by hand, with places for names and values from lists that are written by hand too.

A file in `frames/` describes the world of one language: kinds of subjects (people, projects...), whose names are
listed (`few`) or joined from parts (`many`), and for each attribute of a kind the sentences that may state it. In a
sentence `{who}`, `{whose}` and `{whom}` are the subject in the nominative, genitive and dative, `{other}` is a
colleague, `{stranger}` somebody from outside, and every other place names a pool: a list, or numbers `from-to`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

FRAMES = Path(__file__).parent / "frames"
_NUMBERS = re.compile(r"(\d+)-(\d+)")
_PLACE = re.compile(r"{(\w+)}")

Name = tuple[str, str, str]
"""A name in the nominative, genitive and dative; the three are equal where a language does not care."""


@dataclass(frozen=True, slots=True)
class Product:
    """Names made of one item of each part."""

    parts: Sequence[Sequence[Name]]
    join: str
    ends: Sequence[str]

    def draw(self, random: Random) -> Name:
        items = [random.choice(part) for part in self.parts]
        first, second, third = (self.join.join([item[case] for item in items]) + self.ends[case] for case in range(3))
        return first, second, third


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of subject."""

    name: str
    few: Sequence[Name]
    many: Sequence[Product]
    skip: Mapping[str, Sequence[str]]
    """Subject -> attributes that facts written by hand state already."""
    frames: Mapping[str, Sequence[str]]

    def attributes(self, subject: Name) -> list[str]:
        """What may be said of a subject by frames."""
        return [name for name in self.frames if name not in self.skip.get(subject[0], ())]


@dataclass(frozen=True, slots=True)
class World:
    """All that frames can say in one language."""

    lang: str
    kinds: Mapping[str, Kind]
    pools: Mapping[str, Sequence[str]]

    def say(self, frame: str, who: Name, other: Name, random: Random) -> str:
        """The sentence of a frame, with values drawn from the pools."""
        values = {"who": who[0], "whose": who[1], "whom": who[2], "other": other[0]}
        if "{stranger}" in frame:
            values["stranger"] = self.person(random)[0]
        for place in _PLACE.findall(frame):
            if place not in values:
                values[place] = random.choice(self.pools[place])
        return frame.format_map(values)

    def person(self, random: Random) -> Name:
        """Anybody whose name can be made."""
        return random.choice(self.kinds["person"].many).draw(random)


@cache
def world(lang: str) -> World:
    """The world of a language.

    Raises:
        FileNotFoundError: no frames are written for it.
    """
    told: dict[str, Any] = yaml.safe_load((FRAMES / f"{lang}.yaml").read_text(encoding="utf-8"))
    kinds = {name: _kind(name, kind) for name, kind in told["kinds"].items()}
    return World(lang, kinds, {name: _pool(pool) for name, pool in told["pools"].items()})


def _kind(name: str, told: Mapping[str, Any]) -> Kind:
    many = [
        Product([[_name(item) for item in part] for part in one["parts"]], one["join"], one.get("ends", ("", "", "")))
        for one in told["many"]
    ]
    return Kind(name, [_name(few) for few in told.get("few", ())], many, told.get("skip", {}), told["frames"])


def _name(written: str) -> Name:
    forms = written.split("|")
    first, second, third = forms * 3 if len(forms) == 1 else forms
    return first, second, third


def _pool(told: Any) -> Sequence[str]:
    numbers = _NUMBERS.fullmatch(told) if isinstance(told, str) else None
    if numbers:
        return [str(number) for number in range(int(numbers[1]), int(numbers[2]) + 1)]
    return [str(item) for item in told]
