"""Requests between their arrival and their results: places, ids, cancels, and disks that are slow."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_common.protocol.work import Cancel, Nack, Progress, ResumeOk, encode
from agent_common.redaction import Redactor
from agent_runtime.mediation import WorkRefused
from agent_runtime.mediation.ledger import ledger as book
from agent_runtime.mediation.redaction import redact_frame

from .support import Office, office, request


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Office]:
    with office(tmp_path) as opened:
        yield opened
        await opened.clerk.close()


async def test_of_requests_that_come_at_once_the_first_has_the_place(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    for number in range(3):
        room.clerk.submit(request(f"req-{number}"))
    await room.until(lambda: len(wire.results()) == 2 and wire.signals("accepting"))
    assert len(room.begun) == 1
    assert {one.error.split(":")[0] for one in wire.results() if one.error} == {"overloaded"}


async def test_a_request_that_is_joined_takes_no_second_place(tmp_path: Path) -> None:
    with office(tmp_path, window=2) as room:
        wire = room.wire()
        room.clerk.attach(wire, ResumeOk())
        room.clerk.submit(request("req-1"))
        await room.until(lambda: wire.signals("accepting") == ["req-1"])
        room.clerk.submit(request("req-1"))
        room.clerk.submit(request("req-2"))
        await room.until(lambda: len(wire.signals("accepting")) == 3)
        assert room.begun == ["req-1", "req-2"]
        await room.clerk.close()


async def test_a_flood_is_refused_unread(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    for number in range(5000):
        room.clerk.submit(request(f"req-{number}"))
    assert len(wire.results()) > 4900, "at once, and without a task or a read of the disk for each"
    assert {one.status for one in wire.results()} == {"denied"}
    await room.until(lambda: wire.signals("accepting"))
    assert len(room.begun) == 1


async def test_a_cancel_right_behind_its_request_counts(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    room.clerk.cancel(Cancel(request_id="req-1"))
    await room.until(lambda: wire.results("req-1"))
    assert not [one for one in wire.said if isinstance(one, Nack)]
    assert (wire.results()[0].error or "").startswith("cancelled")
    assert wire.signals("accepting") == ["req-1"]


async def test_a_host_that_changes_its_mind_gets_the_result(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))
    piece = room.hands.pieces["req-1"]
    held, piece.stop = piece.stop, _nothing
    room.clerk.attach(wire, ResumeOk(verdicts={"req-1": "forget"}))
    room.clerk.attach(wire, ResumeOk(verdicts={"req-1": "continue"}))
    await held("cancelled")
    await room.until(lambda: wire.results("req-1"))


async def _nothing(why: str) -> None:
    del why


async def test_an_acknowledgement_of_what_has_no_result_settles_nothing(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))
    await room.clerk.acknowledge("req-1")
    await room.clerk.acknowledge("of nobody")
    assert (await room.clerk.resume_frame()).running == ("req-1",)
    await room.restart()
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    await room.hands.pieces["req-1"].finish()
    await room.until(lambda: wire.results("req-1"))


async def test_a_result_that_comes_to_the_disk_late_is_said_all_the_same(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))
    piece = room.hands.pieces["req-1"]
    piece.over.set()  # its end was told, and the disk is full
    await room.rest()
    room.clerk.submit(request())
    await room.until(lambda: len(wire.signals("accepting")) == 2)
    await piece.record()
    await room.until(lambda: wire.results("req-1"))


async def test_work_whose_admission_was_not_heard_of_is_found_again(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    taken = request()
    await room.database.write(lambda connection: book.insert_request(connection, taken, "msg_1", 0), durable=True)
    room.clerk.submit(taken)
    await room.until(lambda: wire.signals("accepting"))
    await room.hands.pieces["req-1"].finish()
    await room.until(lambda: wire.results("req-1"))
    assert room.begun == []


async def test_what_the_next_life_has_keeps_nobody_busy(room: Office) -> None:
    room.clerk.attach(room.wire(), ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: room.hands.pieces)
    piece = room.hands.pieces["req-1"]
    piece.lost = True
    piece.over.set()
    async with asyncio.timeout(60):
        await room.clerk.wait_idle()
    assert (await room.clerk.resume_frame()).running == ("req-1",)


async def test_long_faults_are_cut(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.constraints.fault = "x" * 10_000
    room.clerk.submit(request())
    await room.until(lambda: wire.results("req-1"))
    assert wire.signals("constraints_outdated") == ["req-1"]


async def test_what_can_be_tried_again_is_not_in_the_ledger(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.hands.refusal = WorkRefused("overloaded", "the queue is full")
    room.clerk.submit(request())
    await room.until(lambda: wire.results("req-1"))
    room.hands.refusal = None
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))


# ---------------------------------------------------------------- results on their way


async def _with_results(room: Office, count: int) -> None:
    for number in range(count):
        taken = request(f"req-{number:05}")
        room.clerk.submit(taken)
        await room.until(lambda taken=taken: taken.request_id in room.hands.pieces)
        await room.hands.pieces[taken.request_id].finish()
        await room.until(lambda: len(room.clerk.active) == 0)


async def test_a_large_outbox_goes_out_as_the_host_reads(room: Office) -> None:
    await _with_results(room, 20)
    wire = room.wire()
    wire.reads.clear()
    room.clerk.attach(wire, ResumeOk())
    await room.until(wire.results)
    await room.rest()
    assert len(wire.results()) == 1
    wire.reads.set()
    await room.until(lambda: len(wire.results()) == 20)
    assert [one.request_id for one in wire.results()] == sorted(one.request_id for one in wire.results())


async def test_a_connection_that_ends_meanwhile_leaves_the_rest_to_the_next(room: Office) -> None:
    await _with_results(room, 5)
    first, second = room.wire(), room.wire()
    first.reads.clear()
    room.clerk.attach(first, ResumeOk())
    await room.until(first.results)
    room.clerk.detach()
    first.reads.set()
    room.clerk.attach(second, ResumeOk())
    await room.until(lambda: len(second.results()) == 5)
    assert len(first.results()) == 1


async def test_a_host_that_acknowledges_nothing_does_not_fill_the_disk(room: Office) -> None:
    wire = room.wire()
    room.clerk.attach(wire, None)
    await _with_results(room, 3)
    assert len({result.request_id for result in wire.results()}) == 3
    room.clock.advance(book.KEPT_MS / 1000 + 1)
    room.clerk.submit(request("later"))
    await room.until(lambda: "later" in room.hands.pieces)
    await room.hands.pieces["later"].finish()
    await room.until(lambda: wire.results("later"))
    await room.until(lambda: len(room.clerk.active) == 0)
    await room.rest()
    kept = await room.database.read(book.unacknowledged_ids)
    assert kept == ("later",)


async def test_what_is_acknowledged_is_kept_for_a_day_and_a_thousand_of_it(room: Office) -> None:
    """A request that comes again is answered from the ledger for as long; then it is not known any more."""
    room.clerk.attach(room.wire(), ResumeOk())
    await _with_results(room, 1)
    await room.clerk.acknowledge("req-00000")
    now, result = room.clock.now_ms(), (await room.database.read(lambda c: book.find(c, "req-00000")))
    assert result is not None
    assert result.result is not None
    told = result.result

    def older(connection: sqlite3.Connection) -> None:
        for number in range(book.MAX_KEPT_RESULTS + 5):
            name = f"old-{number:05}"
            book.insert_request(connection, request(name), "", now)
            book.save_result(connection, told.model_copy(update={"request_id": name}))
            book.acknowledge(connection, (name,), now - book.MAX_KEPT_RESULTS - 5 + number)

    await room.database.write(older)
    kept = await room.database.read(lambda c: c.execute("SELECT count(*) FROM work").fetchone()[0])
    assert kept == book.MAX_KEPT_RESULTS
    assert await room.database.read(lambda c: book.find(c, "old-00000")) is None, "the oldest has gone first"
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request("req-00000"))
    await room.until(lambda: wire.results("req-00000"))
    assert room.begun == ["req-00000"], "it is answered, and not begun"
    room.clock.advance(book.KEPT_MS / 1000 + 1)
    await room.clerk.acknowledge("of nobody")
    assert await room.database.read(lambda c: c.execute("SELECT count(*) FROM work").fetchone()[0]) == 0
    room.clerk.submit(request("req-00000"))
    await room.until(lambda: wire.signals("accepting"))
    assert room.begun == ["req-00000"] * 2, "nobody knows it any more"


@pytest.mark.parametrize("content", ["word " * 2000, "\n" * 10_000, "\x01" * 5000, "é" * 9000])
async def test_words_that_are_too_many_for_the_host_are_cut(room: Office, content: str) -> None:
    wire = room.wire(max_line=4096)
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))
    await room.hands.pieces["req-1"].finish(content=content)
    await room.until(wire.results)
    result = wire.results()[0]
    assert len(encode(result)) <= 4096
    assert (result.status, (result.content or "")[:20]) == ("completed", content[:20])
    assert "result_too_large" in (result.content or "")


async def test_json_that_is_too_much_is_left_out(room: Office) -> None:
    wire = room.wire(max_line=1024)
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))
    await room.hands.pieces["req-1"].finish(content=json.dumps({"result": "x" * 4096}))
    await room.until(wire.results)
    result = wire.results()[0]
    assert (result.status, result.content, (result.error or "")[:16]) == ("failed", None, "result_too_large")


async def test_a_secret_does_not_go_out_in_pieces(room: Office) -> None:
    wire = room.wire(redactor=Redactor(["sesame-42"]))
    room.clerk.attach(wire, ResumeOk())
    room.clerk.submit(request())
    await room.until(lambda: wire.signals("accepting"))
    await room.restart()
    room.hands.pieces["req-1"].said = ["it is ses", "ame", "-42, and sesa", "me too"]
    room.clerk.attach(wire, ResumeOk())
    await room.until(lambda: len([one for one in wire.said if isinstance(one, Progress)]) >= 4)
    said = [redact_frame(one, wire.redactor).text or "" for one in wire.said if isinstance(one, Progress)]
    assert "".join(said) == "it is [redacted], and sesame too"
