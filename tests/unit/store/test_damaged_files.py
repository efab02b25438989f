"""A damaged file is found before anything is built on it, and left as it is."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_runtime.errors import StartError, StoreError
from agent_runtime.store import Backup, Database
from agent_runtime.store.integrity import SMALL

from .support import NOTES, filled, insert, opened, overwrite, texts

LETTER = b"this is a letter and no database at all " * 50


def refusal(path: Path) -> str:
    """Why a server cannot start on it, after which the files are what they were."""
    before = {found: found.read_bytes() for found in (path, path.with_name(path.name + "-wal")) if found.exists()}
    with pytest.raises(StartError) as refused:
        Database(path, NOTES).open()
    assert {found: found.read_bytes() for found in before} == before
    return str(refused.value)


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "the last page": (lambda path: overwrite(path, -4096), "Tree 2|malformed|page"),
    "a page in the middle": (lambda path: overwrite(path, 20 * 4096), "page|malformed"),
    "the first page": (lambda path: overwrite(path, 0), "it is not an SQLite database"),
    "something else": (lambda path: path.write_bytes(LETTER), "it is not an SQLite database"),
    "cut off": (cut(10 * 4096), r"it was truncated: 40960 bytes of \d+ are left"),
    "cut off in the head": (cut(50), "it was truncated: 50 bytes are left"),
    "emptied": (cut(0), "it is empty, although there are backups of it"),
    "deleted": (lambda path: path.unlink(), "it is missing, although there are backups of it"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_every_damage_is_told_with_the_way_back(tmp_path: Path, what: str) -> None:
    path = filled(tmp_path / "a.db")
    backup = Backup(path).make()
    damage, found = DAMAGE[what]
    damage(path)
    said = refusal(path)
    first, *rest = said.splitlines()
    assert first.startswith(f"the database {path} is damaged: ")
    assert re.search(found, first), first
    assert f"cp {backup} {path}" in said
    assert (f"mv {path} " in said) is path.exists()
    assert rest[0].startswith(f"Its newest backup is {backup}, made 2")


def test_without_a_backup_it_says_so(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    overwrite(path, 0)
    said = refusal(path)
    assert f"There is no backup of it in {tmp_path / 'backups'}." in said
    assert f"mv {path} " in said


def test_an_empty_file_beside_a_log_is_not_begun_anew(tmp_path: Path) -> None:
    """SQLite deletes a log whose database is empty, and with it all that it holds."""
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    path.touch()
    with opened(path), closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('kept')")
        connection.commit()
        kept = log.read_bytes()
    for gone, remains in (("empty", path.touch), ("missing", lambda: None)):
        path.unlink(missing_ok=True)
        remains()
        log.write_bytes(kept)
        assert f"it is {gone}, while its log beside it holds {len(kept)} bytes" in refusal(path)


def test_an_empty_file_alone_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    with opened(tmp_path / "a.db"):
        pass
    assert texts(tmp_path / "a.db") == []


def test_a_backup_beside_the_log_of_another_database_is_not_opened(tmp_path: Path) -> None:
    path, log = filled(tmp_path / "a.db"), tmp_path / "a.db-wal"
    backup = Backup(path).make().read_bytes()
    with opened(path), closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM notes WHERE id > 10")
        connection.commit()
        stray = log.read_bytes()
    path.write_bytes(backup)
    log.write_bytes(stray)
    said = refusal(path)
    assert f"mv {log} " in said
    assert "mv " + str(path) + " " not in said
    log.unlink()
    with opened(path):
        pass
    assert len(texts(path)) == 200


def test_a_large_file_is_checked_only_after_a_life_that_did_not_end_cleanly(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", rows=SMALL // 900)
    assert path.stat().st_size > SMALL
    assert (tmp_path / "a.db.lock").read_bytes() == b""
    overwrite(path, -4096)
    with opened(path):
        assert (tmp_path / "a.db.lock").read_text().strip() == str(os.getpid())
    (tmp_path / "a.db.lock").write_text("4711")
    assert "is damaged" in refusal(path)
    assert "is damaged" in refusal(path), "also at the second attempt"


async def test_damage_that_a_life_came_upon_is_not_forgotten_by_its_end(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", rows=SMALL // 900)
    overwrite(path, -4096)
    with opened(path) as database, pytest.raises(StoreError, match="malformed"):
        await database.read(lambda connection: connection.execute("SELECT max(length(text)) FROM notes").fetchall())
    assert "is damaged" in refusal(path)


async def test_a_writer_that_comes_upon_damage_says_the_database_refused(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", rows=SMALL // 900)
    overwrite(path, -4096)
    with opened(path) as database, pytest.raises(StoreError, match="malformed"):
        await database.write(insert("at the end, where the damage is"))
    assert "is damaged" in refusal(path)
