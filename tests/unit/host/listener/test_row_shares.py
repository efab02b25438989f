"""What an agent can make of the audit trail: rows up to its share of a minute, then one for each kind with a number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import agent_host.listener
from agent_host.database import AGENT_EVENTS
from agent_host.listener.audit.row_shares import MOST_BYTES, MOST_KINDS, ROWS, ROWS_OF_REQUEST, RowShares
from agent_host.listener.timers import Timers
from agent_testing import ManualClock

from .agent import NOW, Agent
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


def acknowledge_another_version(agent: Agent) -> None:
    agent.send(version=9, hash="sha256:" + "0" * 64, agent_id=agent.name, observed_at=NOW)


def refuse(agent: Agent, code: str) -> None:
    agent.send(request_id="r1", status="denied", content="", error=f"{code}: x", completed_at=NOW, audit_ref="r1")


@pytest.mark.parametrize(
    ("repeat", "kind"),
    [
        (acknowledge_another_version, "constraints_not_in_force"),
        (partial(refuse, code="overloaded"), "retry_wait"),
        (partial(refuse, code="constraints_outdated"), "retry_wait"),
    ],
)
async def test_what_the_host_says_of_frames_has_the_share_of_their_agent(
    room: Room, repeat: Callable[[Agent], None], kind: str
) -> None:
    agent = await room.attached()
    await room.submit()
    await agent.request()
    await room.listener.workspaces.push_constraints("a", 1, b"{}")
    for _ in range(2 * ROWS):
        repeat(agent)
    agent.send(ctl="ping", n=1)
    await agent.expect("pong")
    agent.abort()
    await room.until(lambda: room.listener.channels.get("a").session is None)
    await room.listener.ledger_writer.flush()
    await asyncio.sleep(0)  # of a commit that has just ended, the acknowledgements come next, and are rows too
    room.pass_time(61)
    await room.listener.ledger_writer.flush()
    rows, _ = await room.listener.read_audit("a", None, 0, 5000)
    assert len(rows) <= ROWS + 2 * ROWS_OF_REQUEST + MOST_KINDS
    assert "more, from" in [row["detail"] for row in rows if row["type"] == kind][-1]


def test_nothing_else_that_the_host_says_of_frames_can_be_repeated_at_will() -> None:
    listener = Path(agent_host.listener.__file__).parent
    sources = [path.read_text() for part in ("connection", "dispatch") for path in (listener / part).glob("*.py")]
    kinds = {kind for source in sources for kind in re.findall(r'\bevent\(\s*"(\w+)"|record_event\("(\w+)"', source)}
    kinds = {one or other for one, other in kinds}
    assert kinds - set(AGENT_EVENTS) == {"overdue"}, "which takes the whole time of an attempt"
    assert set(AGENT_EVENTS) - kinds == {"callback_failed"}


async def test_work_that_is_cancelled_again_and_again_has_one_row_of_it(room: Room) -> None:
    """By the agent that has asked for it, too, while another still does it."""
    agent = await room.attached()
    await room.submit()
    agent.accept(await agent.request())
    for _ in range(3):
        await room.listener.cancel("r1", "no more")
    await agent.expect(lambda frame: frame.get("reason") == "no more")
    rows, _ = await room.listener.read_audit("a", "r1", 0, 100)
    assert [row["type"] for row in rows].count("cancel") == 2, "the decision and the frame"
