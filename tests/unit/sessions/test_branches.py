"""Rewind, un-rewind and fork against a model: whatever the order, the log only grows and the view is what was meant."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import METADATA_BYTES
from agent_runtime.errors import Conflict, InvalidRequest, NotFound
from agent_runtime.sessions import branches, listing, rows
from tests.unit.sessions.message_log import USAGE, Log, memory


@dataclass
class Expected:
    """What a session should show: the model."""

    shown: list[str] = field(default_factory=list[str])
    rewound: list[tuple[list[str], list[str]]] = field(default_factory=list[tuple[list[str], list[str]]])
    """What was shown after a rewind, and what it hid; the latest last."""
    tokens: int = 0


OPERATION = st.tuples(
    st.sampled_from(["send", "send", "send", "rewind", "rewind", "unrewind", "fork"]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from([0, 0, 1]),
)


@given(st.lists(OPERATION, min_size=4, max_size=25))
def test_any_sequence_leaves_what_the_model_says(operations: list[tuple[str, int, int, int]]) -> None:
    with memory() as db:
        log = Log(db)
        model = {log.begin(): Expected()}
        for operation, which, where, moved in operations:
            log.clock.advance(moved / 1000)
            session = list(model)[which % len(model)]
            before, rows_before = {name: log.view(name) for name in model}, log.count()
            _play(log, model, session, operation, where)
            assert log.count() >= rows_before
            for name, expected in model.items():
                assert log.view(name) == expected.shown
                assert log.tokens(name) == expected.tokens
                assert name in (session, list(model)[-1]) or log.view(name) == before[name]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def _play(log: Log, model: dict[str, Expected], session: str, operation: str, where: int) -> None:
    expected, users = model[session], log.users(session)
    if operation == "send":
        expected.shown.extend(log.send(session))
        expected.tokens += USAGE.total
    elif operation == "rewind" and users:
        place = where % len(users)
        done = log.rewind(session, users[place])
        start = [index for index, text in enumerate(expected.shown) if text.startswith("ask")][place]
        kept, gone = expected.shown[:start], expected.shown[start:]
        assert done.hidden == len(gone)
        expected.shown = list(kept)
        expected.rewound.append((kept, gone))
    elif operation == "unrewind":
        if expected.rewound and expected.rewound[-1][0] == expected.shown:
            kept, gone = expected.rewound.pop()
            assert log.unrewind(session) == len(gone)
            expected.shown = kept + gone
        else:
            with pytest.raises(Conflict) as refused:
                log.unrewind(session)
            assert refused.value.code == "nothing_to_unrewind"
    elif operation == "fork":
        shown = listing.messages(log.db, session, limit=1000).messages
        place = where % (len(shown) + 1)
        child = log.fork(session, shown[place - 1].id if place else None)
        taken = expected.shown[:place] if place else list(expected.shown)
        answers = sum(text.startswith("answer") for text in taken)
        model[child] = Expected(taken, tokens=answers * USAGE.total)


def test_two_rewinds_within_one_millisecond_are_taken_back_one_after_the_other() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        texts = [text for _ in range(3) for text in log.send(session)]
        users = log.users(session)
        log.rewind(session, users[2])
        log.clock.set_wall(1)
        log.rewind(session, users[0])
        assert log.view(session) == []
        assert log.unrewind(session) == 4
        assert log.view(session) == texts[:4]
        assert log.unrewind(session) == 2
        assert log.view(session) == texts


def test_what_was_cancelled_in_the_queue_never_comes_back() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        log.send(session, queued=True)
        [user] = log.users(session)
        queued = log.db.execute("SELECT message_id FROM turns WHERE state = 'queued'").fetchone()[0]
        rows.cancel_queued(db, queued, log.clock.now_ms() + 50)
        with pytest.raises(Conflict):
            log.unrewind(session)
        assert log.rewind(session, user).hidden == 2
        assert log.unrewind(session) == 2
        assert log.view(session) == ["ask 1", "answer 1"]


def test_a_message_that_waits_is_neither_rewound_nor_forked() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        log.send(session, queued=True)
        for act in (log.rewind, log.fork):
            with pytest.raises(NotFound) as refused:
                act(session, "ask 2")
            assert refused.value.code == "unknown_message"
        assert log.rewind(session, "ask 1").hidden == 2
        assert [one.client_id for one in listing.queued_messages(db, session)] == ["ask 2"]


def test_a_rewind_needs_a_user_message_that_is_shown() -> None:
    with memory() as db:
        log = Log(db)
        session, other = log.begin(), log.begin()
        log.send(session)
        log.send(other)
        reply = listing.messages(db, session, limit=9).messages[1].id
        with pytest.raises(InvalidRequest):
            log.rewind(session, reply)
        for name in ("msg_nope", *log.users(other)):
            with pytest.raises(NotFound):
                log.rewind(session, name)
        log.rewind(session, "ask 1")
        with pytest.raises(NotFound):
            log.rewind(session, "ask 1")


def test_a_freed_id_may_be_used_again() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        user = log.users(session)[0]
        assert (
            branches.resolve_message_id(db, session, "ask 1") == user == branches.resolve_message_id(db, session, user)
        )
        assert log.rewind(session, "ask 1", free_id=True).message.id == user
        assert branches.resolve_message_id(db, session, "ask 1") is None
        log.send(session, client_id="ask 1")
        assert branches.resolve_message_id(db, session, "ask 1") == log.users(session)[0] != user


def test_a_fork_takes_settings_and_bytes_and_nothing_else() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        log.send(session)
        branches.update_metadata(db, session, {"title": "T" * 200}, {"a": 1, "b": {"c": 2}}, 5)
        db.execute(
            "UPDATE chat_sessions SET permissions_json = '[1]', metadata_json = json_set(metadata_json, '$.grants', 1)"
        )
        db.execute("INSERT INTO session_aliases VALUES ('ann', 'x', ?)", (session,))
        child = log.fork(session, "ask 2", custom={"a": None, "d": 4}, ephemeral=True)
        row = dict(db.execute("SELECT * FROM chat_sessions WHERE id = ?", (child,)).fetchone())
        assert (row["parent_id"], row["parent_message_id"]) == (session, log.users(session)[1])
        assert (row["agent"], row["workspace_root"], row["permissions_json"]) == ("default", "/ws", "[]")
        metadata = json.loads(row["metadata_json"])
        assert metadata.pop("copied_bytes") > sum(len(data) for _, _, data in _rows(db, child))
        assert metadata == {
            "principal": "ann",
            "system_prompt_digest": "digest",
            "tools": ["read"],
            "schema_version": 1,
            "title": "T" * 193 + " (copy)",
            "custom": {"b": {"c": 2}, "d": 4},
            "ephemeral": True,
        }
        buckets = (
            row["prompt_tokens"],
            row["completion_tokens"],
            row["reasoning_tokens"],
            row["cache_read"],
            row["cache_write"],
        )
        assert (buckets, row["total_tokens"]) == ((7, 5, 3, 2, 1), 18)
        assert db.execute("SELECT count(*) FROM turns WHERE session_id = ?", (child,)).fetchone()[0] == 0
        assert db.execute("SELECT count(*) FROM session_aliases").fetchone()[0] == 1
        copied, original = _rows(db, child), _rows(db, session)[:3]
        assert copied == original
        assert any(data.endswith("   ") for _, _, data in copied)
        assert listing.session(db, log.fork(child, title="own")).metadata["title"] == "own"  # type: ignore[union-attr]


def _rows(db: sqlite3.Connection, session: str) -> list[tuple[Any, ...]]:
    query = (
        "SELECT m.created_at, m.role, p.data_json FROM chat_messages m JOIN chat_parts p ON p.message_id = m.id"
        " WHERE m.session_id = ? ORDER BY m.created_at, m.id"
    )
    return [tuple(row) for row in db.execute(query, (session,))]


def test_an_empty_session_can_be_forked_and_an_unknown_one_cannot() -> None:
    with memory() as db:
        log = Log(db)
        child = listing.session(db, log.fork(log.begin()))
        assert child is not None
        assert (child.parent_message_id, child.metadata.get("title"), child.usage.total) == (None, None, 0)
        with pytest.raises(NotFound):
            log.fork("ses_nope")
        with pytest.raises(NotFound):
            branches.update_metadata(db, "ses_nope", {}, {}, 1)


def test_the_callers_keys_stay_apart_and_small() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        branches.update_metadata(db, session, {"title": "t"}, {"principal": "eve", "tools": [], "x": 1}, 5)
        branches.update_metadata(db, session, {"title": None}, {"x": None}, 6)
        found = listing.session(db, session)
        assert found is not None
        assert (found.metadata["principal"], found.metadata["tools"]) == ("ann", ["read"])
        assert found.metadata["custom"] == {"principal": "eve", "tools": []}
        assert "title" not in found.metadata
        branches.merge_custom({}, {"k": "x" * (METADATA_BYTES - len('{"k":""}'))})
        with pytest.raises(InvalidRequest) as refused:
            branches.merge_custom({"j": 1}, {"k": "x" * (METADATA_BYTES - len('{"k":""}'))})
        assert refused.value.faults[0][0] == "metadata"
