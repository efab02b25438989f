"""A disk that does not take the end of work: what is not on it is not told to the host."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.e2e.conftest import Start
from tests.e2e.live import PATIENCE, Runtime
from tests.e2e.recovery.test_bad_disk import fill, small_disk

from .host import Host, request


@pytest.mark.slow
def test_a_result_is_told_once_the_disk_has_it(provider: ScriptedProvider, host: Host, tmp_path: Path) -> None:
    settings = {"AGENT_CONFINEMENT": "off", "AGENT_MEDIATION_URL": host.url}
    with small_disk(tmp_path / "disk") as disk, Runtime(provider, disk / "data", **settings) as agent:
        peer = host.accept()
        peer.attach()
        pieces = ("it begins ", *("x" * 20_000 for _ in range(100)))
        provider.script.replace([Hang(after=1, reply=Say(pieces=pieces))])
        peer.send(request("req-1"))
        peer.until(signal="accepting", request_id="req-1")
        provider.wait_for(1)
        ballast = fill(disk)
        provider.release()
        agent.process.wait_for_output("the end of a turn is not recorded", PATIENCE)
        peer.send({"ctl": "ping", "n": 7})
        peer.until(ctl="pong", n=7)
        assert not [frame for frame in peer.seen if "status" in frame], "the turn is over, and nothing has it yet"
        ballast.unlink()
        told = peer.result("req-1")
        kept = agent.sql("SELECT json_extract(result_json, '$.status') FROM work")
        assert [row[0] for row in kept] == [told["status"]]


@pytest.mark.slow
def test_a_result_that_the_ledger_refuses_is_not_told(start: Start, host: Host) -> None:
    agent = start(AGENT_MEDIATION_URL=host.url)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))])
    peer.send(request("req-1"))
    peer.until(signal="accepting", request_id="req-1")
    agent.provider.wait_for(1)
    with closing(sqlite3.connect(agent.data_dir / "agent.db", isolation_level=None)) as database:
        database.execute(
            "CREATE TRIGGER full BEFORE UPDATE OF result_json ON work BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        agent.provider.release()
        agent.process.wait_for_output("the end of a turn is not recorded", PATIENCE)
        peer.send({"ctl": "ping", "n": 7})
        peer.until(ctl="pong", n=7)
        assert not [frame for frame in peer.seen if "status" in frame]
        database.execute("DROP TRIGGER full")
    told = peer.result("req-1")
    assert agent.sql("SELECT json_extract(result_json, '$.status') FROM work")[0][0] == told["status"]
