"""`agent-host hub`: one more hub beside a host, on the same PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_client.hub import AuthError
from agent_testing import LiveProcess
from tests.unit.host.postgresql import new_database, postgresql

from .hub_link import url_of
from .live import OPERATOR, PATIENCE, UP, Host
from .members import make_member
from .test_hub_client import Echo, asked, joined

HUB = [*UP[:-1], "hub"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    """A host, and a process with its hub only."""
    with postgresql() as server:
        shared = {"MESH_DATABASE_URL": new_database(server, "beside")}
        beside = Host(tmp_path_factory.mktemp("hub"), **shared)
        beside.command = HUB
        with Host(tmp_path_factory.mktemp("host"), **shared) as host, beside:
            yield host, beside


async def test_agents_of_both_talk_and_an_operator_reads_at_either(hosts: tuple[Host, Host]) -> None:
    host, beside = hosts
    token = make_member(host, "writer")
    async with joined(url_of(host), "reader") as reader, joined(url_of(beside), "writer", Echo(), token=token):
        assert await asked(reader, "writer", "hello") == "you said hello"
        for one in hosts:
            rows = one.operator.get("/hub/agents").json()["agents"]
            assert {"reader", "writer"} <= {row["passport"]["name"] for row in rows}


@pytest.mark.slow
async def test_a_token_that_the_host_revokes_ends_its_links_beside_it(hosts: tuple[Host, Host]) -> None:
    host, beside = hosts
    token = make_member(host, "goes")
    async with joined(url_of(beside), "goes", token=token) as goes, joined(url_of(host), "stays") as stays:
        session = await stays.open(type="conversation", target="goes")
        host.token_command("goes", "--revoke")
        with pytest.raises(AuthError):
            await goes.wait_for_session_event(session.session_id, lambda event: bool(event.text), timeout=PATIENCE)


def test_it_does_nothing_else(hosts: tuple[Host, Host]) -> None:
    _, beside = hosts
    assert beside.operator.get("/healthz").status_code == 200
    assert beside.operator.get("/readyz").json() == {"ready": True, "reasons": []}
    for path in ("/workspaces", "/v1/models", "/tokens", "/blackboard"):
        assert beside.operator.get(path).status_code == 404
    assert "models" not in beside.process.output()


def test_it_needs_a_database_that_can_be_shared(tmp_path: Path) -> None:
    env = {"MESH_DATA_DIR": str(tmp_path), "MESH_PORT": "0", "MESH_ADMIN_TOKEN": OPERATOR}
    with LiveProcess(HUB, env) as process:
        assert process.wait(PATIENCE) == 1
        assert "MESH_DATABASE_URL: hubs share a PostgreSQL server" in process.output()
