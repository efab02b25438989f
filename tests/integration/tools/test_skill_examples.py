"""The skills of docs/how-to/skills.md and the one that everybody begins with, in real workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .school import SEED, School

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "skills.md").read_text("utf-8")
EXAMPLES = [
    code
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if "@skill" in code and "dependencies" not in code
]

IMPORT = "from agent_runtime.skills import skill\n"
FUTURE = "from __future__ import annotations\n"

TYPED = '''
from __future__ import annotations
import enum
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

class Unit(enum.Enum):
    CM = "cm"
    INCH = "inch"

@dataclass
class Box:
    width: float
    unit: Unit = Unit.CM

@skill
async def pack(box: Box, day: Annotated[date, "When"], files: list[Path] | None = None, *, workspace: Path) -> str:
    """Pack a box."""
    lines = [(path.read_text(), path.resolve() == workspace / path) for path in files or []]
    return [f"{box.width:g} {box.unit.name} {day:%d.%m.%y}", lines]
'''


async def test_the_examples_of_the_page_work(school: School) -> None:
    assert len(EXAMPLES) == 5
    host = await school.teach(load_seconds=60, **{f"page{number}": code for number, code in enumerate(EXAMPLES)})
    assert {(one.name, one.state) for one in host.states()} == {
        ("word_count", "active"),
        ("your_tool", "active"),
        ("note_price", "active"),
        ("summarise", "active"),
        ("titles", "active"),
    }
    await school.house.call("write", path="notes.md", content="one two three\n")
    assert await school.value("word_count", path="notes.md") == {"words": 3}
    assert await school.value("word_count", path="notes.md", at_least=4) == {"words": 1}
    assert await school.value("your_tool", param1="x") == {"result": "value"}
    assert await school.value("summarise", text="x") == "1 messages"
    assert await school.value("titles", text="x") == ["hello"]
    noted = await school.call("note_price", item="beans", price=2.5)
    assert noted.error_text == "this host does not offer get; there are: chat, embed, openai"
    wrong = await school.call("word_count", path=[])
    assert wrong.error_text == "path: must be of type string, not []"


@pytest.mark.parametrize("head", ["", IMPORT, FUTURE, FUTURE + IMPORT], ids=["bare", "import", "future", "both"])
async def test_the_first_example_is_taken_with_any_head(school: School, head: str) -> None:
    await school.teach(seed=head + SEED)
    assert await school.value("your_tool", param1="x") == {"result": "value"}


async def test_values_come_as_the_hints_say(school: School) -> None:
    await school.teach(pack=TYPED.lstrip())
    await school.house.call("write", path="a.txt", content="inside")
    made = await school.value("pack", box={"width": 3, "unit": "inch"}, day="2024-02-29", files=["a.txt"])
    assert made == ["3 INCH 29.02.24", [["inside", True]]]
    assert await school.value("pack", box={"width": 3}, day="2024-02-29") == ["3 CM 29.02.24", []]
    wrong_unit = await school.call("pack", box={"width": 3, "unit": "mile"}, day="2024-02-29")
    assert wrong_unit.error_text == 'box.unit: must be one of ["cm", "inch"], not "mile"'
    wrong_day = await school.call("pack", box={"width": 3}, day="2024-02-30")
    assert wrong_day.error_text == "ValueError: day: must be a date such as 2026-01-31, not '2024-02-30'"
