"""Who wrote the files that become instructions, whatever else happens around the write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_runtime.workspace import Home, PromptFileAuthors, Writer, read_instructions
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
    running = authors.begin(lambda: writer)
    work()
    authors.end(running)


@pytest.mark.slow  # writes thousands of records
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


@pytest.mark.parametrize("first", [REVIEWED, UNREVIEWED], ids=["the reviewed call ends first", "the other one does"])
def test_a_file_is_unreviewed_if_one_of_the_calls_is_that_may_have_written_it(
    home: Home, authors: PromptFileAuthors, first: Writer
) -> None:
    file, second = home.workspace / "AGENTS.md", REVIEWED if first is UNREVIEWED else UNREVIEWED
    calls = [authors.begin(lambda: first), authors.begin(lambda: second)]
    file.write_text("evil")
    seen = [authors.is_unreviewed(file)]
    for call in calls:
        authors.end(call)
        seen.append(authors.is_unreviewed(file))
    assert seen == [True, True, True], "also while they run"
    write = authors.last_write(file)
    assert write is not None
    assert write.principal == "alice"


def test_a_call_that_has_used_a_network_meanwhile_counts_as_it_is_then(home: Home, authors: PromptFileAuthors) -> None:
    file, now = home.workspace / "AGENTS.md", [REVIEWED]
    downloads, other = authors.begin(lambda: now[0]), authors.begin(lambda: REVIEWED)
    file.write_text("evil")
    authors.end(other)
    assert not authors.is_unreviewed(file)
    now[0] = UNREVIEWED
    authors.end(downloads)
    assert authors.is_unreviewed(file)


def test_who_names_a_file_is_its_author_whatever_runs_beside(home: Home, authors: PromptFileAuthors) -> None:
    file, notes, saved = (home.workspace / name for name in ("AGENTS.md", "learnings/errors.md", "MEMORY.md"))
    notes.parent.mkdir()
    beside = authors.begin(lambda: UNREVIEWED)
    call(authors, Writer("bob", "default", unreviewed=False, only=frozenset({str(file)})), lambda: file.write_text("1"))
    with authors.own_write(notes):
        notes.write_text("an error")
    saved.write_text("a person's")
    authors.forget(saved)
    authors.end(beside)
    assert not authors.is_unreviewed(file)
    assert not authors.was_written_by_agent(notes)
    assert not authors.was_written_by_agent(saved)


@pytest.mark.parametrize("began", ["after it", "before it"])
def test_what_is_added_to_an_unreviewed_file_leaves_it_so(home: Home, authors: PromptFileAuthors, began: str) -> None:
    file = home.workspace / "MEMORY.md"
    early = authors.begin(lambda: REVIEWED)
    call(authors, UNREVIEWED, lambda: file.write_text("evil"))
    adds = early if began == "before it" else authors.begin(lambda: REVIEWED)
    file.write_text("evil, and more")
    authors.end(adds)
    assert authors.is_unreviewed(file)
    call(authors, Writer("bob", "default", False, frozenset({str(file)}), clears=True), lambda: file.write_text("new"))
    assert not authors.is_unreviewed(file)


EDIT = "an edit of the file"
BEGINNINGS = {"a command": REVIEWED, "a command that has read text from outside": UNREVIEWED, EDIT: None}


@pytest.mark.parametrize("writer", BEGINNINGS)
def test_what_a_call_changed_that_never_ended_is_unreviewed(
    home: Home, authors: PromptFileAuthors, writer: str
) -> None:
    file, package = home.workspace / "AGENTS.md", home.workspace / ".agents" / "skills" / "pkg" / "SKILL.md"
    others, saved, kept = (home.workspace / name for name in ("CLAUDE.md", "SOUL.md", "CONTEXT.md"))
    for path in (file, saved, kept):
        path.write_text("a person's")
    call(authors, UNREVIEWED, lambda: file.write_text("evil"))
    edits = Writer("bob", "default", unreviewed=False, only=frozenset({str(file)}))
    authors.begin(lambda: BEGINNINGS[writer] or edits)
    file.touch()
    if writer != EDIT:
        package.parent.mkdir(parents=True)
        package.write_text("evil")
    named = Writer("bob", "default", unreviewed=False, only=frozenset({str(others)}), clears=True)
    call(authors, named, lambda: others.write_text("bob's"))
    saved.write_text("a person's, through the API")
    authors.forget(saved)
    for after in (PromptFileAuthors(home, ManualClock()), PromptFileAuthors(home, ManualClock())):
        assert after.is_unreviewed(file)
        assert after.is_unreviewed(package) == package.exists()
        assert not any(map(after.is_unreviewed, (others, saved, kept)))
    saved.write_text("a person's, in an editor")
    assert not PromptFileAuthors(home, ManualClock()).is_unreviewed(saved), "no call runs any more"


def test_no_call_is_taken_for_unfinished_that_has_ended(home: Home, authors: PromptFileAuthors) -> None:
    file = home.workspace / "AGENTS.md"
    early, late = authors.begin(lambda: UNREVIEWED), authors.begin(lambda: REVIEWED)
    authors.end(early)
    assert (home.data_dir / "prompt-file-calls.json").exists(), "the other one still runs"
    authors.end(late)
    file.write_text("a person's")
    assert not PromptFileAuthors(home, ManualClock()).is_unreviewed(file)


def test_what_the_runtime_adds_leaves_a_file_unreviewed(home: Home, authors: PromptFileAuthors) -> None:
    notes = home.workspace / "learnings" / "errors.md"
    notes.parent.mkdir()
    call(authors, UNREVIEWED, lambda: notes.write_text("evil"))
    with authors.own_write(notes):
        notes.write_text("evil, and an error")
        assert PromptFileAuthors(home, ManualClock()).is_unreviewed(notes), "also if the server dies here"
    assert authors.is_unreviewed(notes)
    notes.write_text("A person has looked.")
    assert not authors.is_unreviewed(notes)


def test_files_of_folders_that_nobody_has_reviewed_are_not_named(home: Home, authors: PromptFileAuthors) -> None:
    folder = home.workspace / "src"
    folder.mkdir()

    def told() -> tuple[list[str], int]:
        found = read_instructions(home, authors=authors)
        return list(found.nested), found.unreviewed_nested

    (folder / "CLAUDE.md").write_text("a person's")
    assert told() == (["src/CLAUDE.md"], 0)
    call(authors, UNREVIEWED, lambda: (folder / "AGENTS.md").write_text("evil"))
    assert told() == (["src/CLAUDE.md"], 1), "it does not hide another one"
    call(authors, UNREVIEWED, lambda: (folder / "CLAUDE.md").write_text("evil"))
    assert told() == ([], 2)
    call(authors, REVIEWED, lambda: folder.rename(home.workspace / "lib"))
    assert told() == ([], 2), "nobody has looked at them where they are now"
    call(authors, REVIEWED, lambda: (home.workspace / "lib" / "CLAUDE.md").rename(home.workspace / "CLAUDE.md"))
    assert authors.is_unreviewed(home.workspace / "CLAUDE.md")
    (home.workspace / "lib" / "AGENTS.md").write_text("A person has looked.")
    call(authors, REVIEWED, lambda: None)
    assert told() == (["lib/AGENTS.md"], 0)
