"""What the host deletes when, by clocks that also jump."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table, func, insert, select

from agent_host.database import (
    AGENT_EVENTS,
    HostDatabase,
    PruningLimits,
    agent_requests,
    constraint_sets,
    hub_audit,
    hub_cursors,
    hub_dead_letters,
    hub_envelopes,
    hub_sessions,
    hub_tasks,
    hub_turns,
    model_calls,
    open_database,
    task_results,
    work,
    work_audit,
)
from agent_host.database.shares import STEP_ROWS
from agent_host.hub.agents import new_agent_id
from agent_host.listener.ledger.promotions import promote_nothing
from agent_host.listener.ledger.sql import RESULT, write_batch
from agent_host.listener.ledger.waiting_callbacks import MOST_WAITING
from agent_host.retention import LedgerRetention
from agent_testing import ManualClock
from tests.unit.host.postgresql import new_database, postgresql

DAY = 86_400
NOW = 1_800_000_000_000
WRITES = 3


async def at_once(_: float) -> None:
    return


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HostDatabase]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'mesh.db'}"
    else:
        url = new_database(request.getfixturevalue("server"), tmp_path.name)
    with closing(open_database(url)) as database:
        yield database


def ago(days: float) -> int:
    return NOW - round(days * DAY * 1000)


def frame(days: float, **more: Any) -> dict[str, Any]:
    row = {"workspace": "a", "epoch": 1, "connection": 1, "direction": "in", "type": "x", "bytes": 1}
    return {"at": ago(days), **row, **more}


def call(days: float) -> dict[str, Any]:
    names = ("request_id", "agent_id", "operation", "model", "provider", "upstream_model")
    told = {"streamed": False, "status": "complete", "duration_ms": 1, "estimated": False}
    return {**dict.fromkeys(names, "x"), **told, "started_at": ago(days)}


def request(name: str, days: float | None, status: str = "delivered") -> dict[str, Any]:
    """Work that ended so many days ago; none: it is open, and has been for a year."""
    counts = dict.fromkeys(("attempts", "deliveries", "epoch"), 0)
    times = {"submitted_at": ago(365), "updated_at": ago(365), "expires_at": ago(364)}
    ended = None if days is None else ago(days)
    said = {"request_id": name, "workspace": "a", "fingerprint": "x", "request": "{}", "pinned": False}
    return {**said, **counts, **times, "status": status, "finished_at": ended}


def constraints(version: int, days: float) -> dict[str, Any]:
    names = ("hash", "payload_ref", "severity", "effective_at", "status")
    row = {"workspace": "a", "version": version, "payload": b"", "created_at": ago(days)}
    return {**dict.fromkeys(names, "x"), **row}


def result(task_id: str, days: float, state: str | None = None) -> dict[str, Any]:
    """The result of a task, with a callback in that state."""
    row = {"workspace": "a", "task_id": task_id, "principal": "ann", "finished_at": 1, "result": "{}"}
    delivery = {"delivery": f"d-{task_id}", "delivery_next_at": 1} if state else {}
    return {**row, "recorded_at": ago(days), "truncated": False, "delivery_state": state, **delivery}


def put_session(
    database: HostDatabase, name: str, days: float | None, envelopes: int = 3, creator: str = "agt:1"
) -> None:
    """A session of the hub that was over so many days ago; none: it goes on, and has for a year."""
    told = {"type": "conversation", "creator_id": creator, "state": "closed", "snapshot": "{}", "fired": "[]"}
    times = {"created_at": ago(365), "closed_at": None if days is None else ago(days)}
    put(database, hub_sessions, {"session_id": name, "snapshot_sequence": 1, **told, **times})
    rows = [
        {"session_id": name, "sequence": number, "envelope_id": f"{name}-{number}", "sender_id": "agt:1", "body": "{}"}
        for number in range(1, envelopes + 1)
    ]
    put(database, hub_envelopes, *rows)
    place = {"session_id": name, "agent_id": "agt:1"}
    put(database, hub_cursors, {**place, "acked_through": 0, "acked_above": "[]", "attempts": 0, "done": True})
    put(database, hub_turns, {**place, "sequence": 2, "outcome": "replied", "at": 1})


def put(database: HostDatabase, table: Table, *rows: dict[str, Any]) -> None:
    database.run_sync(lambda connection: connection.execute(insert(table), list(rows)))


def values(database: HostDatabase, column: Any) -> list[Any]:
    return list(database.run_sync(lambda connection: connection.execute(select(column).order_by(column)).scalars()))


def keeper(database: HostDatabase, clock: ManualClock, days: int = 90, rows: int = 0) -> LedgerRetention:
    return LedgerRetention(database, clock, PruningLimits(days, rows), at_once)


async def test_what_is_older_goes_and_what_is_younger_stays(database: HostDatabase, clock: ManualClock) -> None:
    put(database, work_audit, *(frame(days) for days in (200, 91, 89, 0)))
    put(database, model_calls, *(call(days) for days in (91, 89)))
    put(database, work, request("old", 91), request("young", 89))
    put(database, constraint_sets, *(constraints(version, 91 + version) for version in (1, 2, 3)))
    gone = await keeper(database, clock).sweep()
    assert gone == {"work_audit": 2, "model_calls": 1, "work": 1, "constraint_sets": 2}
    assert values(database, work_audit.c.at) == [ago(89), ago(0)]
    assert values(database, work.c.request_id) == ["young"]
    assert values(database, constraint_sets.c.version) == [3], "what is in force stays however old it is"
    assert await keeper(database, clock).sweep() == {}


async def test_what_is_open_or_unread_is_never_deleted(database: HostDatabase, clock: ManualClock) -> None:
    states = ("queued", "dispatched", "accepted", "retry_wait")
    put(database, work, *(request(status, None, status) for status in states), request("unread", 400, "resulted"))
    put(database, work, *(request(status, 400, status) for status in ("dead", "cancelled", "expired", "delivered")))
    await keeper(database, clock, days=1, rows=1).sweep()
    assert values(database, work.c.request_id) == sorted([*states, "unread"])


async def test_what_was_handed_off_goes_though_nobody_reads_its_end(database: HostDatabase, clock: ManualClock) -> None:
    names = [f"ask_{number:03}" for number in range(200)]
    put(database, work, *(request(name, 8 + number / 1000, "resulted") for number, name in enumerate(names)))
    asked = {"caller": "b", "callers": "[]", "created_at": ago(9)}
    put(database, agent_requests, *({"request_id": name, **asked} for name in names))
    await keeper(database, clock, days=0, rows=10).sweep()
    assert values(database, work.c.request_id) == names[:10], "the newest"
    assert values(database, agent_requests.c.request_id) == names[:10]


async def test_what_the_operator_has_handed_off_stays_until_its_end_is_read(
    database: HostDatabase, clock: ManualClock
) -> None:
    names = [f"ask_{number}" for number in range(4)]
    put(database, work, *(request(name, 9, "resulted") for name in names))
    asked = {"caller": "operator", "callers": "[]", "created_at": ago(9)}
    put(database, agent_requests, *({"request_id": name, **asked} for name in names))
    await keeper(database, clock, days=1, rows=1).sweep()
    assert values(database, work.c.request_id) == names
    assert values(database, agent_requests.c.request_id) == names


async def test_results_go_like_the_rest_but_for_those_that_are_still_sent(
    database: HostDatabase, clock: ManualClock
) -> None:
    put(database, task_results, *(result(f"t{days}", days) for days in (91, 89)))
    put(database, task_results, result("pending", 400, "pending"), result("failed", 91, "failed"))
    assert await keeper(database, clock).sweep() == {"task_results": 2}
    assert values(database, task_results.c.task_id) == ["pending", "t89"]
    put(database, task_results, *(result(f"new{number}", 0) for number in range(STEP_ROWS + 9)))
    await keeper(database, clock, days=0, rows=3).sweep()
    assert len(values(database, task_results.c.task_id)) == 3


async def test_a_result_that_comes_again_has_its_row(database: HostDatabase) -> None:
    row = result("t1", 0, "pending")
    again = {**row, "delivery": "another", "recorded_at": row["recorded_at"] + 1}
    for one in (row, again):
        rows = {"results": [tuple(one.get(name) for name in RESULT)] * 2}
        write_batch(database.run_sync, rows, promote_nothing)
    assert values(database, task_results.c.delivery) == [row["delivery"]]


async def test_of_one_workspace_only_so_many_callbacks_wait(database: HostDatabase) -> None:
    put(database, task_results, *(result(f"t{number}", 0, "pending") for number in range(MOST_WAITING - 1)))
    new = [result(name, 0, "pending") for name in ("last", "excess")]
    new += [{**new[0], "workspace": "b"}, result("silent", 0)]
    rows = [tuple(one.get(name) for name in RESULT) for one in new]
    write_batch(database.run_sync, {"results": rows}, promote_nothing)
    waits = task_results.c.delivery_state == "pending"
    assert len(values(database, task_results.c.id)) == MOST_WAITING + 3
    failed = select(task_results.c.task_id).where(task_results.c.delivery_state == "failed")
    waiting = select(task_results.c.workspace, func.count()).where(waits).group_by(task_results.c.workspace)
    assert database.run_sync(lambda connection: connection.execute(failed).scalars().all()) == ["excess"]
    found = database.run_sync(lambda connection: connection.execute(waiting).all())
    assert {tuple(row) for row in found} == {("a", MOST_WAITING), ("b", 1)}


async def test_an_id_is_known_for_as_long_as_its_request_may_be_valid(
    database: HostDatabase, clock: ManualClock
) -> None:
    put(database, work, *(request(f"r{days}", days) for days in (1, 6, 8, 9)))
    put(database, work_audit, frame(2))
    await keeper(database, clock, days=1, rows=1).sweep()
    assert values(database, work.c.request_id) == ["r1", "r6"]
    assert values(database, work_audit.c.at) == []


async def test_the_newest_rows_are_kept(database: HostDatabase, clock: ManualClock) -> None:
    count = 3 * STEP_ROWS + 7
    put(database, work_audit, *(frame(0, bytes=number) for number in range(count)))
    put(database, work, *(request(f"r{days}", days) for days in (10, 20, 30)))
    await keeper(database, clock, days=0, rows=10).sweep()
    assert values(database, work_audit.c.bytes) == list(range(count - 10, count))
    assert len(values(database, work.c.request_id)) == 3
    await keeper(database, clock, days=0, rows=2).sweep()
    assert values(database, work.c.request_id) == ["r10", "r20"]


async def test_sessions_of_the_hub_go_when_they_are_over_for_long(database: HostDatabase, clock: ManualClock) -> None:
    for name, days in (("open", None), ("old", 91), ("young", 89)):
        put_session(database, name, days)
    put_session(database, "long", 100, envelopes=STEP_ROWS + 5)
    letter = {"session_id": "x", "agent_id": "a", "sequence": 1, "envelope_id": "e", "reason": "", "attempts": 5}
    put(database, hub_dead_letters, *({**letter, "at": ago(days)} for days in (91, 89)))
    put(database, hub_audit, *({"kind": "x", "detail": "{}", "at": ago(days)} for days in (91, 89)))
    gone = await keeper(database, clock).sweep()
    assert gone == {"hub_sessions": STEP_ROWS + 5 + 3 + 3, "hub_dead_letters": 1, "hub_audit": 1}
    for table in (hub_sessions, hub_envelopes, hub_cursors, hub_turns):
        assert set(values(database, table.c.session_id)) == {"open", "young"}, table.name


async def test_tasks_of_the_hub_go_when_they_are_over_for_long(database: HostDatabase, clock: ManualClock) -> None:
    def task(name: str, days: float | None) -> dict[str, Any]:
        ended = None if days is None else ago(days)
        return {"task_id": name, "version": 1, "owner_id": "agt:1", "state": "x", "completed_at": ended, "task": "{}"}

    put(database, hub_tasks, *(task(name, days) for name, days in (("live", None), ("old", 91), ("young", 89))))
    assert await keeper(database, clock).sweep() == {"hub_tasks": 1}
    assert values(database, hub_tasks.c.task_id) == ["live", "young"]
    put(database, hub_tasks, *(task(f"new{n}", 1) for n in range(9)))
    await keeper(database, clock, days=0, rows=3).sweep()
    assert values(database, hub_tasks.c.task_id) == ["live", "new7", "new8"]


async def test_logs_of_the_hub_keep_as_many_rows_as_are_kept(database: HostDatabase, clock: ManualClock) -> None:
    for name, days in (("open", None), ("first", 3), ("second", 2), ("third", 1)):
        put_session(database, name, days)
    await keeper(database, clock, days=0, rows=8).sweep()
    assert values(database, hub_sessions.c.session_id) == ["open", "third"]
    await keeper(database, clock, days=0, rows=1).sweep()
    assert set(values(database, hub_envelopes.c.session_id)) == {"open"}


async def test_an_agent_that_says_much_pushes_out_no_log_of_another(database: HostDatabase, clock: ManualClock) -> None:
    put_session(database, "flood", None, envelopes=20, creator="agt:2")
    put_session(database, "flooded", 1, envelopes=20, creator="agt:2")
    put_session(database, "quiet", 3)
    await keeper(database, clock, days=0, rows=8).sweep()
    assert values(database, hub_sessions.c.session_id) == ["flood", "quiet"]


async def test_an_agent_that_registers_anew_pushes_out_what_its_name_has_alone(
    database: HostDatabase, clock: ManualClock
) -> None:
    quiet = new_agent_id("quiet")
    ids = [*(new_agent_id("flood") for _ in range(30)), *[quiet] * 10]
    letter = {"session_id": "x", "sequence": 1, "envelope_id": "e", "reason": "", "attempts": 5, "at": ago(1)}
    task = {"version": 1, "state": "x", "completed_at": ago(1), "task": "{}"}
    put(database, hub_audit, *({"kind": "x", "detail": "{}", "at": ago(1), "agent_id": one} for one in ids))
    put(database, hub_dead_letters, *({**letter, "agent_id": one} for one in ids))
    put(database, hub_tasks, *({**task, "task_id": f"t{n}", "owner_id": one} for n, one in enumerate(ids)))
    for number, one in enumerate(ids):
        put_session(database, f"s{number}", 1, envelopes=1, creator=one)
    await keeper(database, clock, days=0, rows=20).sweep()
    whose = hub_audit.c.agent_id, hub_dead_letters.c.agent_id, hub_tasks.c.owner_id, hub_sessions.c.creator_id
    for column in whose:
        kept = values(database, column)
        assert (kept.count(quiet), len(kept)) == (10, 20), column.table.name


async def test_nought_is_for_ever(database: HostDatabase, clock: ManualClock) -> None:
    put(database, work_audit, frame(10_000))
    put(database, work, request("old", 10_000))
    put(database, constraint_sets, constraints(1, 10_000), constraints(2, 9000))
    assert await keeper(database, clock, days=0).sweep() == {}


async def test_a_clock_that_jumps_ahead_makes_nothing_old(database: HostDatabase, clock: ManualClock) -> None:
    put(database, work_audit, frame(89), frame(0))
    retention = keeper(database, clock)
    clock.set_wall(NOW + 1000 * DAY * 1000)
    assert await retention.sweep() == {}
    clock.set_wall(NOW)
    clock.advance(2 * DAY)
    assert await retention.sweep() == {"work_audit": 1}
    clock.set_wall(NOW - 1000 * DAY * 1000)
    assert await retention.sweep() == {}


async def test_rows_from_a_clock_that_was_ahead_hold_up_no_others(database: HostDatabase, clock: ManualClock) -> None:
    put(database, work_audit, *(frame(-1000) for _ in range(2 * STEP_ROWS)), *(frame(100) for _ in range(5)))
    assert await keeper(database, clock).sweep() == {"work_audit": 5}


async def test_writers_do_not_wait_and_the_room_is_given_back(database: HostDatabase, clock: ManualClock) -> None:
    put(database, work_audit, *(frame(100, detail="x" * 1000) for _ in range(4 * STEP_ROWS)))
    written: list[int] = []

    async def write(_: float) -> None:
        """Between two steps others write."""
        if len(written) < WRITES:
            await database.run(lambda connection: connection.execute(insert(work_audit), [frame(0)]))
            written.append(1)

    def pages(connection: Connection) -> tuple[int, int]:
        if connection.dialect.name != "sqlite":  # PostgreSQL's own autovacuum looks after that
            return connection.execute(select(func.count()).select_from(work_audit)).scalar_one(), 0
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "freelist_count")]
        return found[0], found[1]

    before, _ = database.run_sync(pages)
    assert await LedgerRetention(database, clock, PruningLimits(90, 0), write).sweep() == {"work_audit": 4 * STEP_ROWS}
    after, free = database.run_sync(pages)
    assert after < before / 4
    assert free == 0
    assert database.run_sync(lambda one: one.execute(select(func.count()).select_from(work_audit)).scalar()) == WRITES


@pytest.mark.parametrize(
    ("table", "rows", "limits"),
    [
        (work_audit, [frame(100), frame(100), frame(0)], PruningLimits(days=30, rows=0)),
        (task_results, [result(f"t{number}", 0) for number in range(3)], PruningLimits(days=0, rows=1)),
    ],
    ids=["audit", "results"],
)
async def test_rows_that_are_written_meanwhile_do_not_keep_a_pass_from_ending(
    database: HostDatabase, clock: ManualClock, table: Table, rows: list[dict[str, Any]], limits: PruningLimits
) -> None:
    steps = 0

    async def write(_: float) -> None:
        nonlocal steps
        steps += 1
        assert steps < 10
        put(database, table, {**rows[-1], "task_id": f"new{steps}"} if table is task_results else rows[-1])

    put(database, table, *rows)
    assert await LedgerRetention(database, clock, limits, sleep=write).sweep() == {table.name: 2}


async def test_whoever_writes_without_end_pushes_out_its_own_rows_alone(
    database: HostDatabase, clock: ManualClock
) -> None:
    few = {"workspace": "quiet", "bytes": 0}
    put(database, work_audit, *(frame(2, **few) for _ in range(20)))
    put(database, work_audit, *(frame(1, workspace=None, bytes=number) for number in range(30)))
    put(database, work_audit, *(frame(0, workspace="evil", bytes=number) for number in range(3 * STEP_ROWS)))
    put(database, model_calls, *({**call(1), "agent_id": "quiet"} for _ in range(5)), *(call(0) for _ in range(200)))
    put(database, work, *({**request(f"q{at}", 30), "workspace": "quiet"} for at in range(20)))
    put(database, work, *(request(f"r{at}", 8) for at in range(2 * STEP_ROWS)))
    put(database, task_results, {**result("quiet", 2), "workspace": "quiet"})
    put(database, task_results, *(result(f"t{number}", 1) for number in range(200)))
    await keeper(database, clock, days=0, rows=100).sweep()

    def count(table: Table, owner: Any) -> dict[Any, int]:
        query = select(owner, func.count()).select_from(table).group_by(owner)
        return database.run_sync(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    assert count(work_audit, work_audit.c.workspace) == {"quiet": 20, None: 30, "evil": 50}
    assert values(database, work_audit.c.bytes)[-50:] == list(range(3 * STEP_ROWS - 50, 3 * STEP_ROWS))
    assert count(model_calls, model_calls.c.agent_id) == {"quiet": 5, "x": 95}
    assert count(work, work.c.workspace) == {"quiet": 20, "a": 80}
    assert count(task_results, task_results.c.workspace) == {"quiet": 1, "a": 99}


async def test_what_the_host_has_decided_does_not_yield_to_what_an_agent_causes(
    database: HostDatabase, clock: ManualClock
) -> None:
    noticed = ("alarm.bad_frame", "bad_line.not_json", *AGENT_EVENTS)
    kinds = len(noticed)
    put(database, work_audit, *(frame(3, direction="host", type="resulted") for _ in range(40)))
    put(database, work_audit, *(frame(2, direction="host", type=noticed[at % kinds]) for at in range(STEP_ROWS)))
    put(database, work_audit, *(frame(1) for _ in range(2 * STEP_ROWS)))
    await keeper(database, clock, days=0, rows=540).sweep()
    types = values(database, work_audit.c.type)
    assert types.count("resulted") == 40
    assert "x" not in types, "alarms tell more than frames"
    await keeper(database, clock, days=0, rows=46).sweep()
    assert sorted(values(database, work_audit.c.type)) == sorted(
        ["resulted"] * 40 + [noticed[at % kinds] for at in range(494, 500)]
    )
    await keeper(database, clock, days=0, rows=30).sweep()
    assert values(database, work_audit.c.type) == ["resulted"] * 30
