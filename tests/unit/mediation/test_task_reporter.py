"""Ends of tasks on their way to the host: what a report says, which are kept, and when they go out."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import TaskAssignment, TaskRecord
from agent_common.protocol.work import TaskAck, TaskReport, decode, encode, read_frame
from agent_common.redaction import Redactor
from agent_runtime.loop import StoredTask
from agent_runtime.mediation import TaskReporter
from agent_runtime.mediation.ledger.task_reports import insert_report
from agent_runtime.mediation.work.task_reporter import prepare
from agent_runtime.runtime.migrations import MIGRATIONS
from agent_runtime.store import Database

PATIENCE = 30.0
ASSIGNED: dict[str, Any] = {
    "task_id": "t1", "workflow_id": "w", "step_id": "s", "task_type": "sum", "input_data": {},
}  # fmt: skip


def stored(user: str = "ann", url: str | None = None, rule: str | None = None, **record: Any) -> StoredTask:
    fields = {"task_id": "t1", "status": "complete", "created_at": 1, "finished_at": 2, **record}
    assignment = TaskAssignment.model_validate({**ASSIGNED, "result_url": url, "promotion_rule": rule})
    return StoredTask(user, assignment, TaskRecord.model_validate(fields))


def report(task: StoredTask, max_bytes: int = 1 << 20, secrets: tuple[str, ...] = ()) -> TaskReport:
    found = prepare(task, Redactor(secrets), max_bytes)
    assert found is not None
    return found


# ---------------------------------------------------------------- what it says


def test_a_report_has_the_result_as_it_is() -> None:
    found = report(stored(url="https://Example.org/a?b=1", result={"n": 1, "none": None}, tokens_used=7))
    assert (found.task_id, found.user, found.finished_at, found.truncated) == ("t1", "ann", 2, False)
    assert (found.result.result, found.result.tokens_used) == ({"n": 1, "none": None}, 7)
    assert found.result_url == "https://example.org/a?b=1"


@pytest.mark.parametrize(
    "result",
    [
        {"text": "x" * 5000},
        {"a": json.loads("[" * 70 + "]" * 70)},
        {str(number): 0 for number in range(10_001)},
    ],
    ids=["long", "deep", "wide"],
)
def test_what_the_host_could_not_read_is_cut_and_marked(result: dict[str, Any]) -> None:
    found = report(stored(result=result, error="e" * 5000, error_code="x"), 4096)
    assert found.truncated
    assert (found.result.result, found.result.promote_to_blackboard) == (None, {})
    assert (found.result.status, found.result.error_code) == ("complete", "x")
    assert len(encode(found)) <= 4096


def test_more_values_than_the_host_reads_are_cut_too() -> None:
    found = report(stored(result={"x": [0] * 100_000}), 1 << 20)
    assert (found.truncated, found.result.result) == (True, None)


def test_what_a_task_promotes_is_kept_as_long_as_it_fits() -> None:
    small, large = {"revenue": 1}, {"revenue": "x" * 5000}
    found = report(stored(result=large, promote_to_blackboard=small, rule="if_absent"), 4096)
    assert (found.truncated, found.result.result, found.result.promote_to_blackboard) == (True, None, small)
    assert found.promotion_rule == "if_absent"
    found = report(stored(result=small, promote_to_blackboard=large), 4096)
    assert (found.truncated, found.result.result, found.result.promote_to_blackboard) == (True, None, {})
    assert found.promotion_rule is None


def test_what_no_frame_can_name_is_not_reported() -> None:
    assert prepare(stored(user="u" * 300), Redactor(), 1 << 20) is None
    assert prepare(stored(user="a\nb"), Redactor(), 1 << 20) is None
    assert prepare(stored(), Redactor(), 100) is None


def test_secrets_are_taken_out_of_every_depth() -> None:
    result = {"a": ["sesame-42", {"key sesame-42": 'with"quote'}], "n": 1}
    found = report(stored(result=result, error="it is sesame-42"), secrets=("sesame-42", 'with"quote'))
    assert found.result.result == {"a": ["[redacted]", {"key [redacted]": "[redacted]"}], "n": 1}
    assert found.result.error == "it is [redacted]"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=5), st.integers(600, 4000))
def test_whatever_a_model_answers_the_host_can_read_the_report(result: dict[str, Any], max_bytes: int) -> None:
    found = report(stored(result=result), max_bytes)
    line = encode(found)
    assert len(line) <= max_bytes
    assert read_frame(decode(line.strip())) == found
    assert found.result.result == (None if found.truncated else result)


# ---------------------------------------------------------------- which are kept


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "agent.db", MIGRATIONS)
    database.open()
    with closing(database):
        yield database


async def end_task(database: Database, reporter: TaskReporter, task_id: str, *, work: bool = False) -> None:
    """A task and its end in one transaction. `work`: the host has given it."""

    def unit(connection: sqlite3.Connection) -> None:
        message = f"msg_{task_id}"
        record = TaskRecord(task_id=task_id, status="complete", created_at=1, finished_at=2)
        values = ("ann", task_id, "f", json.dumps({**ASSIGNED, "task_id": task_id}), message, record.model_dump_json())
        connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, 2)", values)
        if work:
            columns = "INSERT INTO work (request_id, fingerprint, request_json, message_id, created_at)"
            connection.execute(f"{columns} VALUES (?, 'f', '{{}}', ?, 1)", (task_id, message))
        reporter.record_end(connection, task_id, message)
        reporter.record_end(connection, task_id, message)  # an end that is recorded again is one end

    await database.write(unit, durable=True)


def waiting(database: Database) -> list[str]:
    with closing(sqlite3.connect(database.path)) as connection:
        return [row[0] for row in connection.execute("SELECT message_id FROM task_reports ORDER BY seq")]


async def test_work_of_the_host_is_not_reported(database: Database) -> None:
    reporter = TaskReporter(database, loose=False)
    await end_task(database, reporter, "mine")
    await end_task(database, reporter, "given", work=True)
    assert waiting(database) == ["msg_mine"]


async def test_a_host_that_is_away_for_long_finds_the_newest(database: Database) -> None:
    def unit(connection: sqlite3.Connection) -> None:
        for number in (0, 1, 1, 2, 3, 4):
            insert_report(connection, f"t{number}", f"msg_t{number}", limit=3)

    await database.write(unit, durable=True)
    assert waiting(database) == ["msg_t2", "msg_t3", "msg_t4"]


# ---------------------------------------------------------------- when they go out


class Wire:
    """A connection that notes what it sends."""

    max_line = 1 << 20
    redactor = Redactor()

    def __init__(self) -> None:
        self.sent: list[TaskReport] = []
        self.news = asyncio.Event()

    def send(self, frame: Any, *, droppable: bool = False) -> None:
        assert not droppable
        self.sent.append(frame)
        self.news.set()

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def until(self, *task_ids: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while [one.task_id for one in self.sent] != list(task_ids):
                await self.news.wait()
                self.news.clear()


async def test_each_is_sent_once_on_a_connection_and_on_the_next_until_it_is_acknowledged(database: Database) -> None:
    reporter = TaskReporter(database, loose=False)
    names = [f"t{number}" for number in range(40)]
    for name in names:
        await end_task(database, reporter, name)
    first = Wire()
    reporter.attach(first)
    await first.until(*names)
    await end_task(database, reporter, "late")
    await first.until(*names, "late")
    for name in names:
        await reporter.acknowledge(TaskAck(task_id=name, user="ann"))
    await reporter.acknowledge(TaskAck(task_id="late", user="bob"))  # of another user
    reporter.detach()
    second = Wire()
    reporter.attach(second)
    await second.until("late")
    await reporter.acknowledge(TaskAck(task_id="late", user="ann"))
    await reporter.acknowledge(TaskAck(task_id="unknown", user="ann"))
    assert waiting(database) == []
    await reporter.close()


async def test_one_that_cannot_be_read_holds_up_no_other(database: Database) -> None:
    reporter = TaskReporter(database, loose=False)
    for name in ("broken", "odd", "gone", "sound"):
        await end_task(database, reporter, name)
    await database.write(lambda one: one.execute("UPDATE tasks SET assignment_json = '[]' WHERE task_id = 'odd'"))
    await database.write(lambda one: one.execute("UPDATE tasks SET record_json = '{' WHERE task_id = 'broken'"))
    await database.write(lambda one: one.execute("DELETE FROM tasks WHERE task_id = 'gone'"))
    wire = Wire()
    reporter.attach(wire)
    await wire.until("sound")
    assert waiting(database) == ["msg_sound"]
    await reporter.close()


async def test_what_is_said_about_a_result_url_depends_on_the_host(database: Database) -> None:
    reporter = TaskReporter(database, loose=False)
    assert reporter.refusal() is None, "the host is not known yet"
    reporter.attach(None)
    assert "does not take results" in str(reporter.refusal())
    reporter.attach(Wire())
    assert reporter.refusal() is None
    assert "loose dialect" in str(TaskReporter(database, loose=True).refusal())
    await reporter.close()
