"""The secret of a web service: an agent and a skill try to get it out of their host, and then it is looked for in all
that the guest has and in what the host writes down."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh
from tests.integration.host.echo_service import EchoService
from tests.integration.host.live import Host
from tests.integration.host.members import make_member
from tests.integration.host.test_services import secret

CANARY = "canary/K3y+with=odd&chars~7319"
LATER = "canary-that-came-later-4410"
OAUTH = "oauth-token-"
"""What the service itself gives for the secret of OAuth begins so."""
MARKER = "a-word-that-passed-through-2086"
SERVICES = """
secrets:
  simple: {{command: [printf, '%s', canary-in-a-name-1]}}
services:
  echo: &echo
    base_url: {url}
    private: true
    credential: {{header: X-Api-Key, secret: main}}
    methods: [GET, POST]
    paths: [/open, /open/**, /encoded, /header, /name, /split, /trailer, /zipped, /redirect, /status]
    teams: [red]
  query: {{<<: *echo, credential: {{query: api_key, secret: main}}}}
  basic: {{<<: *echo, credential: {{basic: ann, secret: main}}}}
  simple: {{<<: *echo, credential: {{header: X-Api-Key, secret: simple}}}}
  oauth: {{<<: *echo, credential: {{oauth: {{token_url: '{url}/token', client_id: me}}, secret: main}}}}
  blue: {{<<: *echo, teams: [blue]}}
"""
PLUGIN = """
from agent_runtime.skills import MeshUnavailable

@skill(timeout=600)
async def through(calls: list[dict], *, mesh_client) -> list:
    '''Call services one after the other.'''
    found = []
    for call in calls:
        try:
            found.append(await mesh_client.service(**call))
        except MeshUnavailable as error:
            found.append({"error": str(error)})
    return found
"""
OPEN = "description: Asks for nothing.\nmode: all\npermissions: {'*': allow}\n"
FORMS = (
    *("plain", "upper", "percent", "percent_all", "percent_twice", "json", "html", "html_hex", "hex", "mixed"),
    *("base64_0", "base64_1", "base64_2", "base64url_1", "base64_lines"),
)
OUTSIDE = ("https://evil.example/?k=SECRET", "//evil.example/SECRET", "http://HERE.evil.example/", "http://HERE/other")
ATTEMPTS: dict[str, dict[str, Any]] = {
    "echo of the request": {"path": "/open?x=1"},
    "echo of the query": {"service": "query", "path": "/open"},
    "echo of basic": {"service": "basic", "path": "/open"},
    "echo of the token": {"service": "oauth", "path": "/open"},
    "echo in the method": {"path": "/open", "method": "POST", "text": "x"},
    "echo in a header": {"path": "/header"},
    "echo in the name of a header": {"service": "simple", "path": "/name"},
    "echo byte by byte": {"path": "/split"},
    "echo in a trailer": {"path": "/trailer"},
    "echo that is compressed": {"path": "/zipped", "headers": {"accept": "x/gzip"}},
    **{f"echo as {form}": {"path": f"/encoded?as={form}"} for form in FORMS},
    **{f"redirect to {to}": {"path": f"/redirect?to={to}"} for to in OUTSIDE},
    "redirect within": {"path": "/redirect?to=%2Fbase%2Fopen%3Fk=SECRET"},
    "redirect to what is closed": {"path": "/redirect?to=%2Fbase%2Fsecret-place"},
    "path with dots": {"path": "/open/../secret-place"},
    "path with encoded dots": {"path": "/open/%2e%2e/secret-place"},
    "path encoded twice": {"path": "/open/%252e%252e/secret-place"},
    "path with a backslash": {"path": "/open\\..\\secret-place"},
    "path to another host": {"path": "//evil.example/open"},
    "path that is a URL": {"path": "http://evil.example/open"},
    "path with a user": {"path": "@evil.example/open"},
    "path with a new line": {"path": "/open\r\nX-Injected: 1"},
    "path out of services": {"path": "/../../secrets/main"},
    "name with a path": {"service": "echo/../blue", "path": "/open"},
    "name of another team's": {"service": "blue", "path": "/open"},
    "header Host": {"path": "/open", "headers": {"Host": "evil.example"}},
    "header X-Forwarded-Host": {"path": "/open", "headers": {"X-Forwarded-Host": "evil.example"}},
    "header of the credential": {"path": "/open", "headers": {"X-Api-Key": "mine", "X_Api_Key": "mine"}},
    "header Connection": {"path": "/open", "headers": {"Connection": "x-api-key"}},
    "header with a new line": {"path": "/open", "headers": {"x-a": "b\r\nX-Injected: 1"}},
    "header Range": {"path": "/open", "headers": {"Range": "bytes=0-40"}},
    "header of another method": {"path": "/open", "headers": {"X-HTTP-Method-Override": "DELETE"}},
    "another method": {"path": "/open", "method": "DELETE"},
    "method in the query": {"path": "/open?_method=DELETE"},
    "parameter of the credential": {"service": "query", "path": "/open?api_key=mine"},
    "what a refusal says": {"path": "/status?is=401"},
}
CALLS = {name: {"service": "echo", "method": "GET", **attempt} for name, attempt in ATTEMPTS.items()}


def forms(text: str) -> list[bytes]:
    """The secret as it is, and as it may be written."""
    raw = text.encode()
    coded = (base64.b64encode(b"x" * at + raw)[begin:-4] for at, begin in enumerate((0, 2, 3)))
    twice = quote(quote(text, safe=""), safe="")
    return [raw, raw.upper(), raw.hex().encode(), quote(text, safe="").encode(), twice.encode(), *coded]


SECRETS = [*forms(CANARY), *forms(LATER), *forms("canary-in-a-name-1"), OAUTH.encode()]


def found_in(data: bytes) -> list[bytes]:
    return [form for form in SECRETS if form in data]


@dataclass
class World:
    host: Host
    agent: Runtime
    echo: EchoService
    said: dict[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    """Who tried what -> what came of it."""
    streams: list[str] = field(default_factory=list[str])
    sessions: list[str] = field(default_factory=list[str])

    def turn(self, *calls: Call) -> list[Any]:
        """The envelopes of calls in a turn of their own."""
        self.agent.provider.script.replace([*calls, Say("done")])
        reply = self.agent.chat(MARKER, session_id=fresh("s"), agent="open")
        assert reply.status_code == 200, reply.text
        self.sessions.append(reply.json()["session_id"])
        return [one["output"] for one in reply.json()["tool_outputs"]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Everybody has tried everything."""
    folder = tmp_path_factory.mktemp("secret")
    with ExitStack() as stack:
        echo = stack.enter_context(EchoService())
        (folder / "services.yaml").write_text(SERVICES.format(url=echo.url))
        host = Host(folder / "mesh", MESH_SERVICES=folder / "services.yaml")
        assert secret(host, "set", "main", given=f"{CANARY}\n").returncode == 0
        stack.enter_context(host)
        data = folder / "guest" / "data"
        for name, text in (("skills/through.py", PLUGIN), ("agents/open.yaml", OPEN)):
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_text(text)
        settings = {"AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": make_member(host, "ann", "red")}
        agent = stack.enter_context(Runtime(stack.enter_context(ScriptedProvider()), data, **settings))
        eventually(lambda: "through" in agent.get("/capabilities").json()["tools"])
        world = World(host, agent, echo)
        _try_all(world)
        _race(world)
        yield world


def _try_all(world: World) -> None:
    names = list(CALLS)
    for begin in range(0, len(names), 10):
        some = names[begin : begin + 10]
        outputs = world.turn(*(Call("call_service", CALLS[name]) for name in some))
        world.said |= {("agent", name): output for name, output in zip(some, outputs, strict=True)}
    (answers,) = world.turn(Call("through", {"calls": list(CALLS.values())}))
    world.said |= {("skill", name): one for name, one in zip(names, answers["data"], strict=True)}
    world.agent.provider.script.replace([Call("call_service", CALLS["echo of the request"]), Say("done")])
    body = {"message": MARKER, "session_id": fresh("s"), "agent": "open"}
    with world.agent.stream("POST", "/chat/stream", body) as stream:
        world.streams += [chunk.model_dump_json() for chunk in stream.rest()]


def _race(world: World) -> None:
    """Change the secret while sixteen calls at a time echo it."""
    client = world.agent.http
    url, token = world.host.url, world.agent.env["AGENT_MESH_TOKEN"]

    def call(number: int) -> str:
        if number in (20, 40):
            secret(world.host, "set", "main", given=LATER if number == 20 else CANARY)
        reply = client.get(f"{url}/services/echo/open?n={number}", headers={"authorization": f"Bearer {token}"})
        return f"{reply.status_code} {reply.headers} {reply.text}"

    with ThreadPoolExecutor(16) as threads:
        world.said |= {("race", str(number)): text for number, text in enumerate(threads.map(call, range(96)))}


@pytest.mark.parametrize("who", ["agent", "skill"])
@pytest.mark.parametrize("name", CALLS)
def test_an_attempt_gets_nothing_out(world: World, who: str, name: str) -> None:
    text = json.dumps(world.said[who, name], ensure_ascii=False)
    assert not found_in(text.encode()), text
    assert "k3y" not in re.sub(r"\W", "", text.lower()), text
    if name.startswith("echo of"):
        assert "[redacted]" in text, "it was called, and has repeated what it got"
    if name in {f"redirect to {to}" for to in OUTSIDE}:
        assert "redirects to another host or path" in text, "it was refused, and not followed or passed on"


def test_a_race_gets_nothing_out(world: World) -> None:
    texts = [text for (who, _), text in world.said.items() if who == "race"]
    assert sum(text.startswith("200") for text in texts) == 96, texts
    assert not [text for text in texts if found_in(text.encode())]


def test_the_service_was_asked_for_what_is_open_only(world: World) -> None:
    assert any(CANARY in json.dumps(one["headers"]) for one in world.echo.requests)
    for request in world.echo.requests:
        assert request["method"] in ("GET", "POST")
        assert "secret-place" not in request["path"].partition("?")[0]
        assert "evil" not in request["headers"]["host"]
        assert "x-injected" not in request["headers"]
        assert "mine" not in request["headers"].get("x-api-key", "")


def test_it_is_nowhere_on_the_guests_disk_nor_in_its_logs(world: World) -> None:
    files = [path for path in world.agent.data_dir.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    texts = {str(path): path.read_bytes() for path in files}
    assert any(MARKER.encode() in data for data in texts.values()), "the search finds what is there"
    assert {name: found for name, data in texts.items() if (found := found_in(data))} == {}
    assert found_in(world.agent.process.output().encode()) == []


def test_it_is_in_no_memory_of_the_guest(world: World) -> None:
    runtime = psutil.Process(world.agent.process.pid)
    processes = [runtime, *runtime.children(recursive=True)]
    assert any("boot.py" in " ".join(one.cmdline()) for one in processes), "the worker of the skill is among them"
    remembered = 0
    for process in processes:
        for data in regions(process.pid):
            remembered += MARKER.encode() in data
            assert found_in(data) == [], process.cmdline()
    assert remembered, "the search finds what is there"


def regions(pid: int) -> Iterator[bytes]:
    """The memory that a process has written or read, region by region."""
    with suppress(FileNotFoundError, ProcessLookupError), Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *rest = line.split()
            begin, end = (int(one, 16) for one in span.split("-"))
            if not rights.startswith("r") or rest[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            with suppress(OSError, OverflowError):  # what cannot be read has nothing
                memory.seek(begin)
                data = bytearray()
                while len(data) < end - begin and (piece := memory.read(end - begin - len(data))):
                    data += piece
                yield bytes(data)


def test_it_is_in_no_stream_no_export_and_no_request_to_a_model(world: World) -> None:
    shown = ["".join(world.streams), json.dumps([one.messages for one in world.agent.provider.completions])]
    for session in world.sessions:
        shown += [world.agent.get(f"/sessions/{session}/{what}").text for what in ("export", "messages", "prompt")]
    shown += [world.agent.get(path).text for path in ("/status", "/capabilities", "/metrics", "/sessions")]
    assert sum("[redacted]" in text for text in shown) > len(world.sessions)
    assert [found for text in shown if (found := found_in(text.encode()))] == []


def test_the_host_writes_it_down_nowhere_but_in_its_secrets(world: World) -> None:
    kept = world.host.data_dir / "secrets"
    files = [path for path in world.host.data_dir.rglob("*") if path.is_file() and kept not in path.parents]
    assert any(path.name == "mesh.db" for path in files)
    assert {str(path): found for path in files if (found := found_in(path.read_bytes()))} == {}
    output = world.host.process.output()
    assert output.count("service_called") > 2 * len(CALLS) // 3
    assert found_in(output.encode()) == []
    answers = [world.host.operator.get(path).text for path in ("/services", "/metrics", "/usage", "/workspaces")]
    assert [found for text in answers if (found := found_in(text.encode()))] == []
