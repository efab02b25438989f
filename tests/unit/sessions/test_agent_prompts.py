"""What a session was told of is kept with it: its tools, its packages, and the same for its guests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agent_runtime.sessions import AgentPrompt, NewSession, agent_prompts, history, rows
from tests.unit.sessions.message_log import Log, memory

SESSION = NewSession("ses_1", "ann", "default", "/ws", "m", "a prompt", "d1", ("read",))
PACKAGES = {"pdf": "project:.agents/skills", "doc": "bundled"}


@pytest.fixture
def log() -> Iterator[Log]:
    with memory() as db:
        yield Log(db)


def kept(log: Log, name: str = "ses_1") -> history.SessionRow:
    found = history.session(log.db, name)
    assert found is not None
    return found


def test_packages_are_kept_and_inherited(log: Log) -> None:
    rows.insert_session(log.db, replace(SESSION, packages=PACKAGES), 1)
    assert kept(log).packages == PACKAGES
    assert list(kept(log).packages) == list(PACKAGES)
    child = log.fork("ses_1")
    assert kept(log, child).packages == PACKAGES


def test_a_session_from_before_there_were_packages_has_none(log: Log) -> None:
    rows.insert_session(log.db, SESSION, 1)
    assert '"packages"' not in log.db.execute("SELECT metadata_json FROM chat_sessions").fetchone()[0]
    assert kept(log).packages == {}
    log.db.execute("UPDATE chat_sessions SET metadata_json = json_set(metadata_json, '$.packages', 5)")
    assert kept(log).packages == {}


def test_a_guest_has_packages_of_its_own(log: Log) -> None:
    rows.insert_session(log.db, SESSION, 1)
    guest = AgentPrompt("a guest's prompt", "d2", ("grep",), PACKAGES)
    agent_prompts.add(log.db, "ses_1", "guest", guest)
    assert kept(log).agent_prompts == {"guest": guest}
    before = """UPDATE chat_sessions SET metadata_json = json_remove(metadata_json, '$.briefs."guest".packages')"""
    log.db.execute(before)
    assert kept(log).agent_prompts == {"guest": replace(guest, packages={})}
