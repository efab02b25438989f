"""Sessions out and in again: an export makes an equal database, holds no secret, and is checked before it is stored."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.redaction import Redactor
from agent_runtime.context import digest
from agent_runtime.errors import Conflict, InvalidRequest, NotFound
from agent_runtime.sessions import NewSession, branches, rows, transfer
from agent_runtime.sessions.store.rows import PartRow
from agent_testing import ManualClock
from tests.unit.sessions.message_log import Log, memory, write_at_once

NOW = ManualClock().now_ms()

TABLES = ("chat_sessions", "chat_messages", "chat_parts", "system_prompts")
SECRET = 'sk-"canary"\\ä-123'


def begin(log: Log, prompt: str = "a prompt") -> str:
    session = NewSession(log.ids.new("ses"), "ann", "default", "/ws", "m", prompt, digest(prompt), ("read",))
    rows.insert_session(log.db, session, log.clock.now_ms())
    return session.id


def told(log: Log, prompt: str = "a prompt") -> str:
    """A session with something of everything: hidden, queued, cancelled and padded rows, tools, odd characters."""
    session = begin(log, prompt)
    log.send(session)
    log.send(session)
    log.rewind(session, "ask 2")
    log.send(session)
    log.send(session, queued=True)
    user = log.users(session)[0]
    odd = {"type": "text", "text": 'é\u2028\x00"\\ \U0001f600'}
    call = {"type": "tool-read", "toolCallId": "c1", "state": "output-available", "input": {}, "output": {"data": 1}}
    for index, data in enumerate((odd, call, {"type": "step-start"}), 1):
        rows.upsert_part(log.db, PartRow(log.ids.new("prt"), user, session, index, data, 77))
    branches.update_metadata(log.db, session, {"title": "t"}, {"k": 1}, 99)
    return session


def exported(db: sqlite3.Connection, session: str, *secrets: str, whole: bool = False) -> bytes:
    out = io.BytesIO()
    transfer.export(db, session, out, Redactor(secrets), whole=whole)
    return out.getvalue()


def stored(db: sqlite3.Connection, data: bytes) -> str:
    file = io.BytesIO(data)
    parcel = transfer.validate_export(file, NOW)
    db.execute("BEGIN")
    try:
        write_at_once(db, transfer.ImportCopy(file, parcel, NOW, keep_permissions=True))
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return parcel.session_id


def dumped(db: sqlite3.Connection) -> dict[str, list[Any]]:
    found = {table: db.execute(f"SELECT *, typeof(rowid) FROM {table} ORDER BY 1").fetchall() for table in TABLES}  # noqa: S608
    return {
        table: [{name: unmarked(value) for name, value in dict(row).items()} for row in found[table]]
        for table in TABLES
    }


def unmarked(value: Any) -> Any:
    """Without the mark of a session that was imported, and what it or a fork counts."""
    if isinstance(value, bytes):
        return re.sub(rb',\\"(imported|copied_bytes)\\":\w+', b"", value)
    return re.sub(r',"(imported|copied_bytes)":\w+', "", value) if isinstance(value, str) else value


def test_an_export_makes_an_equal_database() -> None:
    with memory() as here, memory() as there:
        log = Log(here)
        session = told(log)
        db_parent = log.fork(session)
        data = exported(here, session)
        assert stored(there, data) == session
        stored(there, exported(here, db_parent))
        assert dumped(there) == dumped(here)
        assert unmarked(exported(there, session)) == data
        with pytest.raises(Conflict) as refused:
            stored(there, data)
        assert refused.value.code == "session_exists"


def test_the_lines_are_in_the_documented_order() -> None:
    with memory() as db:
        log = Log(db)
        session = told(log)
        lines = [json.loads(line) for line in exported(db, session).splitlines()]
        assert lines[0]["type"] == "session"
        assert lines[-1] == {"type": "prompt", "data": {"digest": digest("a prompt"), "body": "a prompt"}}
        messages = [line["data"] for line in lines if line["type"] == "message"]
        assert [(one["created_at"], one["id"]) for one in messages] == sorted(
            (one["created_at"], one["id"]) for one in messages
        )
        last, index = None, -1
        for line in lines[1:-1]:
            if line["type"] == "message":
                last, index = line["data"]["id"], -1
            else:
                assert line["data"]["message_id"] == last
                assert line["data"]["index"] > index
                index = line["data"]["index"]
        assert isinstance(lines[0]["data"]["metadata_json"], str)
        whole = json.loads(exported(db, session, whole=True))
        assert whole["session"] == lines[0]["data"]
        flat = [row for one in whole["messages"] for row in (one["message"], *one["parts"])]
        assert flat == [line["data"] for line in lines[1:-1]]


def test_an_empty_session_and_an_unknown_one() -> None:
    with memory() as db, memory() as there:
        session = begin(Log(db))
        assert json.loads(exported(db, session, whole=True))["messages"] == []
        assert stored(there, exported(db, session) + b"\n") == session
        with pytest.raises(NotFound):
            exported(db, "ses_nope")


@pytest.mark.parametrize("whole", [False, True])
def test_no_secret_leaves(whole: bool) -> None:
    with memory() as db, memory() as there:
        log = Log(db)
        session = told(log, f"the key is {SECRET}")
        inside = json.dumps({"authorization": SECRET})
        part = {"type": "tool-read", "toolCallId": "c9", "state": "output-available", "output": {"data": inside}}
        rows.upsert_part(db, PartRow(log.ids.new("prt"), log.users(session)[0], session, 9, part, 1))
        branches.update_metadata(db, session, {"title": SECRET}, {SECRET: [SECRET]}, 1)
        clear = exported(db, session, "abc", whole=whole)
        assert b"canary" in clear
        data = exported(db, session, "abc", SECRET, whole=whole)
        assert b"canary" not in data
        assert data.count(b"[redacted]") >= 4
        if not whole:
            stored(there, data)
            assert unmarked(exported(there, session)) == data
            body = there.execute("SELECT digest, body FROM system_prompts").fetchone()
            assert tuple(body) == (digest("the key is [redacted]"), "the key is [redacted]")


Edit = Callable[[list[dict[str, Any]]], Any]


def column(kind: str, name: str, value: object) -> Edit:
    """Changes a column of the last line of a kind."""

    def edit(lines: list[dict[str, Any]]) -> None:
        [line for line in lines if line["type"] == kind][-1]["data"][name] = value

    return edit


def inner(kind: str, name: str, **values: object) -> Edit:
    """Changes members inside a JSON column."""

    def edit(lines: list[dict[str, Any]]) -> None:
        data = [line for line in lines if line["type"] == kind][-1]["data"]
        data[name] = json.dumps({**json.loads(data[name]), **values})

    return edit


def swapped(lines: list[dict[str, Any]]) -> None:
    lines[0], lines[1] = lines[1], lines[0]


BAD: dict[str, tuple[Edit, str]] = {
    "no session": (lambda lines: lines.pop(0), "first line"),
    "session second": (swapped, "first line"),
    "two sessions": (lambda lines: lines.insert(1, lines[0]), "first line"),
    "cut off": (lambda lines: lines.pop(), "cut off"),
    "behind the end": (lambda lines: lines.append(lines[-1]), "last line"),
    "unknown type": (lambda lines: lines.insert(1, {"type": "x", "data": {}}), "type: must be one of"),
    "odd type": (lambda lines: lines.insert(1, {"type": [], "data": {}}), "type: must be one of"),
    "no object": (lambda lines: lines.insert(1, []), "must be {"),  # type: ignore[arg-type]
    "more members": (lambda lines: lines[1].update(x=1), "must be {"),
    "missing column": (lambda lines: lines[0]["data"].pop("agent"), "data.agent: is missing"),
    "unknown column": (column("message", "x", 1), "data.x: there is no such column"),
    "bad id": (column("session", "id", "ses_x"), "data.id"),
    "other kind of id": (column("message", "id", "prt_" + "0" * 26), "data.id"),
    "bool for a number": (column("session", "prompt_tokens", True), "data.prompt_tokens"),
    "huge number": (column("session", "total_tokens", 2**63), "data.total_tokens"),
    "negative time": (column("message", "created_at", -1), "data.created_at"),
    "role": (column("message", "role", "root"), "data.role"),
    "not json": (column("session", "metadata_json", "{"), "data.metadata_json: not JSON"),
    "no object inside": (column("message", "metadata_json", "[]"), "data.metadata_json: must be an object"),
    "permissions": (column("session", "permissions_json", "{}"), "data.permissions_json"),
    "model": (column("session", "model_json", "{}"), "data.model_json"),
    "no principal": (inner("session", "metadata_json", principal=None), "principal is missing"),
    "tools": (inner("session", "metadata_json", tools=[1]), "tools must be"),
    "title": (inner("session", "metadata_json", title=1), "title has the wrong type"),
    "long title": (inner("session", "metadata_json", title="x" * 201), "title has more than 200 characters"),
    "large custom": (inner("session", "metadata_json", custom={"k": "é" * 8192}), "custom has more than 16384 bytes"),
    "newer": (inner("message", "metadata_json", schema_version=2), "newer than this program"),
    "usage": (inner("message", "metadata_json", usage={"input": "many"}), "usage has the wrong shape"),
    "huge usage": (inner("message", "metadata_json", usage={"output": 2**62}), "usage has the wrong shape"),
    "huge cost": (inner("message", "metadata_json", usage={"cost_usd": 1e308}), "usage has the wrong shape"),
    "huge fallbacks": (
        inner("message", "metadata_json", fallbacks=[{"model": "m", "usage": {"input": -(2**62)}}]),
        "fallbacks has the wrong shape",
    ),
    "huge cost of all": (column("session", "cost_usd", 1e308), "data.cost_usd"),
    "huge sum": (column("session", "total_tokens", 2**62), "data.total_tokens"),
    "fallbacks": (inner("message", "metadata_json", fallbacks=[{"model": 1}]), "fallbacks has the wrong shape"),
    "hidden": (inner("message", "metadata_json", hidden_at="now"), "hidden_at must be"),
    "message model": (inner("message", "metadata_json", model={"model_id": 1}), "model has the wrong shape"),
    "other session": (column("message", "session_id", "ses_" + "0" * 26), "data.session_id"),
    "no such message": (column("part", "message_id", "msg_" + "0" * 26), "no such message"),
    "type differs": (column("part", "type", "reasoning"), "differs"),
    "no text": (inner("part", "data_json", text=1), "text is missing"),
    "message twice": (lambda lines: lines.insert(-1, lines[1]), "data.id: appears twice"),
    "index twice": (
        lambda lines: lines.insert(-1, {**lines[2], "data": {**lines[2]["data"], "id": "prt_" + "0" * 26}}),
        "data.index: appears twice",
    ),
    "other prompt": (column("prompt", "body", "ignore everything"), "does not have that digest"),
    "other digest": (column("prompt", "digest", "x"), "does not have that digest"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named_and_nothing_is_stored(name: str) -> None:
    edit, expected = BAD[name]
    with memory() as here, memory() as there:
        lines = [json.loads(line) for line in exported(here, told(Log(here))).splitlines()]
        edit(lines)
        with pytest.raises(InvalidRequest) as refused:
            stored(there, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        [(field, fault)] = refused.value.faults
        assert field.startswith("line ")
        assert expected in fault
        assert refused.value.message == f"{field}: {fault}"
        assert all(not found for found in dumped(there).values())


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "data-notice", "data": {}}, "data.text is missing"),
        ({"type": "dynamic-tool", "toolCallId": "c", "state": "input-available"}, "toolName is missing"),
        ({"type": "tool-x", "state": "input-available"}, "toolCallId or state"),
        ({"type": "tool-x", "toolCallId": "c", "state": "output-available"}, "output is missing"),
    ],
)
def test_a_part_that_no_reader_could_read_is_refused(part: dict[str, Any], expected: str) -> None:
    with memory() as here, memory() as there:
        log = Log(here)
        session = begin(log)
        log.send(session)
        rows.upsert_part(here, PartRow(log.ids.new("prt"), log.users(session)[0], session, 5, part, 1))
        with pytest.raises(InvalidRequest) as refused:
            stored(there, exported(here, session))
        assert expected in refused.value.faults[0][1]


def test_rows_of_another_session_are_not_taken_over() -> None:
    with memory() as db:
        log = Log(db)
        session = begin(log)
        log.send(session)
        before = dumped(db)
        data = exported(db, session).replace(session.encode(), b"ses_" + b"0" * 26)
        with pytest.raises(InvalidRequest) as refused:
            stored(db, data)
        assert refused.value.faults[0][0] == "line 2"
        assert dumped(db) == before


@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_refused_by_line(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        transfer.validate_export(io.BytesIO(data), NOW)
    assert refused.value.faults[0][0].startswith("line ")
