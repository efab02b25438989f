"""What lies in a host's ledgers for too long goes, by itself and while it serves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from agent_host.database import model_calls, open_database, work, work_audit
from tests.integration.host.live import PATIENCE, Host, said
from tests.unit.host.postgresql import new_database, postgresql
from tests.unit.host.test_retention import call, frame, request

OLD = 1500


def aged(row: dict[str, Any]) -> dict[str, Any]:
    """Rows that the other tests make are old by their own clock; here they are old by that of the machine."""
    late = round(time.time() * 1000) - 1_800_000_000_000
    times = ("at", "started_at", "submitted_at", "updated_at", "expires_at", "finished_at")
    return {name: value + late if name in times and value is not None else value for name, value in row.items()}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'mesh.db'}"
        return
    with postgresql() as server:
        yield new_database(server, "mesh")


def test_a_host_prunes_its_ledgers_and_serves_meanwhile(tmp_path: Path, url: str) -> None:
    rows = {
        work_audit: [frame(days) for days in [100.0] * OLD + [1.0]],
        model_calls: [call(days) for days in [100.0] * OLD + [1.0]],
        work: [*(request(f"old-{number}", 100) for number in range(OLD)), request("unread", 100, "resulted")],
    }
    with closing(open_database(url)) as database:
        for table, made in rows.items():
            database.run_sync(lambda one, to=table, of=made: one.execute(insert(to), [aged(row) for row in of]))
    with Host(tmp_path / "data", MESH_DATABASE_URL=url) as host:
        assert host.operator.post("/workspaces", json={"id": "a", "driver": "external"}).status_code == 201
        deadline, number, slowest = time.monotonic() + PATIENCE, 0, 0.0
        while left(host):
            assert time.monotonic() < deadline, left(host)
            given = {"workspace": "a", "request": {"request_id": f"new-{number}", "content": "x"}}
            began = time.monotonic()
            assert host.operator.post("/work", json=given).status_code == 202
            slowest, number = max(slowest, time.monotonic() - began), number + 1
        assert slowest < 1.0
        assert host.operator.get("/work/old-1").status_code == 404
        assert host.operator.get("/work/unread").status_code == 200
        with host.client(host.token("b")) as client:
            assert client.post("/v1/chat/completions", json=said("hello")).status_code == 200


def left(host: Host) -> list[str]:
    """What old rows there still are."""
    audit = host.operator.get("/audit", params={"limit": OLD // 3}).json()["entries"]
    calls = sum(one["calls"] for one in host.operator.get("/usage").json()["sums"])
    known = host.operator.get(f"/work/old-{OLD - 1}").status_code == 200
    return [
        *(["audit"] if sum(row["type"] == "x" for row in audit) > 1 else []),
        *(["calls"] if calls > 1 else []),
        *(["work"] if known else []),
    ]
