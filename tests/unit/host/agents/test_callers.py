"""What travels with work that agents give each other: callers, authority, limits; and how much one may ask."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from agent_common.protocol.work import Principal, WorkBounds, WorkRequest
from agent_host.access import TeamMember
from agent_host.agents.callers import (
    MAX_CALLERS,
    MOST_OPEN,
    CallChain,
    check_chain,
    lineage_of,
    read_chain,
    record_request,
)
from agent_host.agents.errors import AskedInCircle, AskedTooDeep
from agent_host.database import open_database
from agent_host.errors import TooMany

ANN = TeamMember("ann", "red", is_operator=False)
NOBODY = CallChain()


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
    found = lineage_of(ANN, parent(max_duration_seconds=10, max_tool_calls=3), CallChain(("zoe",), 1), 59.2, waits=True)
    assert found.chain == CallChain(("zoe", "ann"), 2)
    assert (found.principal.name, found.principal.authorization_scope) == ("pat", ("read",))
    assert len(found.principal.verified_by or "") <= 500
    assert found.bounds == WorkBounds(max_duration_seconds=10, max_tool_calls=3)
    for elapsed, left in ((0.0, 40), (5.2, 35), (58.0, 1)):
        late = lineage_of(ANN, parent(max_duration_seconds=40), NOBODY, 60, waits=True, elapsed=elapsed)
        assert late.bounds.max_duration_seconds == left
    assert lineage_of(ANN, parent(), NOBODY, 59.2, waits=True).bounds == WorkBounds(max_duration_seconds=60)
    alone = lineage_of(ANN, None, NOBODY, 5, waits=False)
    assert (alone.principal.name, alone.principal.kind, alone.chain.callers) == ("agent:ann", "agent", ("ann",))
    operator = lineage_of(TeamMember("operator", "red", is_operator=True), None, NOBODY, 5, waits=True)
    assert (operator.principal.name, operator.chain) == ("operator", NOBODY)


def test_chains_have_an_end() -> None:
    callers = tuple(f"a{number}" for number in range(MAX_CALLERS))
    for waiting in (0, MAX_CALLERS):
        check_chain(CallChain(callers, waiting), "other", waits=True)
        with pytest.raises(AskedTooDeep, match="a0 -> a1"):
            check_chain(CallChain((*callers, "ann"), waiting), "other", waits=True)
    with pytest.raises(AskedInCircle, match="a0 -> a1"):
        check_chain(CallChain(callers, MAX_CALLERS), "a0", waits=True)


def test_who_has_handed_work_off_may_be_asked_about_it_and_is_not_given_it_back() -> None:
    handed_off = NOBODY.with_caller("zoe", waits=True).with_caller("ann", waits=False)
    asks = handed_off.with_caller("bob", waits=True)
    for free in ("zoe", "ann"):
        check_chain(asks, free, waits=True)
    with pytest.raises(AskedInCircle):
        check_chain(asks, "bob", waits=True)
    with pytest.raises(AskedInCircle):
        check_chain(asks.with_caller("ann", waits=True), "bob", waits=True)
    hands_back = handed_off.with_caller("bob", waits=False)
    for given in ("zoe", "ann", "bob"):
        with pytest.raises(AskedInCircle):
            check_chain(hands_back, given, waits=False)


def test_a_caller_has_so_many_open_requests(tmp_path: Path) -> None:
    def fill(connection: Connection) -> None:
        for number in range(MOST_OPEN):
            record_request(connection, f"r{number}", "ann", CallChain(("ann",), 1), 1000)
        record_request(connection, "r0", "ann", CallChain(("ann",), 1), 1000)
        with pytest.raises(TooMany, match="wait for some"):
            record_request(connection, "more", "ann", CallChain(("ann",), 1), 1000)
        record_request(connection, "bob's", "bob", CallChain(("zoe", "bob"), 1), 1000)
        assert read_chain(connection, "bob's") == CallChain(("zoe", "bob"), 1)
        assert read_chain(connection, "unknown") == NOBODY
        record_request(connection, "later", "ann", CallChain(("ann",), 1), 1_000_000)  # those were never admitted

    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        database.run_sync(fill)
