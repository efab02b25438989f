"""An agent and the web: what it finds and fetches by its host, and what it does not get at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.chat.test_injection_canary import CANARY, check
from tests.integration.host.live import PATIENCE, Host, catalog

from .own_network import HITS, POISONED, SITE, run_in_own_network, site, skip_outside

pytestmark = pytest.mark.slow


@pytest.mark.timeout(120)
def test_in_a_network_of_its_own() -> None:
    """Runs the others where a public address can be had."""
    run_in_own_network(__file__, timeout=110)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, ScriptedProvider, Host]]:
    skip_outside()
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "found.yaml").write_text(yaml.safe_dump({"queries": {"poison": POISONED}, "otherwise": HITS}))
    (folder / "site").mkdir()
    with (
        site(folder / "site"),
        ScriptedProvider(models=("big-1",)) as provider,
        Host(
            folder / "data",
            MESH_MODELS=catalog(folder, provider),
            UPSTREAM_KEY="k",
            MESH_SEARCH=f"recorded:{folder / 'found.yaml'}",
            MESH_EGRESS_HOSTS=f"{SITE}, 127.0.0.1",
            MESH_EGRESS_PORT=0,
        ) as host,
    ):
        made = host.operator.post("/workspaces", json={"id": "reader"}).json()
        started = host.operator.post("/workspaces/reader/start")
        assert started.status_code == 200, started.text
        headers = {"authorization": f"Bearer {made['token']}"}
        with httpx.Client(base_url=made["url"], headers=headers, timeout=PATIENCE, trust_env=False) as client:
            yield client, provider, host


def call(agent: tuple[httpx.Client, ScriptedProvider, Host], name: str, **arguments: object) -> Any:
    """The output of one tool call: the envelope, or the text of an error."""
    client, provider, _ = agent
    provider.script.replace([Call(name, arguments), Say("done")])
    reply = client.post("/chat", json={"message": "go"}, headers={"accept": "application/json"})
    assert reply.status_code == 200, reply.text
    [output] = reply.json()["tool_outputs"]
    return output["output"]


def test_it_finds_a_page_and_reads_it(agent: Any) -> None:
    found = call(agent, "web_search", query="something")
    assert found["data"] == {"results": HITS}
    read = call(agent, "web_fetch", url=HITS[0]["url"])
    assert read["data"]["status"] == 200, read
    assert "# Hello" in read["data"]["text"]
    line = agent[2].process.wait_for_output(r'"agent": "reader".*"verdict": "open"')[0]
    assert SITE in line


def test_what_it_finds_and_reads_is_data_from_a_source(agent: Any) -> None:
    provider = agent[1]
    for name, arguments, source in (
        ("web_search", {"query": "poison"}, "web search"),
        ("web_fetch", {"url": POISONED[0]["url"]}, f"web page {POISONED[0]['url']}"),
    ):
        call(agent, name, **arguments)
        last = provider.completions[-1]
        told = json.loads(last.messages[-1]["content"])
        assert (told["source"], told["type"]) == (source, "output"), told
        assert CANARY in json.dumps(told["data"])
        assert check(last) > 0


def test_it_gets_nowhere_else(agent: Any) -> None:
    for url, why in {
        "http://93.184.216.35:8080/": "MESH_EGRESS_HOSTS",
        f"http://{SITE}:22/": "not for the web",
        "http://169.254.169.254/": "link-local",
        agent[2].url: "this machine itself",
    }.items():
        assert why in call(agent, "web_fetch", url=url)


def test_its_commands_do_not_even_get_there(agent: Any) -> None:
    code = f"import socket; socket.create_connection(('{SITE}', 8080), 2)"
    tried = call(agent, "bash", command=f'python3 -c "{code}"')
    assert "Network is unreachable" in tried["data"]["stderr"]


def test_rules_let_commands_out_to_a_host_and_to_no_other(agent: Any) -> None:
    client = agent[0]
    page = f"http://{SITE}:8080/page.html"
    ask = "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read())' "
    assert "Hello" not in call(agent, "bash", command=ask + page)["data"]["stdout"]
    everything = {"permission": "*", "pattern": "*", "action": "allow"}
    named = {"permission": "shell.net", "pattern": SITE, "action": "allow"}
    try:
        for rules, goes_out in (([everything], False), ([named], True), ([], False)):
            assert client.put("/sessions/main/permissions", json={"rules": rules}).status_code == 200
            tried = call(agent, "bash", command=ask + page)["data"]
            assert ("Hello" in tried["stdout"]) == goes_out, tried
        client.put("/sessions/main/permissions", json={"rules": [{**named, "pattern": "*"}]})
        refused = call(agent, "bash", command=ask + "http://93.184.216.35:8080/")["data"]["stderr"]
        assert "403" in refused, refused  # the rules let it go anywhere, the host does not
        seen = call(agent, "bash", command="env; cat /proc/self/environ")["data"]["stdout"]
        assert client.headers["authorization"].removeprefix("Bearer ") not in seen
    finally:
        client.put("/sessions/main/permissions", json={"rules": []})
