"""The Markdown files of the workspace in memory: what is found, what follows changes, and what is never touched."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_common.clock import calendar_time
from agent_common.redaction import Redactor
from agent_runtime.learnings.daily_log import format_line
from agent_runtime.memory.index.schema import make_scope
from agent_runtime.memory.sources import file_scan, files
from agent_runtime.ports import DailyLogEntry
from agent_runtime.workspace import personal_folder

from .world import World, world

TREE = "The walnut tree was planted in 1998."


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as here:
        yield here


async def sources(here: World, query: str, principal: str = "ada") -> set[str]:
    return {one.source.removeprefix("file ") for one in await here.search(query, principal, limit=20)}


async def test_a_passage_is_found_below_its_headings_and_says_where_it_is(here: World) -> None:
    path = here.file("notes/garden.md", f"# Garden\n\nBeds.\n\n## Trees\n\n{TREE}\n\n```\n# no heading\n```\n")
    os.utime(path, ns=(0, 1_790_000_000_000_000_000))
    (found,) = await here.search("when was the walnut planted")
    assert (found.text, found.source, found.written_at, found.id) == (
        f"Garden > Trees\n{TREE}\n```\n# no heading\n```",
        "file notes/garden.md",
        1_790_000_000_000,
        "",
    )
    assert await sources(here, "garden trees", principal="bob") == {"notes/garden.md"}, "the workspace is everybody's"


async def test_the_index_follows_what_happens_to_files(here: World) -> None:
    path = here.file("MEMORY.md", f"{TREE}\n\n" + "The hazel bush is young. " * 20)
    assert await sources(here, "walnut") == {"MEMORY.md"}
    entries = await here.rows("SELECT id, text FROM memory_entries")
    here.file("MEMORY.md", f"# Plants\n\nNew.\n\n{TREE}\n\n" + "The hazel bush is young. " * 20)
    assert await sources(here, "plants new") == {"MEMORY.md"}
    here.file("MEMORY.md", "The hazel bush is young. " * 20)
    assert await sources(here, "walnut") == set()
    kept = await here.rows("SELECT id, text FROM memory_entries")
    assert {row["text"] for row in kept} < {row["text"] for row in entries} | {kept[0]["text"]}
    path.rename(path.with_name("plants.md"))
    here.look_again()
    assert await sources(here, "hazel") == {"plants.md"}
    path.with_name("plants.md").unlink()
    here.look_again()
    assert await sources(here, "hazel") == set()
    for table in ("memory_entries", "memory_terms", "memory_files"):
        assert await here.count(table) == 0, table


async def test_a_file_that_has_not_changed_is_not_read_again(here: World) -> None:
    path = here.file("notes.md", TREE)
    old = 1_700_000_000_000_000_000
    os.utime(path, ns=(old, old))
    assert await sources(here, "walnut") == {"notes.md"}
    os.utime(path, ns=(old, old))  # it was read once since its times were set
    here.look_again()
    await here.search("walnut")
    read_at, commits = path.stat().st_atime_ns, here.database.commits
    for _ in range(3):
        here.look_again()
        await here.memory.search("hazel", principal="ada")
    assert path.stat().st_atime_ns == read_at
    assert here.database.commits == commits
    entries = await here.rows("SELECT * FROM memory_entries")
    here.file("other.md", "The hazel bush is young.")
    assert await sources(here, "hazel") == {"other.md"}
    assert [tuple(row) for row in await here.rows("SELECT * FROM memory_entries")][:1] == [tuple(entries[0])]


async def test_nothing_outside_is_reached_and_nothing_strange_is_opened(here: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("The walnut secret.")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "more.md").write_text("The walnut elsewhere.")
    workspace = here.home.workspace
    (workspace / "link.md").symlink_to(secret)
    (workspace / "folder").symlink_to(tmp_path / "elsewhere")
    (workspace / "memory").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(workspace / "pipe.md")
    (workspace / "dir.md").mkdir()
    here.file("dir.md/inside.md", "The walnut inside.")
    here.file("binary.md", b"walnut \0 walnut")
    here.file("broken.md", b"The walnut \xff\xfe is broken.")
    here.file("noise.md", b"walnut " + random.Random(1).randbytes(5000).replace(b"\0", b"") + b" walnut")
    here.file("notes.txt", "The walnut text.")
    os.rename(here.file("x.md", "The walnut name."), workspace / "a\u202eb.md")
    assert await sources(here, "walnut", principal="operator") == {"dir.md/inside.md", "broken.md"}
    assert await sources(here, "walnut") == {"dir.md/inside.md", "broken.md"}


@pytest.mark.parametrize(
    "path",
    [
        "AGENTS.md",
        "SOUL.md",
        "USER.md",
        "learnings/errors.md",
        ".backups/notes.md/1",
        ".agents/plans/plan.md",
        "node_modules/left-pad/README.md",
        "memory/2026-11-20.md",
        "a/b/c/d/e/f/g/h/i/j.md",
    ],
)
async def test_what_is_told_elsewhere_or_is_not_everybodys_is_left_out(here: World, path: str) -> None:
    here.file(path, TREE)
    assert await sources(here, "walnut") == set()


async def test_each_principal_finds_his_own_notes_and_no_others(here: World) -> None:
    here.file("memory/2026-11-20.md", "The walnut tree of the operator.")
    for name in ("ada", "bob"):
        folder = personal_folder(here.home, name) / "memory"
        folder.mkdir(parents=True)
        (folder / "2026-11-20.md").write_text(f"The walnut tree of {name}.")
    here.look_again()
    for name in ("operator", "ada", "bob"):
        shown = await here.texts("walnut tree", principal=name)
        assert shown == [f"The walnut tree of {'the operator' if name == 'operator' else name}."]


async def test_the_daily_log_itself_is_left_to_the_sessions_and_what_people_add_is_not(here: World) -> None:
    entry = DailyLogEntry("operator", "main", "complete", "Where is the walnut tree?", "Behind the house.")
    line = format_line(entry, here.clock.now_ms(), Redactor()).decode()
    here.file("memory/2026-11-20.md", f"# 2026-11-20\n\n{line}{line}\nThe hazel bush was cut.\n{line}")
    here.file("memory/log.md", line)
    assert await sources(here, "walnut house", principal="operator") == {"memory/log.md"}
    (found,) = await here.search("hazel bush", principal="operator")
    assert (found.text, found.source) == ("The hazel bush was cut.", "file memory/2026-11-20.md")


async def test_only_files_that_the_agent_may_read_are_told(here: World) -> None:
    for name in ("open.md", "closed.md"):
        here.file(name, f"The walnut in {name}.")
    assert await here.texts("walnut", can_read=lambda path: path == "open.md", limit=1) == ["The walnut in open.md."]


async def test_secrets_do_not_get_into_the_index(here: World) -> None:
    here.file("notes.md", "The walnut password: hunter2-hunter2 and sesame-open \x1b[31m.")
    assert await here.texts("walnut") == ["The walnut password: [secret] and [secret] \\x1b[31m."]


async def test_floods_are_bounded(here: World) -> None:
    here.file("huge.md", ("walnut " * 50 + "\n\n") * 20_000)
    for number in range(30):
        here.file(f"many/{number}.md", f"Hazel {number}.")
    deep = "/".join(["d"] * 200)
    here.file(f"{deep}/x.md", "walnut")
    assert await sources(here, "hazel") <= {f"many/{number}.md" for number in range(30)}
    await here.memory._indexer._scope_files[None].task.start()
    read = (await here.rows("SELECT count(*), max(length(text)) FROM memory_entries WHERE place = 'huge.md'"))[0]
    assert 0 < read[0] <= 500
    assert read[1] < 1000


def test_a_look_stops_where_there_is_too_much(tmp_path: Path) -> None:
    for number in range(file_scan.MAX_FILES + 10):
        (tmp_path / f"{number:05}.md").touch()
    looked = file_scan.scan(tmp_path)
    assert not looked.complete
    assert len(looked.files) == file_scan.MAX_FILES
    assert not file_scan.scan(tmp_path / "missing").files


@pytest.mark.file_times
def test_what_has_just_changed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("now")
    first = file_scan.scan(tmp_path).files["a.md"].signature
    os.utime(tmp_path / "a.md", ns=(0, 1_700_000_000_000_000_000))
    assert first.endswith("?")
    assert not file_scan.scan(tmp_path).files["a.md"].signature.endswith("?")


def many(here: World, count: int, folder: str = "many") -> None:
    """Files that say nothing."""
    (here.home.workspace / folder).mkdir(exist_ok=True)
    for number in range(count):
        (here.home.workspace / folder / f"{number:05}.md").touch()
    here.look_again()


async def settled(here: World) -> None:
    """A look from its beginning to its end, however long it takes."""
    here.look_again()
    await here.memory.search("nothing", principal="ada")
    await asyncio.gather(*(looks.task.start() for looks in here.memory._indexer._scope_files.values()))


@pytest.mark.slow
async def test_a_file_that_is_gone_is_not_found_however_many_there_are(here: World) -> None:
    here.file("a/walnut.md", TREE)
    here.file("z/hazel.md", "The hazel bush is young.")
    assert await sources(here, "walnut hazel") == {"a/walnut.md", "z/hazel.md"}
    many(here, file_scan.MAX_FILES - 1)
    (here.home.workspace / "a" / "walnut.md").unlink()
    await settled(here)
    assert await sources(here, "walnut") == set()
    assert await sources(here, "hazel") == {"z/hazel.md"}
    (here.home.workspace / "z" / "hazel.md").unlink()
    many(here, file_scan.MAX_FILES + 1)
    await settled(here)
    assert await sources(here, "hazel") == set()


def test_where_not_all_is_looked_at_what_was_known_is_looked_for(tmp_path: Path) -> None:
    for name in ("z/there.md", "z/gone.md", "z/folder.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    known = set(file_scan.scan(tmp_path).files)
    (tmp_path / "z" / "gone.md").unlink()
    (tmp_path / "z" / "folder.md").unlink()
    (tmp_path / "z" / "folder.md").mkdir()
    (tmp_path / "a").mkdir()
    for number in range(file_scan.MAX_ENTRIES):
        (tmp_path / "a" / f"{number}").touch()
    looked = file_scan.scan(tmp_path, known=known)
    assert not looked.complete
    assert set(looked.files) == {"z/there.md"}


@pytest.mark.slow
async def test_files_that_are_too_many_are_told_of_and_looked_at_once_there_is_room(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    many(here, file_scan.MAX_FILES)
    await settled(here)
    assert (await here.answer("walnut")).complete
    here.file("many/zzz.md", TREE)
    await settled(here)
    answer = await here.answer("walnut")
    assert (answer.found, answer.complete) == ([], False)
    assert "more Markdown than memory can hold" in answer.missing[0]
    await settled(here)
    assert caplog.text.count("too many Markdown files") == 1
    (here.home.workspace / "many" / "00000.md").unlink()
    await settled(here)
    answer = await here.answer("walnut")
    assert (len(answer.found), answer.complete) == (1, True)


async def test_a_file_for_which_there_was_no_room_is_read_again_once_there_is(here: World) -> None:
    await here.write(lambda c: make_scope(c, "file", None))
    await here.write(lambda c: c.execute("UPDATE memory_scopes SET entries = ?", (files.MAX_PASSAGES - 1,)))
    here.file("a.md", "The hazel bush is young.")
    here.file("b.md", TREE)
    await settled(here)
    assert not (await here.answer("walnut")).found
    await settled(here)
    assert not (await here.answer("walnut")).complete, "also where nothing has changed"
    (here.home.workspace / "a.md").unlink()
    await settled(here)
    answer = await here.answer("walnut")
    assert (len(answer.found), answer.complete) == (1, True)


async def test_what_changes_while_a_long_look_is_stored_is_noticed_soon_after(here: World) -> None:
    for number in range(300):
        here.file(f"{number}.md", f"Number {number} is about the hazel bush. " * 40)
    await here.memory.search("hazel", principal="ada")  # returns before all is stored, except on a fast machine
    (here.home.workspace / "0.md").write_text(TREE)
    here.clock.advance(600)  # so long it takes
    answer = await here.answer("walnut")
    assert [one.source for one in answer.found] == ["file 0.md"]


async def test_a_life_that_died_in_between_leaves_nothing_twice(here: World) -> None:
    here.file("notes.md", "\n\n".join(f"Paragraph {n} " + "about the walnut tree. " * 15 for n in range(40)))
    await here.search("walnut")
    before = sorted(tuple(row) for row in await here.rows("SELECT text, line FROM memory_entries"))
    assert len(before) > 3 * files.PASSAGES_PER_WRITE
    await here.write(lambda c: c.execute("UPDATE memory_files SET signature = ''"))
    here.look_again()
    await here.search("walnut")
    assert sorted(tuple(row) for row in await here.rows("SELECT text, line FROM memory_entries")) == before


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="a file system that keeps any time is needed")
@pytest.mark.parametrize("seconds", [999_999_999_999, 2**62, -(2**62)])
async def test_a_time_that_no_calendar_has_hides_nothing(seconds: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        async with world(Path(folder)) as here:
            os.utime(here.file("far.md", f"# Far\n\n{TREE}\n"), (seconds, seconds))
            here.file("near.md", f"# Near\n\n{TREE}\n")
            assert await sources(here, "walnut") == {"far.md", "near.md"}
            years = {calendar_time(one.written_at).year for one in await here.search("walnut")}
            assert (1970 if seconds < 0 else 9999) in years
