"""The recorder: what is on disk is what was said, whenever it was saved."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import chunks as c
from agent_runtime.errors import StoreError
from agent_runtime.sessions import Recorder, rows
from agent_runtime.sessions.record.parts import MessageParts
from agent_runtime.sessions.record.recorder import FLUSH_CHARACTERS
from agent_runtime.sessions.store.streaming_text import StreamingText
from agent_runtime.store import Database, Unit
from agent_testing import ManualClock
from tests.unit.sessions.support import begin, of_json, opened, parts, raw_parts, recorder, text

PIECES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=6)
PATIENCE = 60.0


def call(call_id: str, *, broken: bool = False, failed: bool = False, dynamic: bool | None = None) -> list[c.Chunk]:
    names: dict[str, Any] = {"toolCallId": call_id, "toolName": "read", "dynamic": dynamic}
    start = [c.ToolInputStart(**names), c.ToolInputDelta(toolCallId=call_id, inputTextDelta="{")]
    if broken:
        return [*start, c.ToolInputError(**names, input="{", errorText="not JSON")]
    ready = [*start, c.ToolInputAvailable(**names, input={"path": "a"})]
    if failed:
        meta = {"metadata": {"kind": "backend"}}
        return [*ready, c.ToolOutputError(toolCallId=call_id, errorText="no", toolMetadata=meta)]
    return [*ready, c.ToolOutputAvailable(toolCallId=call_id, output={"type": "output", "data": [1, None, "é"]})]


@st.composite
def streams(draw: st.DrawFn) -> list[c.Chunk]:
    """A well-formed message that may break off anywhere."""
    said: list[c.Chunk] = [c.Start(messageId="msg_2", messageMetadata={"session_id": "main"}), c.StartStep()]
    for number in range(draw(st.integers(0, 5))):
        match draw(st.sampled_from(["text", "reasoning", "call", "data", "usage", "step"])):
            case "text":
                said += text(f"t{number}", *draw(PIECES))
            case "reasoning":
                said.append(c.ReasoningStart(id=f"r{number}"))
                said += [c.ReasoningDelta(id=f"r{number}", delta=piece) for piece in draw(PIECES)]
                said.append(c.ReasoningEnd(id=f"r{number}"))
            case "call":
                said += call(f"t{number}", broken=draw(st.booleans()), failed=draw(st.booleans()))
            case "data":
                name, transient = draw(st.sampled_from([None, "x"])), draw(st.booleans())
                said.append(c.DataChunk(type="data-note", id=name, data={"n": number}, transient=transient))
            case "usage":
                usage = {"input": 10 * (number + 1), "output": number, "cost_usd": None}
                said.append(c.MessageMetadata(messageMetadata={"usage": usage}))
            case _:
                said += [c.FinishStep(), c.StartStep()]
    return said[: draw(st.integers(2, len(said)))]


def reduced(said: list[c.Chunk]) -> list[dict[str, Any]]:
    """What the reducer alone makes of the chunks."""
    message = MessageParts(lambda _: "id")
    for chunk in said:
        message.apply(chunk)
    return [{**part.data, "text": part.text} if "text" in part.data else part.data for part in message.parts]


@given(streams(), st.data())
def test_the_rows_equal_the_reducer_whenever_they_were_flushed(said: list[c.Chunk], data: st.DataObject) -> None:
    async def run(path: Path) -> None:
        with opened(path) as database:
            await begin(database)
            saver = recorder(database)
            for chunk in said:
                saver.record(chunk)
                match data.draw(st.sampled_from(["go on", "go on", "flush", "let it land"])):
                    case "flush":
                        saver.flush()
                    case "let it land":
                        await database.write(lambda _: None)  # one may be on its way, and the next one waits for it
                        saver.flush()
                        await database.write(lambda _: None)
                        found = [of_json(row) for row in await raw_parts(database)]
                        assert found == saver.current_parts()
                    case _:
                        pass
            await saver.save(lambda _, __: None)
            assert await parts(database) == saver.current_parts() == reduced(said)
            usage = saver.message.metadata.get("usage", {"input": 0, "output": 0})
            sums = await database.read(lambda db: db.execute("SELECT * FROM chat_sessions").fetchone())
            assert (sums["prompt_tokens"], sums["completion_tokens"]) == (usage["input"], usage["output"])
            calls = [row for row in await raw_parts(database) if row["tool_call_id"]]
            assert all(row["tool_state"] == json.loads(row["data_json"])["state"] for row in calls)

    with TemporaryDirectory() as path:
        asyncio.run(run(Path(path)))


async def test_a_write_that_is_rolled_back_and_begun_again_saves_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the writer does when the disk is full and its reserve is freed."""
    with opened(tmp_path) as database:
        await begin(database)
        saver, write = recorder(database), database.write

        def write_twice(unit: Unit[None], *, durable: bool = False) -> asyncio.Future[None]:
            def twice(connection: sqlite3.Connection) -> None:
                connection.execute("SAVEPOINT again")
                unit(connection)
                connection.execute("ROLLBACK TO again")
                unit(connection)

            return write(twice, durable=durable)

        for piece in ("hello", " world", "!" * 2000):
            for chunk in text("a", piece, end=False)[0 if piece == "hello" else 1 :]:
                saver.record(chunk)
            monkeypatch.setattr(database, "write", write_twice if piece != "hello" else write)
            saver.flush()
            await write(lambda _: None)
            assert [of_json(row) for row in await raw_parts(database)] == saver.current_parts()


async def test_chunks_are_saved_in_time_without_being_asked(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database)
        for chunk in text("a", "one ", "two", end=False):
            saver.record(chunk)
        async with asyncio.timeout(PATIENCE):
            while not await parts(database):
                await asyncio.sleep(0.005)
        assert (await parts(database))[0] == {"type": "text", "text": "one two", "state": "streaming"}
        saver.record(c.TextDelta(id="a", delta=" three"))
        saver.close()
        saver.close()
        await database.write(lambda _: None)
        assert (await parts(database))[0]["text"] == "one two three"


async def test_much_text_is_saved_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database)
        for chunk in text("a", "x" * FLUSH_CHARACTERS, end=False):
            saver.record(chunk)
        saver.record(c.TextDelta(id="a", delta="y" * FLUSH_CHARACTERS))  # while the first is on its way
        await database.write(lambda _: None)
        assert len((await parts(database))[0]["text"]) >= FLUSH_CHARACTERS
        await saver.save(lambda _, __: None)
        assert len((await parts(database))[0]["text"]) == 2 * FLUSH_CHARACTERS


def sabotage(database: Database, on: bool) -> asyncio.Future[None]:
    """Makes every write to the parts fail, or mends it."""

    def unit(connection: sqlite3.Connection) -> None:
        if on:
            connection.execute(
                "CREATE TRIGGER no BEFORE INSERT ON chat_parts BEGIN SELECT RAISE(ABORT, 'no room'); END"
            )
        else:
            connection.execute("DROP TRIGGER no")

    return database.write(unit)


async def test_what_a_failed_flush_carried_is_saved_by_the_next(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database)
        said = [*text("a", "one"), c.MessageMetadata(messageMetadata={"usage": {"input": 7}}), *call("c1")]
        for chunk in said:
            saver.record(chunk)
        await sabotage(database, on=True)
        saver.flush()
        await database.write(lambda _: None)
        await sabotage(database, on=False)
        saver.record(c.StartStep())
        await saver.save(lambda _, __: None)
        assert await parts(database) == saver.current_parts() == reduced([*said, c.StartStep()])
        sums = await database.read(lambda db: db.execute("SELECT total_tokens FROM chat_sessions").fetchone())
        assert sums[0] == 7


async def test_after_a_failed_flush_the_next_one_writes_the_message_as_well(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database)
        for chunk in text("a", "one", end=False):
            saver.record(chunk)
        await sabotage(database, on=True)
        saver.flush()
        await database.write(lambda _: None)
        await sabotage(database, on=False)
        saver.record(c.TextDelta(id="a", delta=" two"))
        saver.flush()
        await database.write(lambda _: None)
        assert await parts(database) == [{"type": "text", "text": "one two", "state": "streaming"}]
        saver.close()


async def test_a_flush_that_only_makes_a_text_longer_leaves_the_message_row_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database, clock)
        changed: list[int] = []
        usage = c.MessageMetadata(messageMetadata={"usage": {"input": 7}})
        for chunk in [*text("a", "one", " two", end=False), usage, c.TextDelta(id="a", delta=" three")]:
            saver.record(chunk)
            clock.advance(1)
            saver.flush()
            await database.write(lambda _: None)
            row = await database.read(
                lambda db: db.execute("SELECT * FROM chat_messages WHERE id = 'msg_2'").fetchone()
            )
            changed.append(row["updated_at"] - clock.now_ms())
            assert json.loads(row["metadata_json"]) == {**saver.message.metadata, "schema_version": 1}
        assert changed == [0, -1000, -2000, 0, -1000]
        await saver.save()
        row = await database.read(lambda db: db.execute("SELECT * FROM chat_messages WHERE id = 'msg_2'").fetchone())
        assert row["updated_at"] == clock.now_ms()
        assert (await parts(database))[0]["text"] == "one two three"


async def test_a_settle_that_failed_may_be_tried_again(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database)
        for chunk in [*text("a", "one", end=False), c.MessageMetadata(messageMetadata={"usage": {"input": 7}})]:
            saver.record(chunk)
        saver.flush()

        def fails(connection: sqlite3.Connection, now: int) -> None:
            raise StoreError("not now")

        for chunk in [c.TextDelta(id="a", delta=" two"), c.TextEnd(id="a")]:
            saver.record(chunk)
        with pytest.raises(StoreError, match="not now"):
            await saver.save(fails)
        ended: list[int] = []
        await saver.save(lambda connection, now: ended.append(now))
        assert await parts(database) == [{"type": "text", "text": "one two", "state": "done"}]
        assert len(ended) == 1
        sums = await database.read(lambda db: db.execute("SELECT total_tokens FROM chat_sessions").fetchone())
        assert sums[0] == 7


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=700), min_size=1, max_size=12))
def test_a_growing_text_is_valid_json_after_every_flush(pieces: list[str]) -> None:
    with TemporaryDirectory() as path, opened(Path(path)) as database:
        asyncio.run(begin(database))
        whole = asyncio.run(_grow(database, pieces))
        row = asyncio.run(raw_parts(database))[0]
        assert json.loads(row["data_json"])["text"] == whole


async def _grow(database: Database, pieces: list[str]) -> str:
    data: dict[str, Any] = {"type": "text", "text": "", "state": "streaming"}
    row = rows.MessageRow("msg_2", "ses_1", "assistant", {}, 1, 1)
    await database.write(lambda connection: rows.upsert_message(connection, row))
    columns = rows.PartRow("prt_1", "msg_2", "ses_1", 0, data, 1).columns()
    growing = await database.write(lambda connection: StreamingText.insert(connection, columns, data))
    for piece in pieces:
        data["text"] += piece
        await database.write(lambda connection, added=piece: growing.append(connection, added, data, 2))
        (found,) = await raw_parts(database)
        assert json.loads(found["data_json"]) == data
        assert growing.end <= growing.capacity == len(found["data_json"].encode())
    return data["text"]


async def test_saving_a_text_costs_in_proportion_to_its_bytes(tmp_path: Path) -> None:
    """Counted in pages that go into the write-ahead log: eight times the text, about eight times the pages."""

    async def pages(size: int) -> int:
        path = tmp_path / str(size)
        path.mkdir()
        with opened(path) as database:
            await database.write(lambda db: db.execute("PRAGMA wal_autocheckpoint = 0").fetchall())
            await begin(database)
            before = (path / "agent.db-wal").stat().st_size
            await _grow_blindly(database, size)
            return ((path / "agent.db-wal").stat().st_size - before) // 4096

    small, large = await pages(64), await pages(512)
    assert large < small * 12


async def _grow_blindly(database: Database, flushes: int) -> None:
    saver: Recorder = recorder(database)
    saver.record(c.TextStart(id="a"))
    for _ in range(flushes):
        saver.record(c.TextDelta(id="a", delta="x" * 512))
        saver.flush()
        await database.write(lambda _: None)
        await asyncio.sleep(0)
    await saver.save(lambda _, __: None)
