"""Search over HTTP, as an agent asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agent_common.protocol import SearchHit
from agent_runtime.errors import MeshUnavailable
from agent_runtime.mesh import MeshSearch

from .live import Host, assert_openai_error

pytestmark = pytest.mark.slow

HITS = [{"title": "One", "url": "https://example.org/1", "snippet": "first"}]
ASK = {"query": "anything", "session": "ses_1"}


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "found.json").write_text(json.dumps({"otherwise": HITS * 30}))
    with Host(folder / "data", MESH_SEARCH=f"recorded:{folder / 'found.json'}") as host:
        yield host


def test_an_agent_searches_and_its_session_is_counted(searching: Host) -> None:
    with searching.client(searching.token("writer")) as agent:
        reply = agent.post("/v1/search", json={**ASK, "max_results": 2})
        assert (reply.status_code, reply.json()) == (200, {"results": HITS * 2})
        assert len(agent.post("/v1/search", json=ASK).json()["results"]) == 8
        statuses = {agent.post("/v1/search", json=ASK).status_code for _ in range(23)}
        assert statuses == {200}
        assert_openai_error(agent.post("/v1/search", json=ASK), 429, "search_limit")
        assert agent.post("/v1/search", json={**ASK, "session": "ses_2"}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [{}, {**ASK, "query": ""}, {**ASK, "max_results": 0}, {**ASK, "max_results": 21}, {**ASK, "more": 1}, [1]],
)
def test_what_is_no_search(searching: Host, body: object) -> None:
    with searching.client(searching.token("writer")) as agent:
        assert_openai_error(agent.post("/v1/search", json=body), 422, "invalid_request")


def test_only_for_who_is_known(searching: Host) -> None:
    with searching.client(None) as stranger:
        assert_openai_error(stranger.post("/v1/search", json=ASK), 401, "unauthorized")


def test_search_may_be_off(tmp_path: Path) -> None:
    with Host(tmp_path, MESH_SEARCH="off") as host:
        reply: httpx.Response = host.operator.post("/v1/search", json=ASK)
        assert_openai_error(reply, 503, "search_off")


async def test_the_runtimes_own_client(searching: Host) -> None:
    token = searching.token("reader")
    search = MeshSearch(searching.url, {"authorization": f"Bearer {token}"})
    try:
        assert await search.search("anything", 2, "ses_1") == [SearchHit(**HITS[0])] * 2
    finally:
        await search.close()
    stranger = MeshSearch(searching.url, {})
    with pytest.raises(MeshUnavailable, match="bearer token"):
        await stranger.search("anything", 2, "ses_1")
    await stranger.close()
