"""An agent on a machine without a network card: all it needs comes through the unix sockets of its host."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml

from agent_testing import Call, LiveProcess, Say, ScriptedProvider
from tests.e2e.live import PATIENCE, SERVE, TOKEN, Runtime, eventually, fresh
from tests.integration.host.live import Host, catalog

from .own_network import HITS, SITE, run_in_own_network, site, skip_outside

pytestmark = pytest.mark.slow

RELAY = Path(__file__).with_name("relay.py")
ROOT = Path(__file__).parents[3]
PAGE = f"http://{SITE}:8080/page.html"
SKILL = """
    @skill
    async def ask(text: str, *, mesh_client):
        \"\"\"Ask a model.\"\"\"
        reply = await mesh_client.chat([{"role": "user", "content": text}])
        [vector] = await mesh_client.embed([text], model="embedding")
        return {"heard": reply["content"], "numbers": len(vector)}
"""
ASK = "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read())' "


@pytest.mark.timeout(180)
def test_in_a_network_of_its_own() -> None:
    """Runs the others where there is no network card."""
    run_in_own_network(__file__, timeout=170)


class Guest(Runtime):
    """A runtime in a namespace without a card; callers reach it by a relay, as they would over vsock."""

    def __init__(self, provider: ScriptedProvider, data_dir: Path, **settings: object) -> None:
        super().__init__(provider, data_dir, AGENT_LLM_BASE_URL="", PYTHONPATH=ROOT, **settings)
        self.command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *SERVE]
        self.door = data_dir.parent / "guest.sock"

    def start(self) -> None:
        self._relay = ExitStack()
        super().start()

    def client(self, **headers: str) -> httpx.Client:
        inside = ["nsenter", "-t", str(self.process.pid), "--net", sys.executable, str(RELAY)]
        self._relay.close()
        relay = LiveProcess([*inside, f"unix:{self.door}", self.url.replace("http", "tcp")], {"PYTHONPATH": str(ROOT)})
        self._relay.enter_context(relay).wait_for_output("joined")
        return httpx.Client(
            base_url="http://guest",
            transport=httpx.HTTPTransport(uds=str(self.door)),
            headers=headers or {"Authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE,
        )

    def __exit__(self, *details: Any) -> None:
        self._relay.close()
        super().__exit__(*details)

    def ask(self, name: str, **arguments: object) -> Any:
        """The output of one tool call: its data, or the text of an error."""
        self.provider.script.replace([Call(name, arguments), Say("done")])
        reply = self.chat("go", session_id="main")
        assert reply.status_code == 200, reply.text
        [output] = reply.json()["tool_outputs"]
        return output["output"]["data"] if isinstance(output["output"], dict) else output["output"]


def door(path: Path) -> str:
    return f"http+unix://{quote(str(path), safe='')}"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, ScriptedProvider, Path]]:
    skip_outside()
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "found.yaml").write_text(yaml.safe_dump({"queries": {}, "otherwise": HITS}))
    (folder / "site").mkdir()
    with (
        site(folder / "site"),
        ScriptedProvider(models=("big-1", "vectors-1")) as provider,
        Host(
            folder / "data",
            MESH_MODELS=catalog(folder, provider),
            UPSTREAM_KEY="k",
            MESH_SEARCH=f"recorded:{folder / 'found.yaml'}",
            MESH_HOST="off",
            MESH_LISTEN=f"unix:{folder / 'mesh.sock'}",
            MESH_EGRESS_HOSTS=SITE,
            MESH_EGRESS_HOST="off",
            MESH_EGRESS_LISTEN=f"unix:{folder / 'out.sock'}",
        ) as up,
    ):
        yield up, provider, folder


@pytest.fixture(scope="module")
def guest(host: tuple[Host, ScriptedProvider, Path]) -> Iterator[Guest]:
    up, provider, folder = host
    skills = folder / "skills"
    skills.mkdir()
    (skills / "ask.py").write_text(textwrap.dedent(SKILL))
    with Guest(
        provider,
        folder / "guest",
        AGENT_MESH_URL=door(folder / "mesh.sock"),
        AGENT_MESH_TOKEN=up.token("guest"),
        AGENT_EGRESS_URL=door(folder / "out.sock"),
        AGENT_EMBEDDING_MODEL="embedding",
        AGENT_SKILLS_DIR=skills,
        AGENT_MODEL_ATTEMPTS=4,
    ) as running:
        yield running


def test_there_is_no_card(guest: Guest, host: Any) -> None:
    inside = ("nsenter", "-t", str(guest.process.pid), "--net", "ip", "-o", "link")
    found = subprocess.run(inside, check=True, capture_output=True, text=True).stdout
    assert [line.split(": ")[1] for line in found.splitlines()] == ["lo"]
    assert host[0].url.startswith("http+unix://")
    assert "http://127" not in host[0].process.output()


def test_a_turn_with_tools_and_a_task(guest: Guest, host: Any) -> None:
    assert "hello" in guest.ask("bash", command="echo hello")["stdout"]
    guest.provider.script.replace([Call("bash", {"command": "echo 1"}), Say("it is done")])
    assert guest.run()["result"] == {"text": "it is done"}
    assert {call["agent_id"] for call in host[0].recent()} == {"guest"}
    assert guest.get("/readyz").json() == {"ready": True, "reasons": []}
    assert guest.get("/capabilities").json()["models"]


def test_an_answer_streams(guest: Guest) -> None:
    guest.provider.script.replace([Say(pieces=tuple(f"{number} " for number in range(50)))])
    with guest.stream("POST", "/chat/stream", {"message": "go", "session_id": fresh("s")}) as stream:
        text = stream.response.read().decode()
    assert text.count('"text-delta"') > 1, text


def test_memory_gets_vectors(guest: Guest) -> None:
    guest.ask("memory_save", text="The walnut tree was planted in 1998.")
    eventually(lambda: guest.sql("SELECT count(*) FROM memory_vectors")[0][0] == 1)
    found = guest.ask("memory_search", query="walnut tree")
    assert "walnut" in found["results"][0]["text"]


def test_a_skill_reaches_the_mesh(guest: Guest) -> None:
    guest.provider.script.replace([Call("ask", {"text": "how are you?"}), Say("well"), Say("done")])
    reply = guest.chat("go", session_id=fresh("s"))
    [output] = reply.json()["tool_outputs"]
    assert output["output"]["data"]["heard"] == "well"
    assert output["output"]["data"]["numbers"] > 1


def test_it_searches_and_fetches(guest: Guest) -> None:
    assert guest.ask("web_search", query="anything") == {"results": HITS}
    assert "# Hello" in guest.ask("web_fetch", url=PAGE)["text"]
    assert "MESH_EGRESS_HOSTS" in guest.ask("web_fetch", url="http://93.184.216.35:8080/")


def test_a_command_that_the_rules_let_out(guest: Guest) -> None:
    assert "Hello" not in guest.ask("bash", command=ASK + PAGE)["stdout"]
    rules = [{"permission": "shell.net", "pattern": SITE, "action": "allow"}]
    try:
        assert guest.http.put("/sessions/main/permissions", json={"rules": rules}).status_code == 200
        assert "Hello" in guest.ask("bash", command=ASK + PAGE)["stdout"]
    finally:
        guest.http.put("/sessions/main/permissions", json={"rules": []})


def test_the_host_dies_and_comes_back(guest: Guest, host: tuple[Host, ScriptedProvider, Path]) -> None:
    """Its socket's file is left behind; the next life takes its place, and the guest finds it."""
    up, provider, folder = host
    up.process.kill9()
    assert (folder / "mesh.sock").is_socket()
    provider.script.replace([Say("back")])
    up.start()  # before the task, whose model calls wait for a host only for a while
    task = guest.assign()
    assert guest.result(task)["result"] == {"text": "back"}
    assert "Hello" in guest.ask("web_fetch", url=PAGE)["text"]
    assert guest.ask("web_search", query="anything") == {"results": HITS}
