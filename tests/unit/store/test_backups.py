"""Backups: whole, checked, out of the way, and few."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from agent_runtime.errors import StoreError
from agent_runtime.store import Backup, BackupScheduler

from .support import filled, insert, opened, overwrite, texts

OFTEN = 0.0005
"""Minutes."""


def names(path: Path) -> list[str]:
    """What lies in the folder of backups but its lock."""
    folder = path.parent / "backups"
    return sorted(found.name for found in folder.iterdir() if found.name != ".lock") if folder.is_dir() else []


def lay(path: Path, seconds: float) -> None:
    """Makes a file that old."""
    made = time.time() - seconds
    os.utime(path, (made, made))


async def until(check: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not check():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_a_copy_made_while_others_write_is_one_moment_of_the_database(tmp_path: Path) -> None:
    path, done = tmp_path / "a.db", asyncio.Event()
    with opened(path) as database:

        async def write() -> None:
            number = 0
            while not done.is_set():
                await database.write(insert(str(number)), durable=number % 10 == 0)
                number += 1

        writing = asyncio.create_task(write())
        await until(lambda: database.commits > 5)
        copies = [await asyncio.to_thread(Backup(path, tmp_path / f"copy-{n}.db").make) for n in range(5)]
        done.set()
        await writing
    found = [texts(copy) for copy in copies]
    for copied in found:
        assert copied == [str(number) for number in range(len(copied))]
    assert 5 < len(found[0]) < len(found[-1])
    assert all(stat.S_IMODE(copy.stat().st_mode) == 0o600 for copy in copies)
    assert names(path) == []


def test_the_folder_keeps_the_newest_two_whatever_the_clock_says(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "agent-000009-20991231T235959Z.db").write_bytes(b"from the future")
    (tmp_path / "backups" / "mine.txt").write_text("not ours to remove")
    made = [Backup(path).make() for _ in range(3)]
    assert [copy.name[:12] for copy in made] == ["agent-000010", "agent-000011", "agent-000012"]
    assert names(path) == [made[1].name, made[2].name, "mine.txt"]
    assert len(texts(made[2])) == 200


def test_what_a_maker_that_died_has_left_goes_away(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    (tmp_path / "backups").mkdir()
    for draft in (tmp_path / "backups" / ".agent-000001-20260101T000000Z.db.partial", tmp_path / ".copy.db.partial"):
        draft.write_bytes(b"half")
    made = Backup(path).make()
    assert names(path) == [made.name]
    assert len(texts(Backup(path, tmp_path / "copy.db").make())) == 200
    assert not (tmp_path / ".copy.db.partial").exists()


def test_nothing_is_overwritten_and_nothing_made_of_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    for target in (path, tmp_path):
        with pytest.raises(StoreError, match="exists already"):
            Backup(path, target).make()
    with pytest.raises(StoreError, match="there is no database at"):
        Backup(tmp_path / "none.db").make()
    with pytest.raises(StoreError, match="No such file"):
        Backup(path, tmp_path / "nowhere" / "copy.db").make()
    assert not (tmp_path / "none.db").exists()
    assert len(texts(path)) == 200


def test_one_maker_at_a_time(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    Backup(path).make()
    with (tmp_path / "backups" / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another one is being made"):
            Backup(path).make()
    Backup(path).make()


def test_of_a_damaged_database_there_is_no_backup(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    good = Backup(path).make()
    overwrite(path, -4096)
    with pytest.raises(StoreError, match="malformed"):
        Backup(path).make()
    assert names(path) == [good.name]


def test_a_copy_that_came_out_damaged_is_no_backup(tmp_path: Path) -> None:
    path, copy = filled(tmp_path / "a.db"), filled(tmp_path / "copy.db")
    Backup(path)._check(copy)
    overwrite(copy, -4096)
    with pytest.raises(StoreError, match="the copy is damaged: "):
        Backup(path)._check(copy)


def test_one_that_was_broken_off_leaves_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", rows=20_000)

    def broken_off() -> bool:
        backup = Backup(path)
        with ThreadPoolExecutor(1) as pool:
            making = pool.submit(backup.make)
            while not making.done():
                if any((tmp_path / "backups").glob(".*.partial")):
                    backup.stop()
            if (error := making.exception()) is None:
                making.result().unlink()
            else:
                assert str(error) == "no backup was made: it was cancelled"
        return error is not None

    assert any(broken_off() for _ in range(20)), "it was faster every time"
    assert names(path) == []
    stopped = Backup(path)
    stopped.stop()
    with pytest.raises(StoreError, match="it was cancelled"):
        stopped.make()
    assert names(path) == []


# ---------------------------------------------------------------- a server's own


async def test_the_keeper_makes_one_when_something_has_changed(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    with opened(path) as database:
        keeper = BackupScheduler(database, OFTEN)
        keeper.start()
        for number in range(1, 4):
            await until(lambda number=number: any(name.startswith(f"agent-{number:06d}") for name in names(path)))
            await database.write(insert(f"news {number}"))
        await until(lambda: any(name.startswith("agent-000004") for name in names(path)))
        await keeper.close()
    found = names(path)
    assert [name[:12] for name in found] == ["agent-000003", "agent-000004"]
    assert texts(tmp_path / "backups" / found[-1])[-1] == "news 3"


async def test_the_keeper_rests_while_nothing_changes_also_over_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path / "a.db")
    first = Backup(path).make()
    with caplog.at_level("INFO"), opened(path) as database:
        keeper = BackupScheduler(database, OFTEN)
        keeper.start()
        await until(lambda: "backup made" in caplog.text)
        await database.write(lambda _: None)  # a transaction that changes nothing
        await until(lambda: caplog.text.count("backup made") == 2)
        quiet = time.monotonic() + 10 * OFTEN * 60
        await until(lambda: time.monotonic() > quiet)
        await keeper.close()
        assert caplog.text.count("backup made") == 2, "nothing was written since"
    assert names(path) == [first.name]


@pytest.mark.file_times
def test_the_rhythm_goes_on_over_a_restart(tmp_path: Path) -> None:
    """A young backup puts the first one of a life off; one that lies in the future tells nothing."""
    path = filled(tmp_path / "a.db")
    first = Backup(path).make()
    with opened(path) as database:
        assert 3590 < BackupScheduler(database, 60)._first_wait() <= 3600
        lay(first, 1800)
        assert 1790 < BackupScheduler(database, 60)._first_wait() <= 1800
        for away in (-7200, 7200):
            lay(first, away)
            assert BackupScheduler(database, 60)._first_wait() == 30
        first.unlink()
        assert BackupScheduler(database, 60)._first_wait() == 30
        assert BackupScheduler(database, 0.1)._first_wait() == 6


async def test_one_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = filled(tmp_path / "a.db")
    (tmp_path / "backups").write_text("a file in the way")
    with opened(path) as database:
        keeper = BackupScheduler(database, OFTEN)
        keeper.start()
        await until(lambda: caplog.text.count("backup failed") >= 2)
        (tmp_path / "backups").unlink()
        await until(lambda: names(path) and not names(path)[0].endswith(".partial"))
        await keeper.close()
    assert len(names(path)) == 1


async def test_the_end_of_a_server_does_not_wait_for_a_backup(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", rows=40_000)

    async def broken_off() -> bool:
        keeper = BackupScheduler(database, OFTEN)
        keeper.start()
        await until(lambda: any(name.endswith(".partial") for name in names(path)))
        began = time.monotonic()
        await keeper.close()
        assert time.monotonic() - began < 2
        await until(lambda: not any(thread.name == "backup" for thread in threading.enumerate()))
        left = names(path)
        for name in left:  # it was faster this time
            (tmp_path / "backups" / name).unlink()
        return not left

    with opened(path) as database:
        assert any([await broken_off() for _ in range(4)])


async def test_a_keeper_that_is_off_still_clears_away(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / ".agent-000001-20260101T000000Z.db.partial").write_bytes(b"half")
    with opened(path) as database:
        keeper = BackupScheduler(database, 0)
        keeper.start()
        await until(lambda: names(path) == [])
        await keeper.close()


async def test_the_event_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", rows=20_000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE INDEX by_text ON notes (text)")
    with opened(path) as database:
        keeper = BackupScheduler(database, OFTEN)
        keeper.start()
        longest, turns, last = 0.0, 0, time.monotonic()
        while not names(path) or names(path)[-1].endswith(".partial"):
            await asyncio.sleep(0)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            turns += 1
        await keeper.close()
    assert turns > 100
    assert longest < 0.5
