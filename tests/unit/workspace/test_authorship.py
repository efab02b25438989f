"""Who wrote the files that become instructions, whatever else happens around the write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_runtime.workspace import Home, PromptFileAuthors, Writer
from agent_testing import ManualClock

REVIEWED = Writer("bob", "default", unreviewed=False)
UNREVIEWED = Writer("alice", "default", unreviewed=True)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.workspace.mkdir()
    return home


@pytest.fixture
def authors(home: Home) -> PromptFileAuthors:
    return PromptFileAuthors(home, ManualClock())


def call(authors: PromptFileAuthors, writer: Writer, work: Callable[[], object]) -> None:
    before = authors.begin()
    work()
    authors.end(before, writer)


def test_records_of_other_files_do_not_wash_one_clean(home: Home, authors: PromptFileAuthors) -> None:
    file, packages = home.workspace / "AGENTS.md", home.workspace / ".claude" / "skills"
    call(authors, UNREVIEWED, lambda: file.write_text("evil"))
    for number in range(399):
        (packages / "0" / f"{number}").mkdir(parents=True)
        (packages / "0" / f"{number}" / "SKILL.md").touch()
    for round in range(6):
        call(authors, UNREVIEWED, partial((packages / f"{round}").rename, packages / f"{round + 1}"))
    assert authors.is_unreviewed(file)
    assert authors.is_unreviewed(packages / "6" / "398" / "SKILL.md")
    assert PromptFileAuthors(home, ManualClock()).is_unreviewed(file), "also after a restart"
