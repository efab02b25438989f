"""An attached guest that sends without end takes nothing from the other workspaces: work for them is taken at once, and
the host's memory stays bounded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from agent_host.listener.audit.row_shares import ROWS
from agent_testing import LiveProcess
from tests.integration.host.live import OPERATOR, PATIENCE, UP
from tests.memory_limit import HOST_MIB, limited, peak_mib

from .attached_guest import NOW, Guest

FLOOD_SECONDS = 3.0
MOST_SECONDS = 1.0
"""That handing in work for another workspace may take."""
MOST_MIB = 400
MOST_ROWS = 2 * (2 * ROWS + 100)
"""Of the trail: the flood may begin in one minute and end in the next."""
REQUESTS = 500
"""Requests of a flood, handed in again and again: the ledger holds 10000 open ones."""
_FRAMES = 20_000


class Host:
    """`agent-host up` with a memory limit."""

    def __init__(self, process: LiveProcess) -> None:
        self.process = process
        url = process.wait_for_output(r"agent-host listens on (\S+)")[1]
        self.port = int(process.wait_for_output(r"agents come for work to tcp://127.0.0.1:(\d+)")[1])
        headers = {"authorization": f"Bearer {OPERATOR}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def enrol(self, name: str) -> str:
        made = self.http.post("/workspaces", json={"id": name, "driver": "external"})
        assert made.status_code == 201, made.text
        return made.json()["mediation_key"]

    def trail(self, workspace: str) -> list[dict[str, Any]]:
        rows, after = list[dict[str, Any]](), 0
        while found := self.http.get("/audit", params={"workspace": workspace, "after": after, "limit": 1000}).json():
            rows += found["entries"]
            if (after := found["next"]) is None:
                break
        return rows


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("mesh")
    env = {
        "MESH_PORT": "0",
        "MESH_LISTENER_URL": "tcp://127.0.0.1:0",
        "MESH_DATA_DIR": str(folder),
        "MESH_ADMIN_TOKEN": OPERATOR,
    }
    with LiveProcess(limited(UP, HOST_MIB), env, timeout=PATIENCE) as process:
        host = Host(process)
        host.enrol("good")
        yield host
        host.http.close()


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
def test_a_flood_of_one_guest_is_its_own_affair(host: Host, kind: str) -> None:
    frame, count = FLOODS[kind]
    lines = [json.dumps(frame(number)).encode() for number in range(count)]
    flood_does_no_harm(host, kind, lines)


def test_empty_lines_without_end_are_its_own_affair(host: Host) -> None:
    flood_does_no_harm(host, "empty", [b"", b" \r"] * (1 << 18))


def flood_does_no_harm(host: Host, kind: str, lines: list[bytes]) -> None:
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
                taken = host.http.post("/work", json={"workspace": "good", "request": request})
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
