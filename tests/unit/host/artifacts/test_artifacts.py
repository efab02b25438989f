"""Artifacts themselves: their bounds, what a crash leaves, and writers that race on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_common.errors import InvalidRequest, NotFound
from agent_common.protocol import Cause
from agent_host.access import TeamMember
from agent_host.artifacts import ArtifactLimits, Artifacts
from agent_host.artifacts.errors import ArtifactConflict, ArtifactsFull, UploadTooSlow
from agent_host.artifacts.names import check_media_type
from agent_host.artifacts.receiving import receive
from agent_host.database import BatchWriter, open_database
from agent_host.errors import TooMany, Unavailable
from agent_host.http import ALWAYS, Condition
from tests.unit.host.postgresql import new_database, postgresql

PATIENCE = 60.0
ANN = TeamMember("ann", "red", is_operator=False)


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


@asynccontextmanager
async def opened(url: str, folder: Path, limits: ArtifactLimits | None = None) -> AsyncGenerator[Artifacts]:
    async with AsyncExitStack() as stack:
        database = open_database(url)
        stack.callback(database.close)
        writer = BatchWriter(database, "test")
        stack.push_async_callback(writer.close)
        artifacts = Artifacts(database, writer, SystemClock(), folder, limits or ArtifactLimits())
        stack.push_async_callback(artifacts.close)
        await artifacts.open()
        yield artifacts


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'mesh.db'}"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def body_of(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def put(
    artifacts: Artifacts, name: str, data: bytes, condition: Condition = ALWAYS, by: TeamMember = ANN, declared: int = 0
) -> int:
    body = body_of(data)
    made, _ = await artifacts.put(by, Cause(), name, "text/plain", body=body, declared=declared, condition=condition)
    return made.version


async def read(artifacts: Artifacts, name: str) -> bytes:
    found = await artifacts.read("red", name, None)
    with found.file:
        return found.file.read()


async def test_a_team_has_so_many_bytes_and_a_version_that_goes_makes_room(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    async with opened(sqlite(tmp_path), folder, ArtifactLimits(bytes=10, versions=2)) as artifacts:
        assert [await put(artifacts, "a", b"12345") for _ in range(4)] == [1, 2, 3, 4]
        with pytest.raises(ArtifactsFull):
            await put(artifacts, "b", b"1")
        with pytest.raises(ArtifactsFull):
            await put(artifacts, "a", b"123456")
        await artifacts.delete(ANN, "a", 3, ALWAYS)
        assert await put(artifacts, "b", b"12345") == 1
        await artifacts.delete(ANN, "a", None, ALWAYS)
        assert await put(artifacts, "b", b"12345") == 2
        with pytest.raises(NotFound):
            await artifacts.delete(ANN, "a", None, ALWAYS)
    assert len(names_in(folder)) == 2, "those of b"


async def test_only_so_many_deleted_names_are_remembered(tmp_path: Path) -> None:
    async with opened(sqlite(tmp_path), tmp_path / "artifacts", ArtifactLimits(deleted=1)) as artifacts:
        for name in ("a", "b"):
            assert await put(artifacts, name, b"1") == 1
        for name in ("a", "b"):
            await artifacts.delete(ANN, name, None, ALWAYS)
            await asyncio.sleep(0.002)  # so that one was deleted first
        assert [await put(artifacts, name, b"1") for name in ("b", "a")] == [2, 1]


async def test_what_a_crash_has_left_goes_at_the_start_and_a_lost_file_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    async with opened(sqlite(tmp_path), folder) as artifacts:
        for number in range(3):
            await put(artifacts, f"n{number}", b"1")
    kept = sorted(folder.iterdir())
    leftovers = [folder / f"art_{number:032x}{suffix}" for number in range(600) for suffix in ("", ".part")]
    for path in leftovers:
        path.write_bytes(b"x")
    async with opened(sqlite(tmp_path), folder) as artifacts:
        assert sorted(folder.iterdir()) == kept
        assert await read(artifacts, "n1") == b"1"
        for path in kept:
            path.unlink()
        with pytest.raises(NotFound, match="no longer there"):
            await read(artifacts, "n1")


async def test_a_reader_keeps_the_bytes_of_a_version_that_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    async with opened(sqlite(tmp_path), folder) as artifacts:
        await put(artifacts, "a", b"1")
        found = await artifacts.read("red", "a", None)
        await artifacts.delete(ANN, "a", None, ALWAYS)
        await artifacts.close()
        assert names_in(folder) == []
        with found.file:
            assert found.file.read() == b"1"


async def test_a_folder_that_takes_nothing_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    async with opened(sqlite(tmp_path), folder) as artifacts:
        folder.rmdir()
        with pytest.raises(Unavailable):
            await put(artifacts, "a", b"1")
        folder.mkdir()
        assert await put(artifacts, "a", b"1") == 1


async def test_one_caller_has_a_share_of_the_uploads_and_a_slow_one_ends(tmp_path: Path) -> None:
    more, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> AsyncIterator[bytes]:
        begun.release()
        await more.wait()
        yield b"1"

    async with opened(sqlite(tmp_path), tmp_path / "artifacts") as artifacts:
        uploads = [
            asyncio.create_task(
                artifacts.put(ANN, Cause(), f"n{number}", "a/b", body=slow(), declared=0, condition=ALWAYS)
            )
            for number in range(16)
        ]
        async with asyncio.timeout(PATIENCE):
            for _ in uploads:
                await begun.acquire()
        with pytest.raises(TooMany):
            await put(artifacts, "another", b"1")
        assert await put(artifacts, "another", b"1", by=TeamMember("bob", "red", is_operator=False)) == 1
        more.set()
        await asyncio.gather(*uploads)
    more.clear()
    with pytest.raises(UploadTooSlow):
        await receive(slow(), io.BytesIO(), seconds=0.01)


@pytest.mark.parametrize(
    "good", ["text/plain", "text/csv; charset=utf-8", 'a/b;c="d e"; f=g', "application/vnd.a+json"]
)
def test_media_types(good: str) -> None:
    assert check_media_type([good]) == good


@pytest.mark.parametrize(
    "bad", ["", "text", "text/", "/html", "text/html\r\nX: y", "text/plain;", 'a/b;c="', "té/x", "a/b;c"]
)
def test_what_is_no_media_type_is_refused(bad: str) -> None:
    with pytest.raises(InvalidRequest):
        check_media_type([bad])


async def race(url: str, folder: Path, rounds: int) -> None:
    """Eight agents write one name, each where it believes the newest version to be."""

    async def agent(artifacts: Artifacts, number: int) -> int:
        member, won = TeamMember(f"agent-{number}", "red", is_operator=False), 0
        while won < rounds:
            found = await artifacts.read("red", "a", None)
            with found.file:
                value = int(found.file.read())
            condition = Condition(versions=frozenset({found.row.version}))
            try:
                await put(artifacts, "a", str(value + 1).encode(), condition, member)
            except ArtifactConflict:
                continue
            won += 1
        return won

    async with opened(url, folder, ArtifactLimits(versions=1)) as artifacts:
        await put(artifacts, "a", b"0")
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(agent(artifacts, number) for number in range(8)))
        assert await read(artifacts, "a") == str(8 * rounds).encode()
        assert (await artifacts.get("red", "a", None)).version == 8 * rounds + 1
    assert len(names_in(folder)) == 1


async def test_racing_writers_lose_nothing(tmp_path: Path) -> None:
    await race(sqlite(tmp_path), tmp_path / "artifacts", 3)


@pytest.mark.slow
async def test_the_same_on_postgresql(server: str, tmp_path: Path) -> None:
    await race(new_database(server, "artifacts"), tmp_path / "artifacts", 10)
