"""docs/reference/learnings.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from agent_runtime.learnings import render_section
from agent_runtime.learnings.notes import RECORDED_KINDS
from agent_runtime.learnings.notes_file import MAX_BYTES, MAX_ENTRIES, MAX_FILE_BYTES, NotesFile
from agent_runtime.learnings.section import CORRECTIONS_BUDGET, ERRORS_BUDGET

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "learnings.md").read_text()


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"kept to {MAX_ENTRIES} and {MAX_BYTES // 1024} KiB" in PAGE
    assert f"above {MAX_FILE_BYTES // 1024} KiB" in PAGE
    assert f"{CORRECTIONS_BUDGET} characters of corrections and {ERRORS_BUDGET} of errors" in PAGE
    assert all(f"`{kind}`" in PAGE for kind in RECORDED_KINDS)


def test_the_example_is_read() -> None:
    example = PAGE.partition("```markdown\n")[2].partition("```\n\n")[0]
    error, correction = NotesFile.parse(example).entries
    assert (error.times, error.by_hand, correction.by_hand) == (3, False, False)
    told = render_section(NotesFile([correction]), NotesFile([error]), "operator")
    assert "- [read, invalid, 2026-11-05, 3 times] plans/nowhere.md does not exist" in told
    assert "- [person (message), 2026-11-05] No, use pnpm here. (answer to: I ran npm install.)" in told
