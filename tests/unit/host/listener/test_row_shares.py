"""What an agent can make of the audit trail: rows up to its share of a minute, then one for each kind with a number."""

from __future__ import annotations

from typing import Any

import pytest

from agent_host.listener.audit.row_shares import MOST_BYTES, MOST_KINDS, ROWS, ROWS_OF_REQUEST, RowShares
from agent_host.listener.timers import Timers
from agent_testing import ManualClock

from .conftest import Room

START = 1_800_000_000_000
EARLIER, LATER = "2027-01-15T08:00:00.000Z", "2027-01-15T08:00:05.000Z"


class Trail:
    """The shares, and what they write."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.rows: list[tuple[Any, ...]] = []
        self.shares = RowShares(Timers(self.clock), self.rows.append)

    def add(self, kind: str, times: int = 1, *, of: str | None = "a", direction: str = "in", detail: str = "") -> None:
        for number in range(times):
            refs = (f"r{number}", "ref", 10, "hash", detail or None, "content")
            self.shares.add((self.clock.now_ms(), of, 1, 2, direction, kind, *refs))


@pytest.fixture
def trail() -> Trail:
    return Trail()


def test_beyond_its_share_rows_of_a_kind_are_one_with_number_bytes_and_times(trail: Trail) -> None:
    trail.add("x", ROWS + 7)
    trail.clock.advance(5)
    trail.add("x")
    assert len(trail.rows) == ROWS
    trail.clock.advance(60)
    [row] = trail.rows[ROWS:]
    detail = f"8 more, from {EARLIER} to {LATER}"
    assert row == (START + 5000, "a", 1, 2, "in", "x", None, None, 80, None, detail, None)
    trail.add("x")
    assert len(trail.rows) == ROWS + 2, "a new minute, a new share"


def test_a_workspace_uses_up_its_own_share(trail: Trail) -> None:
    trail.add("x", ROWS + 1)
    trail.add("x", of="b")
    trail.add("attached", of=None, direction="host")
    assert [row[1] for row in trail.rows[ROWS:]] == ["b", None]


def test_progress_has_a_share_of_its_own_and_a_request_adds_to_that_of_all_else(trail: Trail) -> None:
    trail.add("progress", ROWS + 1)
    trail.add("request", ROWS, direction="out")
    trail.add("result", ROWS_OF_REQUEST * ROWS)
    kinds = [row[5] for row in trail.rows]
    assert (kinds.count("progress"), kinds.count("request"), kinds.count("result")) == (ROWS, ROWS, 8 * ROWS)


def test_kinds_that_an_agent_invents_are_counted_together(trail: Trail) -> None:
    trail.add("x", ROWS)
    for number in range(3 * MOST_KINDS):
        trail.add(f"kind-{number}")
    trail.shares.flush()
    assert len(trail.rows) == ROWS + MOST_KINDS + 1
    assert [row[10].split(",")[0] for row in trail.rows if row[5] == "other"] == [f"{2 * MOST_KINDS} more"]
    trail.shares.flush()
    assert len(trail.rows) == ROWS + MOST_KINDS + 1


def test_the_last_detail_is_kept_and_the_size_fits_its_column(trail: Trail) -> None:
    trail.add("bad_line.x", ROWS, direction="host")
    trail.add("bad_line.x", direction="host", detail="no JSON")
    huge = (START, "a", 1, 2, "in", "x", None, None, MOST_BYTES, "hash", None, None)
    trail.shares.add(huge)
    trail.shares.add(huge)
    trail.shares.flush()
    bad, big = trail.rows[ROWS:]
    assert bad[10] == f"1 more, from {EARLIER} to {EARLIER}; the last: no JSON"
    assert big[8] == MOST_BYTES


async def test_a_flood_leaves_the_trail_of_work_whole(room: Room) -> None:
    agent = await room.attached()
    for number in range(3 * ROWS):
        agent.send(ctl="progress", request_id="none", seq=number, kind="text", text="x")
    await room.submit()
    request = await agent.request()
    agent.signal("accepting", request_id="r1")
    agent.result(request)
    await room.ended()
    room.clock.advance(61)

    async def counted() -> list[dict[str, Any]] | None:
        rows, _ = await room.listener.read_audit("a", None, 0, 5000)
        return rows if any(f"{2 * ROWS} more, from " in (row["detail"] or "") for row in rows) else None

    rows = await room.until(counted)
    assert [row["type"] for row in rows if row["request_id"] == "r1"] == [
        *("submitted", "request", "signal.accepting", "result", "resulted", "ack")
    ]
    assert [row["type"] for row in rows].count("progress") == ROWS + 1
