"""The daily log on a real folder: what a line says, where it goes, how long it stays, and what it puts up with."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.redaction import Redactor
from agent_runtime.errors import ToolFailure
from agent_runtime.learnings import DailyLogWriter
from agent_runtime.learnings.daily_log import MAX_FILE_BYTES, MAX_WAITING, format_line, remove_old
from agent_runtime.ports import DailyLogEntry
from agent_runtime.workspace import Home, PathLocks, SafePath, make_personal_folder
from agent_testing import ManualClock

NOON = int(datetime(2026, 11, 5, 12, 3, tzinfo=UTC).timestamp() * 1000)
PATIENCE = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "data")
    home.prepare()
    return home


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


async def room_for_all(place: SafePath, size: int) -> None:
    """There is always room."""


async def no_room(place: SafePath, size: int) -> None:
    raise ToolFailure("there is no room")


def keeper_of(home: Home, clock: ManualClock, **more: object) -> DailyLogWriter:
    settings: dict[str, object] = {"days": 30, "redactor": Redactor(["sesame-open"]), "pause": 0.01, **more}
    admit = settings.pop("admit", room_for_all)
    locks = settings.pop("locks", PathLocks())
    return DailyLogWriter(home, clock, locks, admit, **settings)  # type: ignore[arg-type]


def entry(asked: str = "What is it?", answered: str = "It is this.", **more: str) -> DailyLogEntry:
    given = {"principal": "operator", "who": "main", "status": "complete", **more}
    return DailyLogEntry(asked=asked, answered=answered, **given)


async def written(keeper: DailyLogWriter, *entries: DailyLogEntry) -> None:
    """Entries from their note to the disk."""
    keeper.start()
    for one in entries:
        keeper.append(one)
    async with asyncio.timeout(PATIENCE):
        await keeper.close()


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.01)


def log_of(home: Home, day: str = "2026-11-05") -> Path:
    return home.workspace / "memory" / f"{day}.md"


# ---------------------------------------------------------------- a line


def test_a_line_says_when_who_how_and_what() -> None:
    assert format_line(entry(), NOON, Redactor()).decode() == (
        "- 12:03 · `main` · complete · asked: `What is it?` · answered: `It is this.`\n"
    )
    assert format_line(entry(answered="", status="cancelled"), NOON, Redactor()).decode() == (
        "- 12:03 · `main` · cancelled · asked: `What is it?`\n"
    )


def test_long_texts_keep_their_beginning() -> None:
    line = format_line(entry("x" * 160, "y" * 161, who="c" * 65), NOON, Redactor()).decode()
    assert f"`{'x' * 160}`" in line
    assert f"`{'y' * 159}…`" in line
    assert f"`{'c' * 63}…`" in line, "although it looks like a secret"


def test_blanks_do_not_count() -> None:
    line = format_line(entry("a" + " " * 1500 + "b", "\n\n" * 500 + "c " * 300), NOON, Redactor()).decode()
    assert "asked: `a b`" in line
    assert f"answered: `{'c ' * 79}c…`" in line


def test_secrets_are_left_out_also_where_the_text_is_cut() -> None:
    token = "sk-" + "Ab3" * 20
    line = format_line(
        entry(f"use {token}", "x" * 140 + " password=hunter22 sesame-open"), NOON, Redactor(["sesame-open"])
    ).decode()
    assert "Ab3Ab3" not in line
    assert "hunter22" not in line
    assert "use [secret]" in line


@given(st.text(), st.text(), st.text())
def test_whatever_the_texts_are_it_is_one_line(asked: str, answered: str, who: str) -> None:
    line = format_line(entry(asked, answered, who=who), NOON, Redactor()).decode()
    assert line.startswith("- 12:03 · `")
    assert line.endswith("\n")
    assert len(line.splitlines()) == 1
    assert line[:-1].replace("\u200c", "").replace("\u200d", "").isprintable()
    assert len(line) < 1000


# ---------------------------------------------------------------- a file


async def test_turns_are_logged_by_day_for_whoever_they_were(home: Home, clock: ManualClock) -> None:
    keeper = keeper_of(home, clock)
    keeper.start()
    keeper.append(entry("one"))
    keeper.append(entry("two", principal="alice"))
    await until(lambda: log_of(home).exists() and (make_personal_folder(home, "alice") / "memory").exists())
    clock.advance(12 * 3600)
    keeper.append(entry("three"))
    await keeper.close()
    text = log_of(home).read_text()
    assert text.startswith("# 2026-11-05\n\n- 12:03 · ")
    assert "asked: `one`" in text
    assert "two" not in text
    assert "three" in log_of(home, "2026-11-06").read_text()
    hers = make_personal_folder(home, "alice") / "memory" / "2026-11-05.md"
    assert "asked: `two`" in hers.read_text()


async def test_a_note_never_waits_and_too_many_are_lost_not_kept(home: Home, clock: ManualClock) -> None:
    keeper = keeper_of(home, clock)
    for number in range(MAX_WAITING + 50):
        keeper.append(entry(str(number)))
    await written(keeper)
    assert log_of(home).read_text().count("\n- ") == MAX_WAITING


async def test_what_comes_while_it_closes_is_not_lost_silently(home: Home, clock: ManualClock) -> None:
    keeper = keeper_of(home, clock)
    await written(keeper, entry("one"))
    keeper.append(entry("late"))
    assert "late" not in log_of(home).read_text()


async def test_zero_days_write_nothing_and_leave_what_is_there(home: Home, clock: ManualClock) -> None:
    log_of(home, "2020-01-01").parent.mkdir()
    log_of(home, "2020-01-01").write_text("old")
    await written(keeper_of(home, clock, days=0), entry())
    assert [path.name for path in (home.workspace / "memory").iterdir()] == ["2020-01-01.md"]


async def test_a_torn_line_is_ended_before_the_next_one(home: Home, clock: ManualClock) -> None:
    log_of(home).parent.mkdir()
    log_of(home).write_text("# 2026-11-05\n\n- 11:00 · `ma")
    await written(keeper_of(home, clock), entry("one"))
    assert "`ma\n- 12:03 · `main`" in log_of(home).read_text()


async def test_a_day_has_an_end(home: Home, clock: ManualClock) -> None:
    log_of(home).parent.mkdir()
    log_of(home).write_text("x" * (MAX_FILE_BYTES - 10) + "\n")
    await written(keeper_of(home, clock), entry("one"))
    assert log_of(home).stat().st_size == MAX_FILE_BYTES - 9


async def test_where_there_is_no_room_nothing_is_written(home: Home, clock: ManualClock) -> None:
    await written(keeper_of(home, clock, admit=no_room), entry("one"))
    assert not log_of(home).exists()


@pytest.mark.parametrize("trap", ["link", "folder", "pipe", "way", "second name"])
async def test_whatever_lies_in_its_place_is_left_alone(
    home: Home, clock: ManualClock, tmp_path: Path, trap: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    if trap == "way":
        log_of(home).parent.symlink_to(outside)
    else:
        log_of(home).parent.mkdir()
    if trap == "link":
        log_of(home).symlink_to(outside / "secret")
    elif trap == "folder":
        log_of(home).mkdir()
    elif trap == "pipe":
        os.mkfifo(log_of(home))
    elif trap == "second name":
        log_of(home).hardlink_to(outside / "secret")
    await written(keeper_of(home, clock), entry("mine"), entry("hers", principal="alice"))
    assert [path.read_text() for path in outside.iterdir()] == ["secret\n"]
    assert (make_personal_folder(home, "alice") / "memory" / "2026-11-05.md").exists(), (
        "another's trap hurts nobody else"
    )


async def test_who_edits_the_file_meanwhile_loses_no_line(home: Home, clock: ManualClock) -> None:
    locks, at = PathLocks(), log_of(home)
    await written(keeper_of(home, clock, locks=locks), entry("one"))
    place = SafePath(home.workspace, at, "log")
    keeper = keeper_of(home, clock, locks=locks)
    held, go = threading.Event(), threading.Event()

    def edit() -> None:
        with locks.thread_lock(at):
            data = at.read_bytes()
            held.set()
            go.wait(PATIENCE)
            place.write_atomically(data.replace(b"one", b"edited"))

    editing = asyncio.create_task(asyncio.to_thread(edit))
    await until(held.is_set)
    keeper.start()
    keeper.append(entry("two"))
    await asyncio.sleep(0.05)
    assert b"two" not in at.read_bytes()
    go.set()
    await editing
    await keeper.close()
    assert "edited" in at.read_text()
    assert "two" in at.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
async def test_it_belongs_to_whom_the_workspace_belongs(home: Home, clock: ManualClock) -> None:
    os.chown(home.workspace, 61000, 61000)
    await written(keeper_of(home, clock), entry())
    assert {path.stat().st_uid for path in home.workspace.rglob("*")} == {61000}


# ---------------------------------------------------------------- how long it stays


async def test_old_days_leave_and_nothing_else_does(home: Home, clock: ManualClock, tmp_path: Path) -> None:
    names = ("2026-10-06.md", "2026-10-07.md", "2020-01-01.md", "2026-13-01.md", "notes.md", "2020-01-01.txt")
    for folder in (home.workspace / "memory", make_personal_folder(home, "alice") / "memory"):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("x")
        (folder / "2019-01-01.md").symlink_to(tmp_path)
        (folder / "2018-01-01.md").mkdir()
    keeper = keeper_of(home, clock)
    keeper.start()
    hers = make_personal_folder(home, "alice") / "memory"
    await until(lambda: not any((folder / names[0]).exists() for folder in (log_of(home).parent, hers)))
    await keeper.close()
    left = ["2018-01-01.md", "2019-01-01.md", "2020-01-01.txt", "2026-10-07.md", "2026-13-01.md", "notes.md"]
    for folder in (home.workspace / "memory", make_personal_folder(home, "alice") / "memory"):
        assert sorted(path.name for path in folder.iterdir()) == left


def test_a_home_without_logs_has_no_old_ones(home: Home, tmp_path: Path) -> None:
    remove_old(home, date(2026, 11, 5))
    (tmp_path / "2020-01-01.md").write_text("x")
    (home.workspace / "memory").symlink_to(tmp_path)
    remove_old(home, date(2026, 11, 5))
    assert (tmp_path / "2020-01-01.md").exists()
