"""Pages of sessions and messages: every row once, in order, by an index and never by counting."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Usage
from agent_runtime.sessions import (
    Message,
    MessageRow,
    NewSession,
    NewTurn,
    SessionChoice,
    branches,
    history,
    listing,
    rows,
)
from agent_runtime.sessions.store.listing import Cursor
from agent_runtime.sessions.store.rows import dump
from tests.unit.sessions.message_log import Log, memory
from tests.unit.sessions.support import opened

MANY = 10_000


def session_id(number: int) -> str:
    return f"ses_{number:012x}{'0' * 14}"


def insert(db: sqlite3.Connection, number: int, at: int, principal: str = "ann") -> str:
    name = session_id(number)
    rows.insert_session(db, NewSession(name, principal, "default", "/ws", "m", "a prompt", "digest", ()), at)
    return name


def pages(db: sqlite3.Connection, limit: int, **more: Any) -> list[list[str]]:
    found: list[list[str]] = []
    after: Cursor | None = None
    while (page := listing.sessions(db, "ann", limit=limit, after=after, choice=SessionChoice(**more))).sessions:
        found.append([row.id for row in page.sessions])
        if (after := page.next) is None:
            break
    return found


def test_every_session_comes_once_and_the_newest_first() -> None:
    with memory() as db:
        at = [5, 5, 5, 9, 1, 5, 7]
        names = [insert(db, number, time) for number, time in enumerate(at)]
        insert(db, 99, 6, "eve")
        expected = [name for _, name in sorted(zip(at, names, strict=True), reverse=True)]
        for limit in (1, 2, 3, 10):
            found = pages(db, limit)
            assert [name for page in found for name in page] == expected
            assert all(len(page) == limit for page in found[:-1])


def test_what_is_put_away_or_aside_is_shown_on_demand() -> None:
    with memory() as db:
        plain, archived, aside, both = (insert(db, number, number) for number in range(4))
        rows.archive(db, archived, 1)
        rows.archive(db, both, 3)
        for name in (aside, both):
            branches.update_metadata(db, name, {"ephemeral": True}, {}, int(name[4:16], 16))
        assert pages(db, 9) == [[plain]]
        assert pages(db, 9, archived=True) == [[archived, plain]]
        assert pages(db, 9, ephemeral=True) == [[aside, plain]]
        assert pages(db, 9, archived=True, ephemeral=True) == [[both, aside, archived, plain]]


def test_lists_are_found_by_index() -> None:
    with memory() as db:
        plan = _plan(db, listing._SESSIONS, principal="ann", at=1, id="", limit=1, **SessionChoice().parameters())
        assert "USING INDEX chat_sessions_principal (<expr>=? AND (updated_at,id)<(?,?))" in plan
        assert "TEMP B-TREE" not in plan
        plan = _plan(db, listing._MESSAGES, session="s", at=1, id="", hidden=False, without=None, limit=1)
        assert "USING INDEX chat_messages_session (session_id=? AND created_at>" in plan
        assert "SCAN" not in plan
        for query in (f"{listing._SESSION} WHERE s.id = ?", listing._WAITING):
            plan = " ".join(row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", ("s",)))
            assert "turns_session" in plan
            assert "TEMP B-TREE" not in plan


def _plan(db: sqlite3.Connection, query: str, **values: Any) -> str:
    return " ".join(row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values))


def test_a_page_of_ten_thousand_sessions_costs_what_a_page_of_ten_costs() -> None:
    with memory() as db:
        for number in range(MANY):
            insert(db, number, number // 3, "ann" if number % 2 else "eve")
        middle = (MANY // 6, session_id(MANY // 2))
        began = time.process_time()
        for after in (None, middle) * 20:
            assert len(listing.sessions(db, "ann", limit=50, after=after).sessions) == 50
        assert time.process_time() - began < 2.0  # a sorted scan would take several times as long
        assert sum(map(len, pages(db, 500))) == MANY // 2


def test_a_cursor_is_read_as_it_was_written() -> None:
    place = (1_800_000_000_000, session_id(7))
    assert listing.parse_cursor(listing.format_cursor(*place)) == place
    for text in (
        "",
        "x",
        session_id(7),
        f"-1.{session_id(7)}",
        f"{9**40}.{session_id(7)}",
        "1.ses_x",
        "\u0661.ses_" + "0" * 26,
    ):
        assert listing.parse_cursor(text) is None


def test_messages_come_in_pages_with_their_parts() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        texts = [text for _ in range(4) for text in log.send(session)]
        log.send(session, queued=True)
        log.rewind(session, "ask 4")
        found: list[str] = []
        after: Cursor | None = None
        while page := listing.messages(db, session, limit=2, after=after).messages:
            found += [part["text"] for message in page for part in message.parts]
            after = listing.message_cursor(db, page[-1].id)
        assert found == texts[:6]
        shown = listing.messages(db, session, limit=99, hidden=True).messages
        assert [part["text"] for message in shown for part in message.parts] == texts
        assert ["hidden_at" in message.metadata for message in shown] == [False] * 6 + [True] * 2


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("letter", "each"), [("x", 7), ("\u00e9", 3)])
def test_a_page_of_large_messages_is_cut(letter: str, each: int, backwards: bool) -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        sent = [log.users(session)[-1] for _ in range(6) if log.send(session)]
        db.execute("UPDATE chat_parts SET data_json = json_object('text', ?)", (letter * 2**20,))
        db.execute("UPDATE chat_parts SET data_json = ? WHERE message_id = ?", (dump({"text": "x" * 2**24}), sent[1]))
        pages: list[list[Message]] = []
        at: Cursor | None = listing.END if backwards else listing.START
        while at is not None:
            direction: dict[str, Any] = {"before" if backwards else "after": at}
            page = listing.messages(db, session, limit=200, without=sent[-1], **direction)
            pages.append(page.messages)
            at = page.edge
        listed = [one.id for page in (reversed(pages) if backwards else pages) for one in page]
        assert listed == [one.id for one in history.messages(db, session) if one.id != sent[-1]]
        assert max(map(len, pages)) == each
        assert [sent[1]] in [[one.id for one in page] for page in pages], "one is always listed"


def test_a_page_of_many_values_is_cut() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        for _ in range(5):
            log.send(session)
        dense = dump({"type": "data-x", "data": [{"": 0}] * 10_000})
        db.execute("UPDATE chat_parts SET data_json = ?", (dense,))
        assert len(listing.messages(db, session, limit=200).messages) == 2
        log.send(session, queued=True)
        log.send(session, queued=True)
        db.execute("UPDATE chat_parts SET data_json = ?", (dump([0] * 60_000),))
        assert [len(one.parts) for one in listing.queued_messages(db, session)] == [1, 0]


def test_a_page_of_sessions_with_large_metadata_is_cut() -> None:
    with memory() as db:
        names = [insert(db, number, number) for number in range(50)]
        for name in names:
            branches.update_metadata(db, name, {}, {"x": [{"": 0}] * 2_000}, int(name[4:16], 16))
        found = pages(db, 500)
        assert [name for page in found for name in page] == names[::-1]
        assert max(map(len, found)) < 20


def test_the_queue_is_in_the_order_of_admission() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        for _ in range(3):
            log.send(session, queued=True)
        db.execute(
            "UPDATE chat_messages SET created_at = created_at - 5 WHERE id = (SELECT max(id) FROM chat_messages)"
        )
        waiting = listing.queued_messages(db, session)
        assert [(one.client_id, one.parts[0]["text"]) for one in waiting] == [(f"ask {n}",) * 2 for n in (1, 2, 3)]
        assert {one.queued_at for one in waiting} == {log.clock.now_ms()}


def last_outcome(db: sqlite3.Connection, session: str) -> dict[str, Any] | None:
    row = listing.session(db, session)
    assert row is not None
    return row.last_outcome


def test_the_last_outcome_is_of_what_still_belongs_to_the_conversation() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        assert last_outcome(db, session) is None
        log.send(session)
        log.send(session)
        first, second = log.users(session)
        rows.end_turn(db, second, {"status": "failed", "error": "no"}, 1)
        log.send(session, queued=True)
        log.send(session, queued=True)
        query = "SELECT message_id FROM turns WHERE state = 'queued' ORDER BY seq"
        joined, queued = (row[0] for row in db.execute(query).fetchall())
        rows.steer_turn(db, joined, (second, "the reply"), {"status": "steered"}, 1)
        rows.cancel_queued(db, queued, 1)
        rows.end_turn(db, queued, {"status": "cancelled"}, 1)
        assert last_outcome(db, session) == {"status": "failed", "error": "no"}
        log.rewind(session, second)
        assert last_outcome(db, session) == {"status": "complete"}
        assert first


def test_tokens_are_summed_by_model_hidden_ones_too() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        log.send(session)
        metered = {"usage": Usage(input=10, cost_usd=0.5).model_dump(), "model": {"model_id": "metered"}}
        unnamed = {"usage": Usage(output=4).model_dump()}
        failed = {"usage": Usage().model_dump(), "model": {"model_id": "metered"}}
        for number, metadata in enumerate((metered, metered, unnamed, failed)):
            rows.upsert_message(db, MessageRow(f"msg_{number}", session, "assistant", metadata, 1, 1))
        log.rewind(session, "ask 1")
        assert listing.usage_by_model(db, session, "m") == {
            "m": Usage(input=14, output=14, reasoning=6, cache_read=4, cache_write=2),
            "metered": Usage(input=20, cost_usd=1.0),
        }


async def test_a_page_is_read_while_others_write(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await database.write(lambda db: insert(db, 1, 1))
        turn = NewTurn("msg_1", session_id(1), "msg_2", (("prt_1", {"type": "text", "text": "x"}),), "f", queued=False)
        await database.write(lambda db: rows.insert_turn(db, turn, 2))
        for _ in range(3):  # a snapshot that was not given back would keep the next one from being taken
            page = await database.read(lambda db: listing.messages(db, session_id(1), limit=5))
            assert [message.parts for message in page.messages] == [[{"type": "text", "text": "x"}]]


@pytest.mark.parametrize("name", ["ses_nope", ""])
def test_an_unknown_session_is_none(name: str) -> None:
    with memory() as db:
        assert listing.session(db, name) is None


def test_what_another_model_used_in_a_turn_is_its_own() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        used = Usage(input=30, output=3, cost_usd=0.5)
        other = {"model": "second", "reason": "it was away", "calls": 1, "usage": {"input": 10, "cost_usd": 0.4}}
        metadata = {"usage": used.model_dump(), "model": {"model_id": "first"}, "fallbacks": [other]}
        rows.upsert_message(db, MessageRow("msg_1", session, "assistant", metadata, 1, 1))
        spent = listing.usage_by_model(db, session, "m")
        assert spent["second"] == Usage(input=10, cost_usd=0.4)
        assert (spent["first"].input, spent["first"].output) == (20, 3)
        assert spent["first"].cost_usd == pytest.approx(0.1)
