"""Which sessions a guest deletes when, by clocks that also jump."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_runtime.runtime import MIGRATIONS
from agent_runtime.runtime.retention import RetentionLimits, SessionData, SessionRetention
from agent_runtime.sessions import Ids, NewSession, NewTurn, history, retention, rows
from agent_runtime.store import Database
from agent_runtime.workspace import Home
from agent_testing import ManualClock

DAY = 86_400
NOW = 1_800_000_000_000
DAY_MS = 1000 * DAY


class Held:
    """The sessions in memory."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def ids_in_use(self) -> Sequence[str]:
        return self.used

    def evict(self, session_id: str) -> None:
        assert session_id not in self.used


class Guest:
    """A database, and what deletes from it."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.held = ManualClock(NOW), Held()
        self.ids, self.home = Ids(self.clock), Home(folder)
        self.database = Database(folder / "agent.db", MIGRATIONS)
        self.database.open()

    async def talk(
        self, days: float, *names: str, turns: int = 1, parts: int = 1, parent: str = "", of: str = "ann"
    ) -> str:
        """A session whose last turn was so many days ago; its id."""
        at, session_id = NOW - round(days * DAY * 1000), self.ids.new("ses")
        session = NewSession(
            *(session_id, of, "default", "/ws", "m", "a prompt", "digest", (), names),
            parent=(parent, f"of {parent}") if parent else None,
        )

        def unit(connection: sqlite3.Connection) -> None:
            rows.insert_session(connection, session, at)
            for number in range(turns):
                message = f"of {session_id}" if not number else self.ids.new("msg")
                said = tuple((self.ids.new("prt"), {"type": "text", "text": "hi"}) for _ in range(parts))
                rows.insert_turn(connection, NewTurn(message, session_id, message, said, "f", queued=False), at)
                rows.end_turn(connection, message, {"status": "complete"}, at)

        await self.database.write(unit)
        return session_id

    async def do(self, statement: str, *values: object) -> None:
        await self.database.write(lambda connection: connection.execute(statement, values) and None)

    async def left(self) -> list[str]:
        query = "SELECT id FROM chat_sessions ORDER BY rowid"
        return await self.database.read(lambda connection: [row[0] for row in connection.execute(query)])

    def keeper(self, days: int = 90, rows: int = 0) -> SessionRetention:
        elsewhere = SessionData(self.held, self.home, nothing)
        return SessionRetention(self.database, self.clock, RetentionLimits(days, rows), elsewhere, at_once)


async def nothing(_: Sequence[str]) -> None:
    return


async def at_once(_: float) -> None:
    return


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    guest = Guest(tmp_path)
    yield guest
    guest.database.close()


async def test_what_was_idle_for_longer_goes_with_all_that_is_its_own(guest: Guest) -> None:
    await guest.talk(200, "name", turns=3, parts=50)
    await guest.talk(91)
    young, now = await guest.talk(89), await guest.talk(0)
    assert await guest.keeper().sweep() == 2
    assert await guest.left() == [young, now]
    for table in ("chat_messages", "chat_parts", "turns"):
        query = f"SELECT DISTINCT session_id FROM {table} ORDER BY 1"  # noqa: S608
        found = await guest.database.read(lambda connection, query=query: connection.execute(query).fetchall())
        assert [row[0] for row in found] == sorted([young, now])
    assert await guest.keeper().sweep() == 0


async def test_what_is_needed_is_never_deleted(guest: Guest) -> None:
    main, open_turn, caller = await guest.talk(400, "main"), await guest.talk(400), await guest.talk(400)
    called = await guest.talk(400, parent=caller)
    parent, used, work, imported = [await guest.talk(400) for _ in range(4)]
    child = await guest.talk(1, parent=parent)
    recent, last = await guest.talk(400), await guest.talk(400)
    for session in (open_turn, caller):
        await guest.do("UPDATE turns SET state = 'waiting' WHERE session_id = ?", session)
    guest.held.used = [used]
    columns = "(request_id, fingerprint, request_json, message_id, created_at)"
    await guest.do(f"INSERT INTO work {columns} VALUES ('r', 'f', '{{}}', ?, 0)", f"of {work}")  # noqa: S608
    await guest.database.write(lambda connection: retention.note_import(connection, imported, NOW - 1000))
    await guest.do("UPDATE chat_messages SET created_at = ? WHERE session_id = ?", NOW - 1000, recent)
    gone = await guest.talk(401)
    await guest.do("UPDATE chat_messages SET rowid = rowid + 100 WHERE session_id = ?", last)
    assert await guest.keeper(days=1, rows=1).sweep() == 1
    kept = [main, open_turn, caller, called, parent, used, work, imported, child, recent, last]
    assert await guest.left() == kept
    assert gone not in kept


async def test_what_was_being_written_is_hidden_and_goes_with_the_next_process(guest: Guest) -> None:
    unfinished, now = await guest.talk(0), await guest.talk(0)
    await guest.database.write(lambda connection: retention.hide_unfinished(connection, unfinished))
    assert await guest.keeper().sweep() == 0, "this process may still write it"
    assert await guest.database.read(lambda connection: history.session(connection, unfinished)) is None
    keeper = guest.keeper()
    keeper.start()
    async with asyncio.timeout(60):
        while await guest.left() != [now]:
            pass
    await keeper.close()


async def test_ids_are_known_for_a_week_whatever_is_set(guest: Guest) -> None:
    for days in (9, 8):
        await guest.talk(days)
    young = [await guest.talk(days) for days in (6, 1)]
    await guest.keeper(days=1, rows=1).sweep()
    assert await guest.left() == young


async def test_the_sessions_that_were_idle_for_longest_go_until_few_enough_parts_are_left(guest: Guest) -> None:
    oldest, old = await guest.talk(30, parts=10), await guest.talk(20, parts=10)
    rest = [await guest.talk(10, parts=10), await guest.talk(0, parts=10)]
    assert await guest.keeper(days=0, rows=40).sweep() == 0
    assert await guest.keeper(days=0, rows=25).sweep() == 2
    assert await guest.left() == rest
    assert {oldest, old}.isdisjoint(rest)


async def test_parts_of_one_user_push_out_no_session_of_another(guest: Guest) -> None:
    """Bob writes much, and recently; Ann's and Carl's few old sessions stay."""
    ann, carl = await guest.talk(80, parts=10), await guest.talk(70, parts=5, of="carl")
    bobs = [await guest.talk(days, parts=10, of='bob "\\ é') for days in (30, 25, 20, 15)]
    broken = await guest.talk(60, parts=5, of="dora")
    unreadable = "replace(metadata_json, 'dora', CAST(x'ff' AS TEXT))"
    await guest.do(f"UPDATE chat_sessions SET metadata_json = {unreadable} WHERE id = ?", broken)  # noqa: S608
    last = await guest.talk(0, of="carl")
    assert await guest.keeper(days=0, rows=50).sweep() == 2
    assert await guest.left() == [ann, carl, *bobs[2:], broken, last]
    assert await guest.keeper(days=0, rows=35).sweep() == 1
    assert await guest.left() == [ann, carl, *bobs[3:], broken, last]


async def test_nought_is_for_ever(guest: Guest) -> None:
    await guest.talk(10_000)
    await guest.talk(0)
    assert await guest.keeper(days=0).sweep() == 0


async def test_a_clock_that_jumps_ahead_makes_nothing_old(guest: Guest) -> None:
    almost, young, now = [await guest.talk(days) for days in (89, 60, 0)]
    keeper = guest.keeper()
    assert await keeper.sweep() == 0
    guest.clock.set_wall(NOW + 3650 * DAY_MS)
    assert await keeper.sweep() == 0
    assert await guest.left() == [almost, young, now]
    for _ in range(20):  # lives that begin with the clock as wrong as before: they count for a week in all
        await guest.keeper().sweep()
    assert await guest.left() == [young, now]
    guest.clock.set_wall(NOW - 3650 * DAY_MS)
    assert await guest.keeper().sweep() == 0


async def test_time_that_passes_makes_old(guest: Guest) -> None:
    await guest.talk(89)
    await guest.talk(0)
    keeper = guest.keeper()
    await keeper.sweep()
    guest.clock.advance(2 * DAY)
    assert await keeper.sweep() == 1


async def test_a_guest_that_was_off_for_long_makes_up_for_it_at_twice_the_speed_of_time(guest: Guest) -> None:
    await guest.talk(60)
    await guest.talk(0)
    await guest.keeper().sweep()
    guest.clock.advance(37 * DAY)
    keeper = guest.keeper()  # only seven of them count yet
    assert await keeper.sweep() == 0
    guest.clock.advance(11 * DAY)
    assert await keeper.sweep() == 0
    guest.clock.advance(DAY)
    assert await keeper.sweep() == 1


async def test_a_message_of_many_parts_goes_in_steps(guest: Guest) -> None:
    await guest.talk(100, parts=100)
    await guest.talk(0)
    old = retention.OldSessions(NOW, (), "main")
    found = await guest.database.read(lambda connection: retention.find_old(connection, old, 10))
    await guest.database.write(lambda connection: retention.mark(connection, found[:1], old, NOW))
    assert await guest.database.read(retention.marked_sessions) == found[:1]
    steps = 0
    while messages := await guest.database.read(lambda connection: retention.next_messages(connection, 10)):
        await guest.database.write(
            lambda connection, ids=messages: retention.delete_messages(connection, ids, lambda: True)
        )
        steps += 1
    assert steps == 6, "twenty parts in each step, and the message when there are none"
