"""Facts and questions as they lie in the JSONL files beside this module."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FACTS = HERE / "facts.jsonl"
QUESTIONS = HERE / "questions.jsonl"
HELDOUT = HERE / "questions_heldout.jsonl"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that an agent was told to remember. Its id tells how it was made: `de-w012` was written by hand,
    `de-c104` composed from a frame.
    """

    id: str
    lang: str
    text: str
    tags: tuple[str, ...]

    @property
    def composed(self) -> bool:
        return self.id.split("-")[1].startswith("c")


@dataclass(frozen=True, slots=True)
class Question:
    """What a user may ask or an agent may search for, and the one fact that answers it."""

    id: str
    lang: str
    text: str
    fact: str


def facts() -> list[Fact]:
    return [Fact(row["id"], row["lang"], row["text"], tuple(row["tags"])) for row in _rows(FACTS)]


def questions(path: Path = QUESTIONS) -> list[Question]:
    return [Question(row["id"], row["lang"], row["text"], row["fact"]) for row in _rows(path)]


def lines(records: Iterable[Fact | Question]) -> str:
    """The text of a JSONL file."""
    return "".join(json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
