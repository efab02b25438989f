"""What travels with work that agents give each other: callers, authority, limits; and how much one may ask."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from agent_common.protocol.work import Principal, WorkBounds, WorkRequest
from agent_host.access import TeamMember
from agent_host.agents.callers import MAX_CALLERS, MOST_OPEN, check_chain, lineage_of, read_callers, record_request
from agent_host.agents.errors import AskedInCircle, AskedTooDeep
from agent_host.database import open_database
from agent_host.errors import TooMany

ANN = TeamMember("ann", "red", is_operator=False)


def parent(**bounds: int) -> WorkRequest:
    who = Principal(name="pat", kind="user", verified=True, verified_by="x" * 500, authorization_scope=("read",))
    return WorkRequest(
        request_id="r",
        principal=who,
        content="{}",
        constraints_version=0,
        submitted_at="2026-11-22T02:19:05Z",
        audit_ref="",
        bounds=WorkBounds(**bounds) if bounds else None,
    )


def test_authority_only_narrows() -> None:
    found = lineage_of(ANN, parent(max_duration_seconds=10, max_tool_calls=3), ("zoe",), 59.2)
    assert found.callers == ("zoe", "ann")
    assert (found.principal.name, found.principal.authorization_scope) == ("pat", ("read",))
    assert len(found.principal.verified_by or "") <= 500
    assert found.bounds == WorkBounds(max_duration_seconds=10, max_tool_calls=3)
    assert lineage_of(ANN, parent(), (), 59.2).bounds == WorkBounds(max_duration_seconds=60)
    alone = lineage_of(ANN, None, (), 5)
    assert (alone.principal.name, alone.principal.kind, alone.callers) == ("agent:ann", "agent", ("ann",))
    operator = lineage_of(TeamMember("operator", "red", is_operator=True), None, (), 5)
    assert (operator.principal.name, operator.callers) == ("operator", ())


def test_chains_have_an_end() -> None:
    callers = [f"a{number}" for number in range(MAX_CALLERS)]
    check_chain(callers, "other")
    with pytest.raises(AskedTooDeep, match="a0 -> a1"):
        check_chain([*callers, "ann"], "other")
    with pytest.raises(AskedInCircle, match="a0 -> a1"):
        check_chain(callers, "a0")


def test_a_caller_has_so_many_open_requests(tmp_path: Path) -> None:
    def fill(connection: Connection) -> None:
        for number in range(MOST_OPEN):
            record_request(connection, f"r{number}", "ann", ["ann"], 1000)
        record_request(connection, "r0", "ann", ["ann"], 1000)
        with pytest.raises(TooMany, match="wait for some"):
            record_request(connection, "more", "ann", ["ann"], 1000)
        record_request(connection, "bob's", "bob", ["zoe", "bob"], 1000)
        assert read_callers(connection, "bob's") == ("zoe", "bob")
        assert read_callers(connection, "unknown") == ()
        record_request(connection, "later", "ann", ["ann"], 1_000_000)  # those were never admitted

    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        database.run_sync(fill)
