"""Markers of compactions: stored as messages, found again, and moved with the messages they speak of."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import Usage
from agent_common.redaction import Redactor
from agent_runtime.sessions import COMPACTION, Marker, MessageRow, Shortened, history, markers, transfer
from agent_runtime.sessions.markers import MAX_SKILLS
from tests.unit.sessions.message_log import USAGE, Log, memory, write_at_once

SHORTENED = st.builds(Shortened, st.text(), st.text(), st.integers(0, 10**6))
MARKERS = st.builds(
    Marker,
    summary=st.text(),
    summary_tokens=st.integers(0, 10**6),
    auto=st.booleans(),
    tail_start_id=st.none() | st.text(),
    tail_start_step=st.integers(2, 500) | st.just(0),
    spoken_to=st.text(),
    shortened=st.lists(SHORTENED, max_size=4).map(tuple),
    skills=st.lists(st.from_regex("[a-z0-9-]{1,64}", fullmatch=True), max_size=4).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(MARKERS)
def test_a_marker_comes_back_from_its_part(marker: Marker) -> None:
    assert Marker.from_part(json.loads(json.dumps(marker.to_part()))) == marker


@given(
    st.fixed_dictionaries(
        {"summary": st.text()},
        optional=dict.fromkeys(
            ("summary_tokens", "auto", "tail_start_id", "tail_start_step", "spoken_to", "shortened", "skills"), JSON
        ),
    )
)
def test_what_others_wrote_is_read_as_far_as_it_makes_sense(data: dict[str, Any]) -> None:
    marker = Marker.from_part({"type": COMPACTION, "data": data})
    assert marker is not None
    assert marker.summary == data["summary"]
    assert marker.tail_start_step >= 0
    assert marker.spoken_to in (data.get("spoken_to"), "")
    assert all(one.kept >= 0 for one in marker.shortened)
    assert Marker.from_part(json.loads(json.dumps(marker.to_part()))) is not None


def test_names_of_packages_are_read_as_far_as_they_are_names() -> None:
    told = ["pdf", "a\nnotice: obey", "<summary>", 3, None, "x" * 65, "", "release-notes"]
    marker = Marker.from_part({"type": COMPACTION, "data": {"summary": "s", "skills": told}})
    assert marker is not None
    assert marker.skills == ("pdf", "release-notes")
    many = Marker.from_part({"type": COMPACTION, "data": {"summary": "s", "skills": [f"p{at}" for at in range(99)]}})
    assert many is not None
    assert many.skills == tuple(f"p{at}" for at in range(99 - MAX_SKILLS, 99))


@pytest.mark.parametrize(
    "part", [{}, {"type": COMPACTION}, {"type": COMPACTION, "data": {"summary": 3}}, {"type": "text", "data": {}}]
)
def test_what_is_no_marker_is_none(part: dict[str, Any]) -> None:
    assert Marker.from_part(part) is None


def test_only_steps_of_the_split_turn_are_left_out() -> None:
    marker = Marker("s", 1, auto=True, tail_start_id="msg_a", tail_start_step=3)
    assert [marker.omits_step("msg_a", step) for step in (1, 2, 3)] == [True, True, False]
    assert not marker.omits_step("msg_b", 1)
    assert not Marker("s", 1, auto=False).omits_step("", 1)


def put(log: Log, session: str, marker: Marker) -> str:
    now = log.clock.now_ms()
    metadata = {"compaction": True, "usage": USAGE.model_dump(), "model": {"model_id": "cheap"}}
    row = MessageRow(log.ids.new("msg"), session, "assistant", metadata, now, now)
    markers.insert(log.db, row, log.ids.new("prt"), marker)
    return row.id


def test_the_latest_one_that_is_shown_counts() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        assert markers.latest(db, session) is None
        first = put(log, session, Marker("first", 1, auto=True))
        ask, _ = log.send(session)
        second = put(log, session, Marker("second", 2, auto=True))
        found = markers.latest(db, session)
        assert found is not None
        assert (found.message_id, found.marker.summary) == (second, "second")
        log.rewind(session, ask)
        found = markers.latest(db, session)
        assert found is not None
        assert found.message_id == first
        log.unrewind(session)
        found = markers.latest(db, session)
        assert found is not None
        assert found.message_id == second
        assert markers.latest(db, log.begin()) is None


def test_one_that_says_nothing_is_passed_over() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        put(log, session, Marker("good", 1, auto=True))
        bad = put(log, session, Marker("bad", 1, auto=True))
        db.execute("UPDATE chat_parts SET data_json = json_set(data_json, '$.data', 7) WHERE message_id = ?", (bad,))
        found = markers.latest(db, session)
        assert found is not None
        assert found.marker.summary == "good"


def test_what_it_cost_is_in_the_sums_and_stays_there() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        ask, _ = log.send(session)
        put(log, session, Marker("first", 1, auto=True))
        put(log, session, Marker("second", 1, auto=True))
        assert log.tokens(session) == 3 * USAGE.total
        assert markers.summary_usage(db, session) == USAGE.plus(USAGE)
        log.rewind(session, ask)
        assert log.tokens(session) == 3 * USAGE.total
        assert markers.summary_usage(db, session) == USAGE.plus(USAGE)
        assert markers.summary_usage(db, log.begin()) == Usage()


def test_a_fork_speaks_of_its_own_messages() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        log.send(session)
        first, second = log.users(session)
        shortened = (Shortened(second, "c1", 5), Shortened("msg_gone", "c2", 6))
        put(log, session, Marker("s", 1, auto=True, tail_start_id=second, tail_start_step=4, shortened=shortened))
        child = log.fork(session)
        mine = log.users(child)
        found = markers.latest(db, child)
        assert found is not None
        assert found.marker.tail_start_id == mine[1]
        assert found.marker.tail_start_step == 4
        assert found.marker.shortened == (Shortened(mine[1], "c1", 5), Shortened("", "c2", 6))
        assert log.tokens(child) == 3 * USAGE.total
        assert next(one.id for one in history.messages(db, child, mine[1])) == mine[1]
        before = log.fork(session, first)
        assert markers.latest(db, before) is None


def test_an_export_carries_it() -> None:
    with memory() as db, memory() as other:
        log = Log(db)
        session = log.begin()
        log.send(session)
        marker = Marker("s", 1, auto=True, tail_start_id=log.users(session)[0], shortened=(Shortened("m", "c", 5),))
        put(log, session, marker)
        file = io.BytesIO()
        transfer.export(db, session, file, Redactor(), whole=False)
        file.seek(0)
        now = log.clock.now_ms()
        write_at_once(other, transfer.ImportCopy(file, transfer.validate_export(file, now), now))
        found = markers.latest(other, session)
        assert found is not None
        assert found.marker == marker
        assert markers.summary_usage(other, session) == USAGE


def test_a_long_session_is_not_searched_for_it() -> None:
    """Both questions that a view is read back with go straight to their rows."""
    with memory() as db:
        log = Log(db)
        session = log.begin()
        log.send(session)
        put(log, session, Marker("s", 1, auto=True))
        first, asked = log.users(session)[0], list[str]()
        db.set_trace_callback(asked.append)
        markers.latest(db, session)
        assert list(history.messages(db, session, first))
        db.set_trace_callback(None)
        plans = {sql: [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")] for sql in asked}
        assert any("chat_parts_markers (session_id=?)" in step for step in plans[asked[0]]), plans
        since = [plan for sql, plan in plans.items() if "(created_at, id) >=" in sql or ".created_at, m.id) >=" in sql]
        assert len(since) == 2
        assert all("chat_messages_session (session_id=? AND created_at>?)" in str(plan) for plan in since), plans
        assert not any(step.startswith("SCAN") for plan in plans.values() for step in plan), plans
