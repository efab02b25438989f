"""`GET /work`: the work of all workspaces, newest first, by page, status and workspace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .live import Host, assert_problem

IDS = [f"list-{number}" for number in range(7)]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with work for two workspaces that do not run; one request is cancelled."""
    with Host(tmp_path_factory.mktemp("work") / "data") as host:
        for name in ("even", "odd"):
            assert host.operator.post("/workspaces", json={"id": name, "driver": "external"}).status_code == 201
        for number, request_id in enumerate(IDS):
            work = {
                "workspace": "odd" if number % 2 else "even",
                "request": {"request_id": request_id, "content": "x"},
            }
            assert host.operator.post("/work", json=work).status_code == 202
        assert host.operator.post(f"/work/{IDS[3]}/cancel").status_code == 200
        yield host


def ids(host: Host, **query: Any) -> list[str]:
    reply = host.operator.get("/work", params=query)
    assert reply.status_code == 200, reply.text
    return [record["request_id"] for record in reply.json()["work"]]


def test_it_is_newest_first_and_of_one_shape_with_a_single_record(listed: Host) -> None:
    page = listed.operator.get("/work").json()
    assert [record["request_id"] for record in page["work"]] == IDS[::-1]
    assert page["next"] is None
    assert listed.operator.get("/work", params={"limit": len(IDS)}).json() == page
    assert page["work"][0] == listed.operator.get(f"/work/{IDS[-1]}").json()


def test_pages_join_without_a_gap(listed: Host) -> None:
    found: list[str] = []
    after = None
    while True:
        page = listed.operator.get("/work", params={"limit": 3, **({"after": after} if after else {})}).json()
        found += [record["request_id"] for record in page["work"]]
        if (after := page["next"]) is None:
            break
    assert found == IDS[::-1]


def test_it_is_filtered_by_workspace_and_status(listed: Host) -> None:
    assert ids(listed, workspace="odd") == [IDS[5], IDS[3], IDS[1]]
    assert ids(listed, status="cancelled") == [IDS[3]]
    assert ids(listed, status=["cancelled", "queued"]) == IDS[::-1]
    assert ids(listed, status="queued", workspace="odd") == [IDS[5], IDS[1]]
    assert ids(listed, workspace="nobody") == []


@pytest.mark.parametrize(
    ("query", "field"), [({"status": "done"}, "status"), ({"limit": 0}, "limit"), ({"after": "gone"}, "after")]
)
def test_a_wrong_query_is_named(listed: Host, query: dict[str, str | int], field: str) -> None:
    wrong = assert_problem(listed.operator.get("/work", params=query), 422, "invalid_request")
    assert wrong["errors"][0]["field"].startswith(field)
