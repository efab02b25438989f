"""The blackboard itself: its bounds, and writers that race on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_common.errors import RequestError
from agent_common.json_reader import JsonLimits, read_json
from agent_common.protocol import Cause
from agent_host.blackboard.changes import BoardLimits
from agent_host.blackboard.entries import render_entry
from agent_host.blackboard.errors import BlackboardFull, Claimed, VersionConflict
from agent_host.database import end_of_prefix
from agent_host.errors import NotFound
from agent_host.http import ALWAYS, Condition
from agent_testing import ManualClock
from tests.unit.host.postgresql import new_database, postgresql

from .boards import Board, opened

PATIENCE = 60.0


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'mesh.db'}"


async def refused(error: type[RequestError], board: Board, key: str, value: object) -> None:
    with pytest.raises(error):
        await board.put(key, value)


async def test_a_team_has_so_many_entries_of_so_many_bytes(tmp_path: Path) -> None:
    async with opened(sqlite(tmp_path), BoardLimits(entries=2, bytes=100)) as board:
        await board.put("a", "x" * 30)
        await board.put("b", "x" * 30)
        await refused(BlackboardFull, board, "c", 1)
        await refused(BlackboardFull, board, "a", "x" * 80)
        assert await board.of("eve", "blue").put("c", 1) == 1, "another team has its own room"
        assert await board.put("a", "x" * 60) == 2
        await board.delete("b")
        assert await board.put("c", "x" * 30) == 1
        assert await board.keys() == ["a", "c"]


@pytest.mark.parametrize(
    ("value", "count"), [("[" + "1," * 120_000 + "1]", 3), ('"' + "\u65e5" * 87_000 + '"', 24)], ids=["numbers", "text"]
)
async def test_an_agent_can_read_each_page_whatever_others_have_written(tmp_path: Path, value: str, count: int) -> None:
    async with opened(sqlite(tmp_path)) as board:
        for number in range(count):
            await board.board.put(board.member, Cause(), f"{number:02}", value, ttl=None, condition=ALWAYS)
        after: str | None = None
        seen = 0
        while True:
            page = await board.board.list(board.member.team, "", after, 1000)
            body = b"[%b]" % b",".join(render_entry(row) for row in page.rows)
            seen += len(read_json(body, JsonLimits(5 << 20)))
            if (after := page.next) is None:
                break
        assert seen == count


async def test_the_log_keeps_the_newest_and_a_late_watcher_is_told(tmp_path: Path) -> None:
    async with opened(sqlite(tmp_path), BoardLimits(changes=5)) as board:
        await board.put("gone", 1)
        await board.delete("gone")
        for number in range(8):
            await board.put("a", number)
        assert await board.versions("a") == [8, 7, 6, 5, 4]
        assert await board.put("gone", 1) == 1, "all that was known of the old one has gone with its last change"
        async with aclosing(board.changes(after=2)) as events:
            assert await anext(events) == (11, "events-lost", {"kind": "events-lost", "after": 2})
            await board.put("a", "later")
            number, kind, data = await anext(events)
            assert (number, kind, data["value"]) == (12, "put", "later")
        async with aclosing(board.changes(after=7)) as events:
            assert [(await anext(events))[0] for _ in range(5)] == [8, 9, 10, 11, 12]


async def test_an_entry_outlives_its_history(tmp_path: Path) -> None:
    async with opened(sqlite(tmp_path), BoardLimits(changes=5)) as board:
        await board.put("a", 1)
        await board.put("deleted", 1)
        await board.delete("deleted")
        for number in range(10):
            await board.put("b", number)
        assert (await board.get("a"), await board.versions("a")) == ((1, 1), [])
        for key in ("deleted", "never"):
            with pytest.raises(NotFound):
                await board.versions(key)


async def test_a_claim_ends_when_the_clock_is_set_back(tmp_path: Path) -> None:
    before, after = ManualClock(), ManualClock(ManualClock().now_ms() - 2 * 86_400_000)
    async with opened(sqlite(tmp_path), clock=before) as board:
        await board.put("job", 1)
        await board.board.claim(board.member, "job", 60)
        with pytest.raises(Claimed):
            await board.board.claim(board.of("bob").member, "job", 60)
    async with opened(sqlite(tmp_path), clock=after) as board:
        assert await board.board.claim(board.of("bob").member, "job", 60)


async def test_bytes_bound_the_log_as_well(tmp_path: Path) -> None:
    async with opened(sqlite(tmp_path), BoardLimits(log_bytes=10_000)) as board:
        for number in range(20):
            await board.put("a", "x" * 1000 + str(number))
        assert await board.versions("a") == list(range(20, 12, -1))


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("", None), ("a", "b"), ("a/", "a0"), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b"), ("\U0010ffff", None)],
)
def test_keys_that_begin_alike_are_a_range(prefix: str, end: str | None) -> None:
    assert end_of_prefix(prefix) == end


async def count_up(board: Board, rounds: int) -> None:
    """Add one to a shared counter until it has gone well so many times."""
    for _ in range(rounds):
        while True:
            value, version = await board.get("counter")
            try:
                await board.put("counter", value + 1, Condition(versions=frozenset({version})))
            except VersionConflict:
                continue
            break


async def claim_all(board: Board, jobs: int) -> set[str]:
    won: set[str] = set()
    for number in range(jobs):
        try:
            await board.board.claim(board.member, f"job/{number}", 60)
        except Claimed:
            continue
        won.add(f"job/{number}")
    return won


async def watch_all(board: Board, last: int) -> list[tuple[int, int]]:
    """Number and version of the counter's changes, until the value is `last`."""
    seen: list[tuple[int, int]] = []
    async with aclosing(board.changes(after=0)) as events:
        async for number, kind, data in events:
            assert kind == "put"
            seen.append((number, data["version"]))
            if data["key"] == "counter" and data["value"] == last:
                break
    return seen


async def race(url: str, rounds: int, jobs: int) -> None:
    """Eight agents at two hosts on one database; watchers at both."""
    async with opened(url) as one, opened(url) as other:
        for number in range(jobs):
            await one.put(f"job/{number}", number)
        await one.put("counter", 0)
        agents = [(one, other)[number % 2].of(f"agent-{number}") for number in range(8)]
        async with asyncio.timeout(PATIENCE):
            watched = [asyncio.create_task(watch_all(board, 8 * rounds)) for board in (one, other)]
            results = await asyncio.gather(
                *(count_up(agent, rounds) for agent in agents), *(claim_all(agent, jobs) for agent in agents)
            )
            seen = [await watcher for watcher in watched]
        assert await one.get("counter") == (8 * rounds, 8 * rounds + 1), "no update was lost"
        won = [name for result in results if isinstance(result, set) for name in result]
        assert sorted(won) == sorted(f"job/{number}" for number in range(jobs)), "one winner each"
        assert seen[0] == seen[1]
        assert [number for number, _ in seen[0]] == list(range(1, jobs + 8 * rounds + 2)), "no gap, in order"


@pytest.mark.slow
async def test_racing_agents_lose_no_update_and_watchers_no_change(tmp_path: Path) -> None:
    await race(sqlite(tmp_path), rounds=5, jobs=10)


@pytest.mark.slow
async def test_the_same_on_postgresql(server: str) -> None:
    await race(new_database(server, "race"), rounds=20, jobs=40)


@pytest.mark.slow
async def test_postgresql_orders_keys_as_sqlite_does(server: str, tmp_path: Path) -> None:
    names = ["Z", "_", "a", "a/b", "B", "b", "é", "日本", "\U0001f600", "~", "a b"]
    for url in (new_database(server, "order"), sqlite(tmp_path)):
        async with opened(url, BoardLimits(changes=20)) as board:
            for name in names:
                await board.put(name, name)
            assert await board.keys() == sorted(names)
            await board.put("brief", 1, ttl=0.01)
            async with asyncio.timeout(PATIENCE), aclosing(board.changes(after=0)) as events:
                kinds = [(await anext(events))[1] for _ in range(len(names) + 2)]
            assert kinds[-2:] == ["put", "expire"]
            await board.delete("a")
            assert await board.versions("a") == [2, 1]


class Stepping(SystemClock):
    """Stands until it is started; then each reading is a second later. Knows how deep the callers of a task are."""

    def __init__(self) -> None:
        self.depths: dict[object, set[int]] = {}
        self.started = False
        self._now = super().now_ms()

    def now_ms(self) -> int:
        if self.started:
            self._now += 1000
            self.depths.setdefault(asyncio.current_task(), set()).add(len(inspect.stack(0)))
        return self._now


async def test_entries_that_are_due_one_after_the_other_are_ended_by_a_loop(tmp_path: Path) -> None:
    """A look that calls itself would end after a thousand of them, and with it all ends of entries."""
    clock = Stepping()
    async with opened(sqlite(tmp_path), clock=clock) as board, asyncio.timeout(PATIENCE):
        for number in range(12):
            await board.put(f"entry-{number}", 1, ttl=number + 0.5)
        clock.started = True
        async with aclosing(board.changes(after=0)) as events:
            kinds = [(await anext(events))[1] for _ in range(24)]
        assert kinds.count("expire") == 12
    assert [len(depths) for depths in clock.depths.values()] == [1]
