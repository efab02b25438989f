"""Work that the host has given up must not take effect in a guest that was disconnected
(docs/reference/mediation.md#failing-closed)."""

from __future__ import annotations

import json

import pytest

from agent_testing import Call, Hang, Say
from tests.e2e.conftest import Start
from tests.e2e.live import Runtime, eventually

from .host import Host, Peer, request

pytestmark = pytest.mark.slow

MARK = "ran.txt"


@pytest.fixture
def away(start: Start, host: Host) -> Runtime:
    """A guest with a command that waits at the closed gate: the channel broke while the model thought of it."""
    agent = start(AGENT_MEDIATION_URL=host.url, AGENT_MEDIATION_REQUIRED="true")
    peer = host.accept()
    peer.attach(epoch=3)
    command = Call("bash", {"command": f"echo ran >> {MARK}"})
    agent.provider.script.replace([Hang(after=0, reply=Say(calls=(command,)))], Say("done"))
    peer.send(request("req-1"))
    agent.provider.wait_for(1)
    host.hang_up()
    peer.close()
    eventually(lambda: agent.status()["channel"] in ("broken", "dialing"))
    agent.provider.release()
    eventually(lambda: agent.sql("SELECT count(*) FROM chat_parts WHERE tool_state = 'input-available'")[0][0])
    host.listen()
    return agent


def ran(agent: Runtime) -> bool:
    return (agent.data_dir / "workspace" / MARK).exists()


def outcome(agent: Runtime) -> str:
    return json.loads(agent.sql("SELECT outcome_json FROM turns")[0][0] or "{}").get("error_code", "")


@pytest.mark.parametrize("verdict", ["cancel", "forget"])
def test_work_that_the_host_takes_back_stops_before_anything_else_takes_effect(
    away: Runtime, host: Host, verdict: str
) -> None:
    resume = host.accept().attach({"req-1": verdict}, epoch=4)
    assert resume["running"] == ["req-1"]
    eventually(lambda: away.status()["channel"] == "ready")
    assert eventually(lambda: outcome(away)) == "cancelled"
    assert not ran(away)


def test_a_host_that_is_slow_to_greet_is_waited_for(away: Runtime, host: Host) -> None:
    peer: Peer = host.accept()
    peer.until(signal="ready")
    assert peer.quiet(1.0)
    assert not ran(away), "it has welcomed this workspace before, so that its silence is no consent"
    peer.send({"ctl": "nack", "code": "superseded"})
    eventually(lambda: away.status()["channel"] == "fenced")
    assert not ran(away)
    away.process.kill9()  # a stop in good order would leave the turn that waits its time


def test_a_guest_that_has_answered_a_greeting_knows_its_epoch_in_the_next_life(start: Start, host: Host) -> None:
    agent = start(AGENT_MEDIATION_URL=host.url)
    for epoch in (5, 6, 7):
        host.accept().welcome(epoch=epoch)
        agent.process.kill9()
        assert agent.sql("SELECT value FROM channel WHERE name = 'epoch'")[0][0] == epoch
        agent.start()


def test_work_that_the_host_still_wants_goes_on(away: Runtime, host: Host) -> None:
    peer = host.accept()
    peer.attach({"req-1": "continue"}, epoch=4)
    assert peer.result("req-1")["content"] == "done"
    assert ran(away)
