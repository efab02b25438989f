"""The keeper on a real folder: what it writes, what it puts up with, and what it never touches."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_common.redaction import Redactor
from agent_runtime.errors import ToolFailure
from agent_runtime.learnings import LearningService
from agent_runtime.learnings.notes_file import MAX_ENTRIES, MAX_FILE_BYTES, NotesFile
from agent_runtime.learnings.service import MAX_WAITING
from agent_runtime.ports import Correction, ToolContext, ToolResult
from agent_testing import ManualClock

PATIENCE = 60.0


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path.resolve() / "workspace"


@pytest.fixture
async def keeper(workspace: Path) -> AsyncIterator[LearningService]:
    keeper = LearningService(workspace, ManualClock(), Redactor(["sesame-open"]), pause=0.01)
    keeper.start()
    yield keeper
    async with asyncio.timeout(PATIENCE):
        await keeper.close()


def context(principal: str = "operator") -> ToolContext:
    return ToolContext("ses_1", "call_1", Path(), Path(), principal=principal)


def fail(
    keeper: LearningService, text: str, kind: str = "invalid", tool: str = "read", principal: str = "operator"
) -> None:
    keeper.observe(tool, {}, ToolResult("error", error_text=text, metadata={"kind": kind}), context(principal))


def correction(text: str, source: Any = "person (message)", **more: str) -> Correction:
    return Correction(text, source, "operator", "ses_1", **more)


def book(workspace: Path, name: str = "errors.md") -> NotesFile:
    path = workspace / "learnings" / name
    return NotesFile.parse(path.read_text()) if path.is_file() else NotesFile()


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.01)


async def test_failures_are_written_and_counted(keeper: LearningService, workspace: Path) -> None:
    fail(keeper, "a.md does not exist")
    fail(keeper, "line 9 is beyond the end", tool="edit")
    fail(keeper, "b.md does not exist")
    await until(lambda: len(book(workspace).entries) == 2)
    first, second = book(workspace).entries
    assert (first.get("tool"), first.get("error"), first.times, first.get("text")) == (
        *("read", "invalid", 2),
        "a.md does not exist",
    )
    assert (second.get("tool"), second.last, second.get("user")) == ("edit", "2027-01-15 08:00", "operator")
    fail(keeper, "line 10 is beyond the end", tool="edit")
    await until(lambda: book(workspace).entries[1].times == 2)
    assert "[edit, invalid, 2027-01-15, 2 times] line 9 is beyond the end" in keeper.render_section("operator")
    assert keeper.render_section("ada") == ""


@pytest.mark.parametrize("kind", ["denied", "unavailable", None])
async def test_what_nobody_can_avoid_is_not_noted(keeper: LearningService, workspace: Path, kind: str) -> None:
    fail(keeper, "not now", kind)
    keeper.observe("read", {}, ToolResult("output", {"timed_out": True}), context())
    keeper.observe("bash", {}, ToolResult("output", {"timed_out": False, "exit_code": 1}), context())
    await keeper.close()
    assert not (workspace / "learnings").exists()


async def test_a_command_that_ran_out_of_time_is_a_failure(keeper: LearningService, workspace: Path) -> None:
    done = ToolResult("output", {"timed_out": True, "exit_code": None})
    keeper.observe("bash", {"command": "npm run dev --token=abc"}, done, context())
    await keeper.close()
    (entry,) = book(workspace).entries
    assert entry.get("error") == "timeout"
    assert entry.get("text") == "the command was ended at its deadline: npm run dev --token=[secret]"


async def test_secrets_stay_out(keeper: LearningService, workspace: Path) -> None:
    fail(keeper, "refused: sesame-open and Bearer abcdefghijk")
    await keeper.save_correction(correction("say sesame-open", answer_to="api_key=12345"))
    await keeper.close()
    for name in ("errors.md", "corrections.md"):
        text = (workspace / "learnings" / name).read_text()
        assert "[secret]" in text
        assert not any(secret in text for secret in ("sesame-open", "abcdefghijk", "12345"))


async def test_a_correction_is_on_disk_once_it_is_learnt(keeper: LearningService, workspace: Path) -> None:
    await keeper.save_correction(correction("use pnpm", "agent", where="in web projects"))
    await keeper.save_correction(correction("Use  PNPM", "agent", where="in web projects"))
    keeper.record_correction(correction("use pnpm", answer_to="npm install done"))
    await keeper.close()
    mine, theirs = book(workspace, "corrections.md").entries
    assert (mine.get("from"), mine.times, mine.get("text")) == ("agent", 2, "use pnpm")
    assert (theirs.get("from"), theirs.get("answer to")) == ("person (message)", "npm install done")
    with pytest.raises(ToolFailure, match="just now"):
        await keeper.save_correction(correction("too late"))


def link_file(folder: Path, name: str, outside: Path) -> None:
    folder.mkdir()
    (folder / name).symlink_to(outside / "file")


def link_folder(folder: Path, name: str, outside: Path) -> None:
    folder.symlink_to(outside)


def a_folder(folder: Path, name: str, outside: Path) -> None:
    (folder / name).mkdir(parents=True)


def a_file_as_folder(folder: Path, name: str, outside: Path) -> None:
    folder.write_text("x")


def a_pipe(folder: Path, name: str, outside: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / name)


def a_socket(folder: Path, name: str, outside: Path) -> None:
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{name}")
    os.close(here)


def a_hundred_megabytes(folder: Path, name: str, outside: Path) -> None:
    folder.mkdir()
    with (folder / name).open("wb") as file:
        file.truncate(100 * 2**20)


TRAPS = [link_file, link_folder, a_folder, a_file_as_folder, a_pipe, a_socket, a_hundred_megabytes]


def everything(folder: Path) -> dict[Path, tuple[int, int]]:
    """Each thing, and what shows that it is still the same; a folder's size changes with what is in it."""
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {path: (at.st_ino, 0 if stat.S_ISDIR(at.st_mode) else at.st_size) for path, at in found.items()}


@pytest.mark.parametrize("trap", TRAPS)
async def test_whatever_is_in_the_place_of_a_file_is_left_alone(
    keeper: LearningService, workspace: Path, tmp_path: Path, trap: Callable[[Path, str, Path], None]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("- keep out\n")
    (outside / "corrections.md").write_text("- keep out\n")
    folder = workspace / "learnings"
    trap(folder, "corrections.md", outside)
    before = everything(tmp_path)
    started = time.monotonic()
    with pytest.raises(ToolFailure, match=r"learnings/corrections\.md"):
        await keeper.save_correction(correction("one"))
    keeper.record_correction(correction("two"))
    assert keeper.render_section("operator") == ""
    fail(keeper, "an error all the same")
    if trap not in (link_folder, a_file_as_folder):
        await until(lambda: book(workspace).entries)
    after = everything(tmp_path)
    assert {name: after[name] for name in before} == before
    assert {path.name for path in after.keys() - before.keys()} <= {"errors.md"}
    assert time.monotonic() - started < PATIENCE / 2
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif (folder / "corrections.md").is_dir():
        (folder / "corrections.md").rmdir()
    else:
        (folder / "corrections.md").unlink()
    await keeper.save_correction(correction("three"))
    assert [entry.get("text") for entry in book(workspace, "corrections.md").entries] == ["two", "three"]
    assert (outside / "file").read_text() == (outside / "corrections.md").read_text() == "- keep out\n"


async def test_bytes_that_are_no_text_stay_and_do_no_harm(keeper: LearningService, workspace: Path) -> None:
    (workspace / "learnings").mkdir()
    path, junk = workspace / "learnings" / "errors.md", bytes(range(256)) * 40
    path.write_bytes(junk)
    fail(keeper, "it broke")
    await until(lambda: b"it broke" in path.read_bytes())
    assert path.read_bytes().startswith(junk)
    assert "it broke" in keeper.render_section("operator")


async def test_what_people_change_meanwhile_is_told_and_stays(keeper: LearningService, workspace: Path) -> None:
    await keeper.save_correction(correction("use pnpm"))
    path = workspace / "learnings" / "corrections.md"
    path.write_text(path.read_text().replace("use pnpm", "use pnpm 9") + "- and be brief\n")
    await keeper.save_correction(correction("use pnpm"))
    text = keeper.render_section("operator")
    assert "2 times] use pnpm 9" in text
    assert "by hand] and be brief" in text
    path.unlink()
    assert keeper.render_section("operator") == ""


async def test_a_flood_is_bounded_and_costs_no_correction(keeper: LearningService, workspace: Path) -> None:
    keeper.record_correction(correction("use pnpm"))
    started = time.process_time()
    for n in range(10_000):
        fail(keeper, f"{'x' * (n % 50)} {chr(0x4E00 + n % 9000)} " + "\U0001f600" * 5000)
    assert time.process_time() - started < 10
    await until(lambda: book(workspace).entries and book(workspace, "corrections.md").entries)
    await keeper.close()
    assert 0 < len(book(workspace).entries) <= min(MAX_ENTRIES, MAX_WAITING)
    assert (workspace / "learnings" / "errors.md").stat().st_size <= MAX_FILE_BYTES
    assert "use pnpm" in keeper.render_section("operator")


async def test_nothing_that_a_call_may_answer_breaks_it(keeper: LearningService, workspace: Path) -> None:
    for odd in ("", "\0", "\ud800", "\n" * 5000, "`" * 5000, "## c-0123456789", "x" * 10**6):
        fail(keeper, odd, tool=odd)
        keeper.record_correction(correction(odd, answer_to=odd))
    keeper.observe("bash", {}, ToolResult("output", None), context())
    await keeper.close()
    assert len(book(workspace).entries) >= 5
    assert len(book(workspace, "corrections.md").entries) >= 5
    assert keeper.render_section("operator").isascii()


async def test_notes_of_the_last_moment_are_written_at_the_end(workspace: Path) -> None:
    keeper = LearningService(workspace, ManualClock(), pause=60)
    keeper.start()
    fail(keeper, "early")
    await asyncio.sleep(0)
    closing = asyncio.create_task(keeper.close())
    fail(keeper, "late")
    async with asyncio.timeout(PATIENCE):
        await closing
    assert [entry.get("text") for entry in book(workspace).entries] == ["early", "late"]


async def test_notes_that_come_while_the_last_ones_are_written_are_written_too(workspace: Path) -> None:
    keeper = LearningService(workspace, ManualClock(), pause=0)
    keeper.start()
    (workspace / "learnings").mkdir()
    slow = "".join(f"## e-{n:010x}\n- user: operator\n- text: x\n" for n in range(7000))
    (workspace / "learnings" / "errors.md").write_text(slow)
    fail(keeper, "early")
    await until(lambda: not keeper._has_notes.is_set())  # it is being written
    fail(keeper, "late")
    assert b"early" not in (workspace / "learnings" / "errors.md").read_bytes()
    async with asyncio.timeout(PATIENCE):
        await keeper.close()
    assert {"early", "late"} <= {entry.get("text") for entry in book(workspace).entries}


async def test_an_unchanged_file_is_not_read_again(keeper: LearningService, workspace: Path) -> None:
    fail(keeper, "it broke")
    await until(lambda: book(workspace).entries)
    first = keeper.render_section("operator")
    path = workspace / "learnings" / "errors.md"
    about = path.stat()
    path.chmod(0)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    path.chmod(0o644)
    started = time.process_time()
    for _ in range(200):
        assert keeper.render_section("operator") == first
    assert time.process_time() - started < 3
