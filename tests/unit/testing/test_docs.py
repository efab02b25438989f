"""The programs in docs/how-to/testing.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[3] / "docs" / "how-to" / "testing.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_page_runs(program: str) -> None:
    exec(compile(program, "docs/how-to/testing.md", "exec"), {})  # noqa: S102


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) == 11
