"""What the log of the bots says about their token of a live host."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_client import Mesh
from frontends.bots.host_token import check_host_token
from tests.integration.host.live import OPERATOR, Host


async def lines(url: str, token: str, caplog: pytest.LogCaptureFixture, *others: str) -> list[str]:
    caplog.clear()
    async with Mesh(url, token) as mesh:
        await check_host_token(mesh, ["a", *others])
    return [record.getMessage() for record in caplog.records if record.name.startswith("frontends")]


@pytest.mark.slow
async def test_a_token_of_the_host_is_looked_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Host(tmp_path, MESH_PROVIDER="demo") as host:
        host.mesh.workspaces.create("a")
        scoped = host.mesh.tokens.create("ann", ["a"]).token
        assert await lines(host.url, scoped, caplog) == []
        assert await lines(host.url, scoped, caplog, "writer") == [
            "the bots have a workspace that is not there, or that their token may not use"
        ]
        assert await lines(host.url, OPERATOR, caplog) == [
            "the bots have the token of an operator; `agent-host token --user` makes one that may do less"
        ]
        assert await lines(host.url, "wrong", caplog) == [
            "the host does not accept the token of the bots; give them another one by MESH_TOKEN"
        ]
    assert await lines(host.url, scoped, caplog) == ["the host does not answer; the bots keep what people write"]
