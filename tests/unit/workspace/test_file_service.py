"""The workspace as callers see it, on a real folder that somebody else writes to as well."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_runtime.errors import (
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    RequestError,
    StorageFull,
    TooLarge,
)
from agent_runtime.sandbox import Confinement
from agent_runtime.workspace import (
    FileBackups,
    FileService,
    Home,
    OpenedFile,
    PathLocks,
    Preconditions,
    WriteQuota,
    make_personal_folder,
)
from agent_runtime.workspace.http.file_service import MAX_BUFFERED_BYTES, MAX_HASHED_BYTES
from agent_runtime.workspace.http.write_quota import OWN_BYTES, OWN_FILES
from agent_testing import ManualClock

ANYHOW = Preconditions()
MB = 2**20


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "data")
    home.prepare()
    return home


@pytest.fixture
def shelf(home: Home) -> FileService:
    return shelf_of(home)


def shelf_of(home: Home, size: int = 100 * MB) -> FileService:
    clock = ManualClock()
    ration = WriteQuota(Confinement(None), home.workspace, size)
    return FileService(home, PathLocks(), FileBackups(clock), FileBackups(clock), ration)


def read(shelf: FileService, path: str, principal: str = "operator") -> bytes:
    opened = shelf.open(principal, path)
    assert opened is not None
    with opened.file:
        return opened.file.read()


def about(shelf: FileService, path: str) -> OpenedFile:
    opened = shelf.open("operator", path)
    assert opened is not None
    opened.file.close()
    return opened


def names(shelf: FileService, path: str = "", principal: str = "operator") -> list[str]:
    return [entry.name for entry in shelf.listing(principal, path, None, 1000).entries]


# ---------------------------------------------------------------- reading


async def test_what_is_put_is_read_and_has_the_tag_of_its_content(shelf: FileService) -> None:
    one = await shelf.put("operator", "a/f", b"one", ANYHOW)
    two = await shelf.put("operator", "a/f", b"two", ANYHOW)
    again = await shelf.put("operator", "b", b"one", ANYHOW)
    assert (one.created, two.created) == (True, False)
    assert one.etag == again.etag != two.etag
    assert read(shelf, "a/f") == b"two"
    assert about(shelf, "a/f").etag == two.etag


@pytest.mark.parametrize(
    "size", [0, 1, MAX_BUFFERED_BYTES - 1, MAX_BUFFERED_BYTES, MAX_BUFFERED_BYTES + 1, 3 * MAX_BUFFERED_BYTES]
)
async def test_files_of_every_size_have_one_tag_however_they_are_read(shelf: FileService, size: int) -> None:
    data = os.urandom(size)
    stored = await shelf.put("operator", "f", data, ANYHOW)
    found = about(shelf, "f")
    assert (found.etag, found.size) == (stored.etag, size)
    assert read(shelf, "f") == data


def test_the_tag_of_a_huge_file_changes_with_it(shelf: FileService, home: Home) -> None:
    path = home.workspace / "huge"
    with path.open("wb") as file:
        file.truncate(MAX_HASHED_BYTES + 1)
    before = about(shelf, "huge")
    assert before.etag == about(shelf, "huge").etag
    assert before.size == MAX_HASHED_BYTES + 1
    with path.open("r+b") as file:
        file.write(b"x")
    os.utime(path, ns=(0, 0))
    assert about(shelf, "huge").etag != before.etag


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", True),
        (b"plain", True),
        ("\u00e9\U0001f680".encode(), True),
        (b"a\0b", False),
        (b"na\xefve", False),
        (("x" * 8191 + "\u00e9" * 10).encode(), True),
        (b"x" * 8190 + b"\xff" * 10, False),
        (b"x" * 20_000 + b"\xff", True),
    ],
)
async def test_text_is_told_from_other_things(shelf: FileService, data: bytes, text: bool) -> None:
    await shelf.put("operator", "f", data, ANYHOW)
    assert about(shelf, "f").text is text


def test_what_was_opened_stays_what_it_was(shelf: FileService, home: Home) -> None:
    (home.workspace / "f").write_bytes(b"x" * (MAX_BUFFERED_BYTES + 1))
    opened = shelf.open("operator", "f")
    assert opened is not None
    (home.workspace / "g").write_bytes(b"y")
    (home.workspace / "g").rename(home.workspace / "f")
    with opened.file:
        assert opened.file.read() == b"x" * (MAX_BUFFERED_BYTES + 1)


# ---------------------------------------------------------------- folders


def test_a_folder_is_listed_page_by_page(shelf: FileService, home: Home) -> None:
    made = [f"f{number:02}" for number in range(7)] + ["\u00e9", "100%", "a b"]
    for name in made:
        (home.workspace / name).write_text(name)
    after, seen = None, list[str]()
    while True:
        page = shelf.listing("operator", "", after, 3)
        seen += [entry.name for entry in page.entries]
        after = page.next
        if after is None:
            break
        assert page.bootstrap is None or not seen[3:]
    assert seen == sorted(made, key=str.encode)


def test_a_listing_says_what_things_are(shelf: FileService, home: Home) -> None:
    (home.workspace / "d").mkdir()
    (home.workspace / "d" / "f").write_text("four")
    (home.workspace / "d" / "g").mkdir()
    (home.workspace / "d" / "l").symlink_to("/etc/passwd")
    os.mkfifo(home.workspace / "d" / "p")
    os.close(os.open(os.fsencode(home.workspace / "d") + b"/\xff", os.O_CREAT))
    page = shelf.listing("operator", "d", None, 10)
    found = [(entry.name, entry.type, entry.size) for entry in page.entries]
    assert found == [
        ("f", "file", 4),
        ("g", "folder", None),
        ("l", "link", None),
        ("p", "other", None),
        ("\ufffd", "other", None),
    ]
    assert page.bootstrap is None
    assert shelf.open("operator", "d") is None


def test_the_files_that_sessions_are_told_of_are_named_with_their_bounds(shelf: FileService, home: Home) -> None:
    (home.workspace / "AGENTS.md").write_text("x" * 32_001)
    (home.workspace / "MEMORY.md").write_text("\u00e9" * 16_000)
    (home.workspace / "SOUL.md").symlink_to("AGENTS.md")
    told = shelf.listing("operator", "", None, 10).bootstrap
    assert told is not None
    assert [(one.name, one.size, one.cap, one.prompt_cap, one.cut) for one in told] == [
        ("AGENTS.md", 32_001, 32_000, 32_000, True),
        ("SOUL.md", None, 4_000, 4_000, False),
        ("USER.md", None, 4_000, 4_000, False),
        ("MEMORY.md", 32_000, 64_000, 16_000, False),
    ]


# ---------------------------------------------------------------- changing


async def test_a_change_keeps_the_version_before(shelf: FileService) -> None:
    for data in (b"one", b"two", b"two"):
        await shelf.put("operator", "a/f", data, ANYHOW)
    await shelf.remove("operator", "a/f", ANYHOW)
    kept = names(shelf, ".backups/a/f")
    assert [read(shelf, f".backups/a/f/{name}") for name in kept] == [b"one", b"two"]
    with pytest.raises(NotFound):
        shelf.open("operator", "a/f")
    with pytest.raises(NotFound):
        await shelf.remove("operator", "a/f", ANYHOW)


async def test_conditions_are_held_against_what_is_there(shelf: FileService) -> None:
    new = Preconditions.from_headers(None, "*")
    first = await shelf.put("operator", "f", b"one", new)
    with pytest.raises(PreconditionFailed, match="f: it exists already") as caught:
        await shelf.put("operator", "f", b"two", new)
    assert caught.value.headers == {"ETag": first.etag}
    known = Preconditions.from_headers(first.etag, None)
    second = await shelf.put("operator", "f", b"two", known)
    for change in (shelf.put("operator", "f", b"three", known), shelf.remove("operator", "f", known)):
        with pytest.raises(PreconditionFailed, match="f: it has changed"):
            await change
    with pytest.raises(PreconditionFailed, match="g: there is no such file"):
        await shelf.put("operator", "g", b"x", Preconditions.from_headers("*", None))
    assert read(shelf, "f") == b"two"
    await shelf.remove("operator", "f", Preconditions.from_headers(second.etag, None))


async def test_of_many_who_know_the_same_version_one_changes_it(shelf: FileService) -> None:
    first = await shelf.put("operator", "f", b"0", ANYHOW)
    known = Preconditions.from_headers(first.etag, None)
    changes = (shelf.put("operator", "f", b"%d" % number, known) for number in range(1, 21))
    done = await asyncio.gather(*changes, return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in done) == 1
    assert {type(one) for one in done if isinstance(one, BaseException)} == {PreconditionFailed}


@pytest.mark.parametrize(
    ("name", "cap"), [("AGENTS.md", 32_000), ("SOUL.md", 4_000), ("USER.md", 4_000), ("MEMORY.md", 64_000)]
)
async def test_files_that_sessions_are_told_of_have_a_cap_in_characters(
    shelf: FileService, name: str, cap: int
) -> None:
    await shelf.put("operator", name, ("\N{ROCKET}" * cap).encode(), ANYHOW)
    with pytest.raises(TooLarge, match=f"{name} may have {cap} characters, and this would be {cap + 1}"):
        await shelf.put("operator", name, b"x" * (cap + 1), ANYHOW)
    await shelf.put("operator", f"notes/{name}", b"x" * (cap + 1), ANYHOW)


@pytest.mark.parametrize("path", [".backups", ".backups/f", ".backups/USER.md/x", ".agents/skill-history/a.py"])
async def test_what_the_runtime_keeps_is_read_only(shelf: FileService, path: str) -> None:
    for change in (shelf.put("operator", path, b"x", ANYHOW), shelf.remove("operator", path, ANYHOW)):
        with pytest.raises(NotAllowed) as caught:
            await change
        assert caught.value.code == "read_only"


# ---------------------------------------------------------------- traps and bounds


@pytest.fixture
def trapped(home: Home, tmp_path: Path) -> Path:
    """A workspace full of traps around a secret."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (home.workspace / "link").symlink_to(outside / "f")
    (home.workspace / "way").symlink_to(outside)
    (home.workspace / "dir").mkdir()
    (home.workspace / "file").write_text("mine")
    os.mkfifo(home.workspace / "pipe")
    return outside


@pytest.mark.parametrize(
    ("path", "reading", "writing"),
    [
        ("link", "link", "not_a_file"),
        ("way", "link", "not_a_file"),
        ("way/f", "not_a_folder", "not_a_folder"),
        ("pipe", "not_a_file", "not_a_file"),
        ("file/x", "not_a_folder", "not_a_folder"),
        ("gone/x", "unknown_path", None),
        ("x" * 256, "invalid_request", "invalid_request"),
        ("dir", None, "not_a_file"),
        ("../outside/f", "invalid_request", "invalid_request"),
        ("/etc/passwd", "invalid_request", "invalid_request"),
    ],
)
async def test_no_trap_leads_anywhere(
    shelf: FileService, trapped: Path, path: str, reading: str | None, writing: str | None
) -> None:
    assert await code(asyncio.to_thread(shelf.open, "operator", path)) == reading
    assert await code(shelf.put("operator", path, b"mine", ANYHOW)) == writing
    assert await code(shelf.remove("operator", path, Preconditions.from_headers(None, None))) in (
        writing,
        "unknown_path",
        None,
    )
    assert (trapped / "f").read_text() == "secret"
    assert os.listdir(trapped) == ["f"]


async def code(call: object) -> str | None:
    try:
        await call  # type: ignore[misc]
    except RequestError as error:
        return error.code
    return None


def swaps(path: Path, outside: Path, over: threading.Event) -> None:
    """A command that puts a link in the place of a folder, and takes it away, all the time."""
    away = path.with_name("away")
    while not over.is_set():
        try:
            path.rename(away)
            path.symlink_to(outside)
            path.unlink()
            away.rename(path)
        except OSError:  # the server has made the folder meanwhile
            shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(away, ignore_errors=True)
            path.mkdir(exist_ok=True)


@pytest.fixture
def race(home: Home, tmp_path: Path) -> Iterator[Path]:
    outside, inside = tmp_path / "outside", home.workspace / "dir"
    outside.mkdir()
    inside.mkdir()
    (outside / "f").write_text("secret")
    over = threading.Event()
    thread = threading.Thread(target=swaps, args=(inside, outside, over))
    thread.start()
    yield outside
    over.set()
    thread.join()


async def test_folders_that_are_swapped_for_links_lead_nowhere(shelf: FileService, race: Path) -> None:
    for number in range(300):
        try:
            await shelf.put("operator", "dir/f", b"%d" % number, ANYHOW)
            opened = shelf.open("operator", "dir/f")
            assert opened is not None
            assert opened.file.read() != b"secret"
        except (NotFound, Conflict, NotAllowed):
            continue
    assert (race / "f").read_text() == "secret"
    assert os.listdir(race) == ["f"]


async def test_a_workspace_that_is_full_says_so(home: Home) -> None:
    shelf = shelf_of(home, MB)
    await shelf.put("operator", "f", b"x" * (MB // 2), ANYHOW)
    with pytest.raises(StorageFull, match="there is no room for 1048576 bytes"):
        await shelf.put("operator", "g", b"x" * MB, ANYHOW)
    with pytest.raises(PreconditionFailed):
        await shelf.put("operator", "f", b"x" * MB, Preconditions.from_headers(None, "*"))


# ---------------------------------------------------------------- whose


async def test_each_has_files_of_his_own_under_the_same_names(shelf: FileService, home: Home) -> None:
    for who in ("operator", "alice", "bob"):
        for data in (b"I am nobody", f"I am {who}".encode()):
            for path in ("USER.md", "memory/notes.md"):
                await shelf.put(who, path, data, ANYHOW)
    await shelf.put("alice", "shared.md", b"ours", ANYHOW)
    for who in ("operator", "alice", "bob"):
        assert read(shelf, "USER.md", who) == f"I am {who}".encode()
        assert read(shelf, "memory/notes.md", who) == f"I am {who}".encode()
        (version,) = names(shelf, ".backups/USER.md", who)
        assert read(shelf, f".backups/USER.md/{version}", who) == b"I am nobody"
        assert names(shelf, "", who) == [".backups", "USER.md", "memory", "shared.md"]
        assert names(shelf, "memory", who) == ["notes.md"]
        assert read(shelf, "shared.md", who) == b"ours"
    assert (home.workspace / "USER.md").read_text() == "I am operator"


async def test_what_others_have_does_not_even_show(shelf: FileService) -> None:
    for path in ("USER.md", "memory/f", "shared"):
        for data in (b"one", b"two"):
            await shelf.put("operator", path, data, ANYHOW)
    assert names(shelf, "", "alice") == [".backups", "shared"]
    assert names(shelf, ".backups", "alice") == ["shared"]
    for path in ("USER.md", "memory/f", ".backups/USER.md"):
        with pytest.raises(NotFound):
            shelf.open("alice", path)
    for path in ("memory", ".backups/memory"):
        with pytest.raises(NotFound):
            shelf.listing("alice", path, None, 10)
    for data in (b"one", b"two"):
        await shelf.put("alice", "USER.md", data, ANYHOW)
    assert names(shelf, "", "alice") == [".backups", "USER.md", "shared"]
    assert names(shelf, ".backups", "alice") == ["USER.md", "shared"]
    told = shelf.listing("alice", "", None, 10).bootstrap
    assert told is not None
    assert {one.name: one.size for one in told}["USER.md"] == 3


async def test_pages_of_a_folder_that_is_partly_ones_own(shelf: FileService, home: Home) -> None:
    for name in ("A", "USER.md", "V", "memory", "z"):
        (home.workspace / name).write_text("theirs")
    await shelf.put("alice", "USER.md", b"mine", ANYHOW)
    after, seen = None, list[tuple[str, int | None]]()
    for _ in range(4):
        page = shelf.listing("alice", "", after, 1)
        seen += [(entry.name, entry.size) for entry in page.entries]
        after = page.next
    assert seen == [("A", 6), ("USER.md", 4), ("V", 6), ("z", 6)]
    assert after is None


async def test_what_one_has_for_himself_is_bounded(shelf: FileService, home: Home) -> None:
    with (make_personal_folder(home, "alice") / "memory").open("wb") as file:
        file.truncate(OWN_BYTES - 10)
    await shelf.put("alice", "USER.md", b"0123456789", ANYHOW)
    with pytest.raises(StorageFull, match="your own files are limited to 16 MiB and 2000 files and folders"):
        await shelf.put("alice", "USER.md", b"x", ANYHOW)
    await shelf.put("bob", "USER.md", b"x", ANYHOW)
    (make_personal_folder(home, "carol") / "memory").mkdir()
    for number in range(OWN_FILES):
        (make_personal_folder(home, "carol") / "memory" / str(number)).touch()
    with pytest.raises(StorageFull):
        await shelf.put("carol", "memory/x", b"", ANYHOW)


async def test_folders_of_ones_own_count_and_go_with_their_last_file(shelf: FileService, home: Home) -> None:
    deep = "/d" * 20
    for number in range(40):
        await shelf.put("alice", f"memory/{number}{deep}/f", b"", ANYHOW)
        await shelf.remove("alice", f"memory/{number}{deep}/f", ANYHOW)
    memory = make_personal_folder(home, "alice") / "memory"
    assert [*memory.rglob("*")] == []
    assert memory.is_dir()
    await shelf.put("alice", "memory/a/b/kept", b"", ANYHOW)
    await shelf.put("alice", "memory/a/b/c/gone", b"", ANYHOW)
    await shelf.remove("alice", "memory/a/b/c/gone", ANYHOW)
    assert sorted(path.name for path in memory.rglob("*")) == ["a", "b", "kept"]
    for number in range(OWN_FILES):
        (memory / f"folder{number}").mkdir()
    with pytest.raises(StorageFull):
        await shelf.put("alice", "memory/x", b"", ANYHOW)


async def test_a_folder_that_is_shared_stays_without_its_last_file(shelf: FileService, home: Home) -> None:
    await shelf.put("alice", "src/new/f", b"", ANYHOW)
    await shelf.remove("alice", "src/new/f", ANYHOW)
    assert (home.workspace / "src" / "new").is_dir()


async def test_a_path_that_is_wrong_is_named(shelf: FileService) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await shelf.put("operator", "a//b", b"", ANYHOW)
    assert caught.value.faults == (("path", "'a//b' must have no '.', '..' or empty part"),)
