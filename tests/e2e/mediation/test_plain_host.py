"""The guest before a host that knows no extensions: no window is agreed on, and nothing can be taken back."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing import Hang, Say
from tests.e2e.conftest import Start

from .host import Host, Peer, request
from .test_guest import mediated

WAITING = 64


def results(peer: Peer, count: int) -> list[dict[str, Any]]:
    """The next results, in the order in which they come."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        frame = peer.line()
        assert frame is not None, peer.seen
        if "audit_ref" in frame:
            found.append(frame)
    return found


def test_requests_sent_at_once_are_done_one_after_the_other(start: Start, host: Host) -> None:
    mediated(start, host)
    peer = host.accept()
    names = [f"req-{number}" for number in range(8)]
    peer.send(*(request(name, f"say:{name}") for name in names))
    done = results(peer, len(names))
    assert [(one["request_id"], one["status"], one.get("content")) for one in done] == [
        (name, "completed", name) for name in names
    ]
    told = [(one["signal"], one["request_id"]) for one in peer.seen if one.get("request_id") and "signal" in one]
    assert told[:3] == [("accepting", "req-0"), ("completed", "req-0"), ("accepting", "req-1")], told


@pytest.mark.slow
def test_no_more_than_64_requests_wait(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))])
    peer = host.accept()
    peer.send(request("first"))
    peer.until(signal="accepting", request_id="first")
    agent.provider.wait_for(1)
    peer.send(*(request(f"req-{number}", "say:done") for number in range(WAITING + 6)))
    refused = results(peer, 6)
    assert {one["request_id"] for one in refused} == {f"req-{WAITING + number}" for number in range(6)}
    assert {(one["status"], one["error"].split(":")[0]) for one in refused} == {("denied", "overloaded")}
    peer.send(request("first"))
    assert peer.until(request_id="first")["signal"] == "accepting"  # what runs is joined, and waits for nothing
    agent.provider.script.replace()
    agent.provider.release()
    done = results(peer, WAITING + 1)
    assert {one["status"] for one in done} == {"completed"}
    assert [one["request_id"] for one in done] == ["first", *(f"req-{number}" for number in range(WAITING))]


def test_a_break_takes_what_waits_and_the_host_sends_it_again(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))])
    peer = host.accept()
    peer.send(request("first"), request("given-up", "say:no"), request("kept", "say:kept"))
    peer.until(signal="accepting", request_id="first")
    agent.provider.wait_for(1)
    peer.close()
    peer = host.accept()
    peer.send(request("kept", "say:kept"))
    agent.provider.script.replace()
    agent.provider.release()
    assert {one["request_id"]: one["status"] for one in results(peer, 2)} == {"first": "completed", "kept": "completed"}
    peer.send(request("last", "say:last"))
    assert results(peer, 1)[0]["request_id"] == "last"
    assert not any("given-up" in str(one) for one in peer.seen)
