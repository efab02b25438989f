"""An attached guest that sends without end takes nothing from the other workspaces: work for them is taken at once, and
the host's memory stays bounded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_host.listener.audit.row_shares import ROWS
from tests.memory_limit import peak_mib

from .attached_guest import NOW, Guest
from .listening_host import ListeningHost

FLOOD_SECONDS = 3.0
MOST_SECONDS = 1.0
"""That handing in work for another workspace may take."""
MOST_MIB = 400
MOST_ROWS = 2 * (2 * ROWS + 100)
"""Of the trail: the flood may begin in one minute and end in the next."""
REQUESTS = 500
"""Requests of a flood, handed in again and again: the ledger holds 10000 open ones."""
_FRAMES = 20_000


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningHost]:
    with ListeningHost(tmp_path_factory.mktemp("mesh")) as host:
        host.enrol("good")
        yield host


def accepting(number: int) -> dict[str, Any]:
    return {"signal": "accepting", "agent_id": "evil", "observed_at": NOW, "request_id": f"none-{number}"}


def late(number: int) -> dict[str, Any]:
    told = {"request_id": f"none-{number}", "status": "completed", "content": "x"}
    return {**told, "completed_at": NOW, "audit_ref": "x"}


def progress(number: int) -> dict[str, Any]:
    return {"ctl": "progress", "request_id": "none", "seq": number, "kind": "text", "text": "x"}


def values(number: int) -> dict[str, Any]:
    """As much work to read as a line of that length can be."""
    return {"ctl": f"x{number}", "body": {"x": [{"": 0}] * 20_000}}


def faults(number: int) -> dict[str, Any]:
    """As many faults as a line can have."""
    return {"ctl": "resume", "running": [0] * 300_000}


def escapes(number: int) -> dict[str, Any]:
    """A line that can be read only with care."""
    return {"ctl": "x", "body": [{"\u00e9": "\u00e9"}] * 50_000}


FLOODS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "accepting": (accepting, _FRAMES),
    "late-results": (late, _FRAMES),
    "unknown-controls": (lambda number: {"ctl": f"x{number}"}, _FRAMES),
    "pings": (lambda number: {"ctl": "ping", "n": number}, _FRAMES),
    "progress": (progress, _FRAMES),
    "values": (values, 50),
    "faults": (faults, 8),
    "escapes": (escapes, 8),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_one_guest_is_its_own_affair(host: ListeningHost, kind: str) -> None:
    frame, count = FLOODS[kind]
    lines = [json.dumps(frame(number)).encode() for number in range(count)]
    flood_does_no_harm(host, kind, lines)


def test_empty_lines_without_end_are_its_own_affair(host: ListeningHost) -> None:
    flood_does_no_harm(host, "empty", [b"", b" \r"] * (1 << 18))


def flood_does_no_harm(host: ListeningHost, kind: str, lines: list[bytes]) -> None:
    """A guest says these lines again and again, while another workspace is given work."""
    evil, stop = f"evil-{kind}", threading.Event()
    took: list[float] = []
    with Guest(host.port, evil, host.enrol(evil)) as guest:
        flood = threading.Thread(target=guest.flood, args=(lines, stop))
        flood.start()
        try:
            over = time.monotonic() + FLOOD_SECONDS
            while time.monotonic() < over:
                began = time.monotonic()
                request = {"request_id": f"{kind}-{len(took) % REQUESTS}", "content": "x"}
                taken = host.operator.post("/work", json={"workspace": "good", "request": request})
                took.append(time.monotonic() - began)
                assert taken.status_code == (202 if len(took) <= REQUESTS else 200), taken.text
        finally:
            stop.set()
            flood.join()
    assert max(took) < MOST_SECONDS, f"{max(took):.2f} s, {guest.sent} bytes were sent"
    assert guest.sent > 64 << 10, "the flood did not reach the host"
    assert peak_mib(host.process.pid) < MOST_MIB
    kinds = [row["type"] for row in host.trail(evil)]
    assert len(kinds) < MOST_ROWS, "repeats are counted, not written one by one"
    alarms = [kind for kind in kinds if kind.startswith("alarm.")]
    assert all(alarms.count(one) <= 2 for one in alarms)
