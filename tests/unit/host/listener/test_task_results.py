"""Results of tasks at the listener: recorded once, acknowledged when they are on disk, and only if it was agreed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import make_url, select

from agent_common.protocol.work import TaskReport, decode, read_frame
from agent_host.database import task_results
from agent_host.listener.channels.rate_limit import FREE_BYTES
from tests.unit.protocol.work.samples import FIELDS, members, text

from .agent import Agent, Frame
from .conftest import Room

RESULT = {"task_id": "t1", "status": "complete", "result": {"total": 42}}


async def attached(room: Room, name: str = "a") -> Agent:
    """An agent that reports the ends of its tasks."""
    agent = await room.connected(name)
    agent.ready(detail=f"med/1 win=4 max=1048576 sid={agent.sid} tasks=1")
    agent.welcome = await agent.expect("welcome")
    agent.epoch = agent.welcome["epoch"]
    agent.answer(agent.welcome["challenge"])
    agent.send(ctl="resume", running=[], unacked=[])
    await agent.expect("resume_ok")
    return agent


def report(agent: Agent, **changes: Any) -> None:
    agent.send(**{"ctl": "task_result", "task_id": "t1", "user": "ann", "finished_at": 5, "result": RESULT, **changes})


async def acknowledged(agent: Agent) -> Frame:
    return await agent.expect("task_ack")


def rows(room: Room) -> list[dict[str, Any]]:
    """What is on disk."""
    query = select(task_results).order_by(task_results.c.id)
    found = room.database.run_sync(lambda connection: connection.execute(query).mappings().all())
    return [dict(row) for row in found]


async def test_a_result_is_on_disk_before_it_is_acknowledged_and_there_once(room: Room) -> None:
    agent = await attached(room)
    assert agent.welcome["task_results"] is True
    report(agent)
    assert await acknowledged(agent) == {"ctl": "task_ack", "task_id": "t1", "user": "ann"}
    (row,) = rows(room)
    assert (row["workspace"], row["task_id"], row["principal"], row["finished_at"]) == ("a", "t1", "ann", 5)
    assert json.loads(row["result"])["result"] == {"total": 42}
    report(agent)  # again on this connection, and in the host's next life
    await acknowledged(agent)
    await room.again()
    agent = await attached(room)
    report(agent, result={**RESULT, "error": "said differently"})
    await acknowledged(agent)
    assert [row["result"] for row in rows(room)] == [row["result"]]


async def test_a_large_result_may_follow_the_proof_at_once(room: Room) -> None:
    agent = await room.connected()
    agent.ready(detail=f"med/1 win=4 max=1048576 sid={agent.sid} tasks=1")
    agent.welcome = await agent.expect("welcome")
    agent.epoch = agent.welcome["epoch"]
    agent.answer(agent.welcome["challenge"])
    agent.send(ctl="resume", running=[], unacked=[])
    report(agent, result={**RESULT, "result": {"text": "x" * (256 << 10)}})
    assert (await acknowledged(agent))["task_id"] == "t1"
    assert not [frame for frame in agent.seen if frame.get("ctl") == "nack"]
    (row,) = rows(room)
    assert len(row["result"]) > 256 << 10


async def test_the_same_id_of_another_user_or_another_end_is_another_result(room: Room) -> None:
    await room.enrol("b")
    agent, other = await attached(room), await attached(room, "b")
    report(agent)
    report(agent, user="bob")
    report(agent, finished_at=6)
    report(other)
    for one in (agent, agent, agent, other):
        await acknowledged(one)
    assert {(row["workspace"], row["principal"], row["finished_at"]) for row in rows(room)} == {
        ("a", "ann", 5), ("a", "bob", 5), ("a", "ann", 6), ("b", "ann", 5),
    }  # fmt: skip


async def test_an_agent_that_has_not_offered_it_is_refused(room: Room) -> None:
    agent = await room.attached()
    assert "task_results" not in agent.welcome
    report(agent)
    assert (await agent.expect("nack"))["code"] == "not_negotiated"
    assert rows(room) == []


@pytest.mark.parametrize("task", [{"task_type": "sum", "input_data": {}}, {"objective": "Add them up"}])
async def test_work_that_is_a_task_has_its_row_in_the_same_commit(room: Room, task: dict[str, Any]) -> None:
    agent = await attached(room)
    content = json.dumps({**task, "result_url": "https://example.org/done"})
    for name, given_work in (("r1", {"content": content, "content_kind": "structured"}), ("r2", {})):
        await room.submit(name, **given_work)
        request = await agent.request()
        agent.accept(request)
        agent.result(request, content=json.dumps({**RESULT, "task_id": "of the agent"}))
        agent.complete(request)
        await agent.expect("ack")
    (row,) = rows(room)
    assert (row["task_id"], row["principal"], row["delivery_state"]) == ("r1", "ann", "pending")
    assert (row["delivery_host"], row["delivery_url"]) == ("example.org", "https://example.org/done")
    assert json.loads(row["result"])["result"] == {"total": 42}


async def test_work_without_a_task_result_has_what_its_agent_said(room: Room) -> None:
    agent = await attached(room)
    for name, status, more in (
        ("r1", "completed", {"content": "words"}),
        ("r2", "failed", {"content": None, "error": "result_too_large: a line of 9 bytes"}),
        ("r3", "denied", {"content": None, "error": "invalid_content: not JSON"}),
    ):
        await room.submit(name, content="{}", content_kind="json")
        request = await agent.request()
        answer = {"content": "words", **more}
        agent.send(
            request_id=name, status=status, completed_at="2026-11-22T02:19:05Z", audit_ref=request["audit_ref"],
            **{field: value for field, value in answer.items() if value is not None},
        )  # fmt: skip
        await agent.expect("ack")
    first, second = rows(room)
    assert json.loads(first["result"])["result"] == {"text": "words"}
    assert (second["truncated"], json.loads(second["result"])["error_code"]) == (True, "result_too_large")


@pytest.mark.parametrize(
    "content",
    [
        f'{{"task_id":"t","status":"complete","result":{{"x":{"[" * 70}{"]" * 70}}}}}',
        '{"task_id":"t","status":"complete","result":{"x":1,"x":2}}',
        f'{{"task_id":"t","status":"complete","result":{{"x":[{"[]," * 200_000}0]}}}}',
    ],
    ids=["depth", "duplicate", "values"],
)
async def test_a_result_that_costs_its_readers_too_much_or_reads_in_two_ways_stays_text(
    room: Room, content: str
) -> None:
    agent = await attached(room)
    await room.submit(content="{}", content_kind="json")
    request = await agent.request()
    agent.result(request, content=content)
    await agent.expect("ack")
    (row,) = rows(room)
    assert json.loads(row["result"])["result"] == {"text": content}


async def test_results_that_fill_the_disk_are_read_slowly(room: Room) -> None:
    limiter = room.listener.channels.get("a").rate_limiter
    agent = await attached(room)
    report(agent, result={**RESULT, "result": {"text": "x" * 100_000}})
    await acknowledged(agent)
    assert limiter.spend(0) == 0, "they cost no more than their frames at first"
    limiter.spend_stored(FREE_BYTES)
    report(agent, task_id="t2", result={**RESULT, "task_id": "t2", "result": {"text": "x" * 500_000}})
    await acknowledged(agent)
    assert limiter.spend(0) > 2, "seconds until the next frame is read"
    room.pass_time(3600)
    assert limiter.spend(0) == 0
    limiter.spend_stored(FREE_BYTES - 1)
    assert limiter.spend(0) == 0, "and an hour later they are free again"


async def test_who_leaves_before_its_result_is_on_disk_pays_for_it_too(room: Room) -> None:
    limiter = room.listener.channels.get("a").rate_limiter
    limiter.spend_stored(FREE_BYTES)
    agent = await attached(room)
    await room.listener.ledger.writer.flush()
    known = room.count("frames_in")
    with closing(sqlite3.connect(make_url(room.url).database or "", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        report(agent, result={**RESULT, "result": {"text": "x" * 500_000}})
        await room.until(lambda: room.count("frames_in") > known)
        await asyncio.sleep(0)  # the report is taken up in the turn after it is read
        room.session.end("test")
        other.execute("ROLLBACK")
    await room.until(lambda: rows(room))
    assert limiter.spend(0) > 2, "seconds until the next frame is read"


async def test_a_deleted_workspace_keeps_its_results_and_ends_their_callbacks(room: Room) -> None:
    agent = await attached(room)
    report(agent, result_url="https://example.org/done")
    await acknowledged(agent)
    await room.listener.workspaces.delete_channel("a")
    (row,) = rows(room)
    assert row["delivery_state"] == "failed"
    assert "deleted" in row["delivery_error"]


async def test_what_a_hostile_agent_sends_as_a_url_is_recorded_and_never_called(room: Room) -> None:
    agent = await attached(room)
    report(agent, result_url="gopher://127.0.0.1:70/x")
    await acknowledged(agent)
    report(agent, task_id="t2", result={**RESULT, "task_id": "t2"}, result_url="https://a b/")
    assert (await agent.expect("nack"))["code"] == "invalid_frame"
    (row,) = rows(room)
    assert (row["delivery_state"], row["delivery_host"]) == ("failed", None)


async def test_a_result_that_names_another_task_is_refused(room: Room) -> None:
    agent = await attached(room)
    report(agent, task_id="t2")
    refusal = await agent.expect("nack")
    assert refusal["code"] == "invalid_frame"
    assert "task_id" in refusal["detail"]
    assert rows(room) == []


reports = st.fixed_dictionaries(FIELDS["task_result"])
anything = st.none() | st.booleans() | st.integers() | text | members


@given(reports, st.sampled_from(["task_id", "user", "finished_at", "result", "result_url", "truncated"]), anything)
@settings(max_examples=100)
def test_any_report_is_a_frame_or_a_fault_and_what_is_read_can_be_stored(
    frame: dict[str, Any], field: str, value: Any
) -> None:
    given_frame = {"ctl": "task_result", **frame, field: value}
    try:
        found = read_frame(decode(json.dumps(given_frame).encode()))
    except ValueError:  # FrameFault
        return
    assert isinstance(found, TaskReport)
    assert found.result.task_id == found.task_id
    assert "\0" not in found.result.model_dump_json() + found.user + found.task_id + (found.result_url or "")
    assert TaskReport.model_validate(found.model_dump()) == found
