"""A guest that fills the host's audit trail pushes out rows of its own, and none of anybody else's."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.e2e.live import eventually
from tests.integration.host.live import PATIENCE

from .attached_guest import NOW, Guest
from .listening_host import ListeningHost

KEPT = 300
"""Rows that the host keeps of all workspaces together, instead of five million."""
WORKS = 20
KINDS = 40


def late(number: int) -> bytes:
    """A result of work that there never was."""
    told = {"request_id": f"none-{number}", "status": "completed", "content": "x", "completed_at": NOW}
    return json.dumps({**told, "audit_ref": "x"}).encode()


def rows_of(host: ListeningHost, workspace: str, up_to: int | None = None) -> list[dict[str, Any]]:
    return [row for row in host.trail(workspace) if up_to is None or row["id"] <= up_to]


def test_a_flood_takes_no_row_of_another_workspaces_trail(tmp_path: Path) -> None:
    with ListeningHost(tmp_path, MESH_RETENTION_ROWS=KEPT) as host:
        with Guest(host.port, "good", host.enrol("good")):
            for number in range(WORKS):
                given = {"workspace": "good", "request": {"request_id": f"r-{number}", "content": "x"}}
                assert host.operator.post("/work", json=given).status_code == 202
            eventually(lambda: sum(row["type"] == "request" for row in host.trail("good")) >= 4)
        eventually(lambda: "detached" in str(host.trail("good")[-1]))
        before = rows_of(host, "good")
        stop = threading.Event()
        with Guest(host.port, "evil", host.enrol("evil")) as guest:
            lines = [late(number) for number in range(2000)]
            flood = threading.Thread(target=guest.flood, args=(lines, stop))
            flood.start()
            try:
                eventually(lambda: len(host.trail("evil")) > 2 * KEPT)
            finally:
                stop.set()
                flood.join(PATIENCE)
        host.start()  # rows beyond those that are kept go at the start, and once an hour
        eventually(lambda: len(host.trail("evil")) <= KEPT)
        assert rows_of(host, "good", before[-1]["id"]) == before
