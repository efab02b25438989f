"""What a guest has kept for too long goes, by itself, while it serves and over kills; what is needed stays."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_runtime.sessions import Ids, MessageRow, NewSession, NewTurn, rows
from agent_runtime.sessions.store.rows import PartRow
from agent_testing import Call, ManualClock, Say, ScriptedProvider
from tests.e2e.live import Runtime, assert_problem, assignment, eventually

DAY_MS = 86_400_000
LONG_AGO = 100 * DAY_MS
SESSIONS, TURNS, PARTS = 120, 3, 5


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Runtime]:
    with ScriptedProvider() as provider, Runtime(provider, tmp_path / "data") as guest:
        guest.provider.script.replace(lambda _: Say("the answer is zephyr"))
        yield guest


def stop(guest: Runtime) -> None:
    guest.sigterm()
    assert guest.process.wait(15) == 0


def opened(guest: Runtime) -> sqlite3.Connection:
    """The database of a guest that does not run, for writing."""
    connection = sqlite3.connect(guest.data_dir / "agent.db", isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def age(guest: Runtime, *kept: str) -> None:
    """Make all sessions of a stopped guest 100 days old, but for those."""
    with closing(opened(guest)) as db:
        asked = {"ago": LONG_AGO, "kept": json.dumps(kept)}
        young = "(SELECT value FROM json_each(:kept))"
        db.execute(f"UPDATE chat_sessions SET updated_at = updated_at - :ago WHERE id NOT IN {young}", asked)  # noqa: S608
        db.execute(f"UPDATE chat_messages SET created_at = created_at - :ago WHERE session_id NOT IN {young}", asked)  # noqa: S608


def fill(guest: Runtime) -> list[str]:
    """Give a stopped guest many old sessions with messages of several parts; their ids."""
    then = round(time.time() * 1000) - LONG_AGO
    ids, made = Ids(ManualClock(then)), list[str]()
    with closing(opened(guest)) as db:
        db.execute("BEGIN")
        for number in range(SESSIONS):
            session = NewSession(
                ids.new("ses"), "operator", "default", "/ws", "m", f"prompt {number}", f"{number}", (), (f"n{number}",)
            )
            rows.insert_session(db, session, then)
            for _ in range(TURNS):
                user, reply = ids.new("msg"), ids.new("msg")
                said = tuple((ids.new("prt"), {"type": "text", "text": "x" * 2000}) for _ in range(PARTS))
                rows.insert_turn(db, NewTurn(user, session.id, reply, said, "f", queued=False), then)
                rows.upsert_message(db, MessageRow(reply, session.id, "assistant", {}, then, then))
                for index in range(PARTS):
                    words = {"type": "text", "text": f"{number} {'y' * 2000}"}
                    rows.upsert_part(db, PartRow(ids.new("prt"), reply, session.id, index, words, then))
                rows.end_turn(db, user, {"status": "complete"}, then)
            made.append(session.id)
        db.execute("COMMIT")
    return made


def left(guest: Runtime, session_ids: list[str]) -> int:
    """Messages that there still are of some sessions."""
    query = "SELECT count(*) FROM chat_messages WHERE session_id IN (SELECT value FROM json_each(?))"
    return guest.sql(query, json.dumps(session_ids))[0][0]


def sound(guest: Runtime) -> None:
    """Assert that the file of a guest that does not run is whole, and so is its index of memory."""
    with closing(opened(guest)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO memory_index (memory_index) VALUES ('integrity-check')")
        orphans = "SELECT place FROM memory_entries e JOIN memory_scopes s ON s.id = e.scope AND s.kind = 'session'"
        assert db.execute(f"{orphans} WHERE place NOT IN (SELECT id FROM chat_messages)").fetchall() == []  # noqa: S608


def found(guest: Runtime, word: str) -> list[str]:
    """Texts of earlier sessions in which memory finds a word."""
    guest.provider.script.replace([Call("memory_search", {"query": word}), Say("done")])
    [output] = guest.chat("look it up", session_id="searches").json()["tool_outputs"]
    return [one["text"] for one in output["output"]["data"]["results"] if one["source"].startswith("session")]


def test_old_sessions_go_and_what_is_needed_stays(guest: Runtime) -> None:
    chat = {name: guest.chat("where is the harbour?", session_id=name).json() for name in ("old", "parent")}
    ours = {name: guest.get(f"/sessions/{name}").json()["id"] for name in chat}
    guest.chat("hello")
    task = assignment()
    guest.post("/task", task)
    session_of_task = guest.result(task["task_id"])["session_id"]
    fork = guest.post(f"/sessions/{ours['parent']}/fork", {}).json()["id"]
    asked = {"questions": [{"question": "Which colour?", "header": "colour", "options": []}]}
    guest.provider.script.replace([Call("question", asked, id="call-1"), Say("blue it is")])
    guest.chat("ask me", session_id="asking")
    assert guest.get("/sessions/asking").json()["status"]["state"] == "waiting_on_user_input"
    assert found(guest, "harbour")
    scratch = guest.data_dir / "scratch" / ours["old"]
    scratch.mkdir(exist_ok=True)
    scratch.joinpath("spilled").write_text("output")
    young = guest.get("/sessions/searches").json()["id"]
    stop(guest)
    age(guest, fork, young)
    bulk = fill(guest)
    with closing(opened(guest)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    guest.start()
    gone = [*bulk[:-1], ours["old"], session_of_task]
    slowest = 0.0
    guest.provider.script.replace(lambda _: Say("ok"))
    until = time.monotonic() + 30
    while left(guest, gone):
        assert time.monotonic() < until, left(guest, gone)
        began = time.monotonic()
        assert guest.chat("hello", session_id="busy").status_code == 200
        slowest = max(slowest, time.monotonic() - began)
    eventually(lambda: not guest.sql("SELECT 1 FROM session_retention WHERE marked_at IS NOT NULL"))
    eventually(lambda: not scratch.exists())
    assert slowest < 2

    for path in (f"/sessions/{ours['old']}", "/sessions/old", f"/sessions/{ours['old']}/messages", "/sessions/n1"):
        assert_problem(guest.get(path), 404, "unknown_session")
    assert_problem(guest.chat("again", session_id=ours["old"]), 404, "unknown_session")
    assert_problem(guest.get(f"/task/{task['task_id']}"), 404, "unknown_task")
    assert guest.chat("anew", session_id="old").json()["response"] == "ok"
    listed = [one["id"] for one in guest.get("/sessions", limit=500).json()["sessions"]]
    assert not {*gone} & {*listed}
    assert {fork, ours["parent"]} <= {*listed}
    assert guest.get("/sessions/main").status_code == 200
    assert [guest.get(f"/sessions/{one}/messages").status_code for one in listed] == [200] * len(listed)
    assert guest.sql("SELECT count(*) FROM system_prompts WHERE body LIKE 'prompt %'")[0][0] == 0
    assert guest.sql("SELECT count(*) FROM system_prompts")[0][0] >= 1
    eventually(lambda: guest.sql("PRAGMA freelist_count")[0][0] == 0)
    assert guest.sql("PRAGMA page_count")[0][0] < pages / 2
    answered = guest.post("/chat/asking/answer", {"id": "call-1", "answers": [["blue"]]})
    assert answered.status_code == 200, answered.text
    eventually(lambda: guest.get("/sessions/asking").json()["status"]["state"] == "idle")
    stop(guest)
    sound(guest)


def test_a_message_for_a_session_that_goes_at_that_moment_is_refused(guest: Runtime) -> None:
    """The guest still has the session in memory."""
    guest.chat("hello", session_id="going")
    asked = len(guest.provider.completions)
    with closing(opened(guest)) as db:
        db.execute("PRAGMA busy_timeout = 5000")
        db.execute("INSERT INTO session_retention (session_id, marked_at) SELECT id, 1 FROM chat_sessions")
    assert_problem(guest.chat("again", session_id="going"), 404, "unknown_session")
    assert len(guest.provider.completions) == asked
    assert guest.get("/sessions").json()["sessions"] == []


def test_a_kill_at_any_point_leaves_every_session_whole_or_gone(guest: Runtime) -> None:
    guest.chat("hello")
    stop(guest)
    bulk = fill(guest)[:-1]  # the session of the last message stays
    whole = left(guest, bulk)
    guest.start()
    assert whole == 2 * TURNS * (SESSIONS - 1)
    for share in (0.9, 0.6, 0.3):
        eventually(lambda share=share: left(guest, bulk) < share * whole)
        assert guest.process.kill9() == -9
        sound(guest)
        query = "SELECT session_id FROM session_retention WHERE marked_at IS NOT NULL"
        half = [row[0] for row in guest.sql(query)]
        counts = guest.sql("SELECT session_id, count(*) FROM chat_messages GROUP BY 1")
        assert {row[1] for row in counts if row[0] in {*bulk} - {*half}} <= {2 * TURNS}
        guest.start()
        for session_id in half[:3]:
            assert_problem(guest.get(f"/sessions/{session_id}"), 404, "unknown_session")
        assert not {*half} & {one["id"] for one in guest.get("/sessions", limit=500, archived=True).json()["sessions"]}
    eventually(lambda: not left(guest, bulk))
    guest.still_works()
    stop(guest)
    sound(guest)
