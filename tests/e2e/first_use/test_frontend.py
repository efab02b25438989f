"""The programs of docs/how-to/frontend.md do what the page says."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from agent_testing import LiveProcess, Say, ScriptedProvider

from ..conftest import Start
from ..live import PATIENCE, TOKEN, Runtime, fresh
from ..node import CLIENT, NODE, PACKAGES, run_node
from ..two_people import TwoPeople

ROOT = CLIENT.parents[1]
PAGE = (ROOT / "docs" / "how-to" / "frontend.md").read_text("utf-8")
PROGRAMS = re.findall(r"```js\n// (\S+\.mjs)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with ScriptedProvider() as provider, Runtime(provider, tmp_path_factory.mktemp("page")) as runtime:
        yield runtime


@pytest.fixture(params=PACKAGES)
def sdk(request: pytest.FixtureRequest) -> str:
    """A version of the AI SDK."""
    return request.param


@pytest.fixture
def folder(tmp_path: Path, sdk: str) -> Path:
    """A folder where that version is installed, with the page's programs in it."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "ai").symlink_to(CLIENT / "node_modules" / PACKAGES[sdk])
    for name, program in PROGRAMS:
        (tmp_path / name).write_text(program, "utf-8")
    return tmp_path


def point(program: Path, named: str, real: str) -> None:
    """Puts a live address where the page has its own."""
    text = program.read_text("utf-8")
    assert named in text
    program.write_text(text.replace(named, real), "utf-8")


def test_the_program_in_node_chats(runtime: Runtime, folder: Path, sdk: str) -> None:
    runtime.provider.script.replace([Say("Your name is Ada."), Say("You are Ada.")])
    point(folder / "chat.mjs", "http://localhost:8400", runtime.url)
    thread = fresh("thread")
    for words, answer in (("I am Ada", "Your name is Ada.\n"), ("Who am I?", "You are Ada.\n")):
        done = run_node(runtime, "chat.mjs", thread, words, sdk=sdk, cwd=folder)
        assert (done.returncode, done.stdout) == (0, answer), done.stderr
    said = str(runtime.provider.completions[-1].messages)
    assert "I am Ada" in said


def test_the_page_works_through_the_proxy(runtime: Runtime, folder: Path, sdk: str) -> None:
    env = {"AGENT_URL": runtime.url, "AGENT_TOKEN": TOKEN, "PORT": "0"}
    point(folder / "proxy.mjs", "(asked) => undefined", '() => "operator"')
    with LiveProcess([NODE, folder / "proxy.mjs"], env) as proxy:
        address = proxy.wait_for_output(r"http://\S+/agent", PATIENCE)[0]
        point(folder / "agent.mjs", '"/agent"', f'"{address}"')
        done = run_node(runtime, "page.mjs", folder / "agent.mjs", sdk=sdk)
    assert done.returncode == 0, done.stderr


LOGIN = '({ headers }) => ({ "login=1": "ann", "login=2": "bob" })[headers.cookie]'


def test_nobody_speaks_for_another_through_the_proxy(start: Start, provider: ScriptedProvider, tmp_path: Path) -> None:
    (tmp_path / "proxy.mjs").write_text(dict(PROGRAMS)["proxy.mjs"], "utf-8")
    point(tmp_path / "proxy.mjs", "(asked) => undefined", LOGIN)
    agent = start()
    env = {"AGENT_URL": agent.url, "AGENT_TOKEN": TOKEN, "PORT": "0"}
    with LiveProcess([NODE, tmp_path / "proxy.mjs"], env) as proxy, ExitStack() as clients:
        address = proxy.wait_for_output(r"http://\S+/agent", PATIENCE)[0]

        def person(**headers: str) -> httpx.Client:
            client = httpx.Client(base_url=f"{address}/", headers=headers, timeout=PATIENCE, trust_env=False)
            return clients.enter_context(client)

        nobody = person(authorization=f"Bearer {TOKEN}", **{"x-agent-user": "ann"})
        assert nobody.get("pending").status_code == 401
        TwoPeople(agent.http, person(cookie="login=1"), person(cookie="login=2"), provider).check()


@contextmanager
def listening(got: list[str]) -> Generator[int]:
    """A server that keeps the paths it is asked for. Yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_the_proxy_asks_no_other_server_and_takes_nothing_from_other_sites(tmp_path: Path) -> None:
    (tmp_path / "proxy.mjs").write_text(dict(PROGRAMS)["proxy.mjs"], "utf-8")
    point(tmp_path / "proxy.mjs", "(asked) => undefined", '() => "ann"')
    at_agent, elsewhere = list[str](), list[str]()
    with listening(at_agent) as agent, listening(elsewhere) as other:
        env = {"AGENT_URL": f"http://localhost:{agent}/base", "AGENT_TOKEN": TOKEN, "PORT": "0"}
        with LiveProcess([NODE, tmp_path / "proxy.mjs"], env) as proxy:
            own = proxy.wait_for_output(r"http://\S+/agent", PATIENCE)[0].split("/")[2]

            def status(path: str, method: str = "GET", **headers: str) -> int:
                asked = HTTPConnection("127.0.0.1", int(own.rpartition(":")[2]), timeout=PATIENCE)
                asked.request(method, path, headers={"host": own, **headers})
                found = asked.getresponse().status
                asked.close()
                return found

            there = f"127.0.0.1:{other}"
            for path in (
                f"/agent@{there}/x",
                f"/agent.{there}/x",
                f"/agent:x@{there}/x",
                "/agents/x",
                "/agent",
                f"//{there}/x",
            ):
                assert status(path) == 404, path
            foreign = ({"origin": "http://evil.example"}, {"origin": "null"}, {"host": "rebound.evil.example"})
            for headers in (*foreign, {"origin": f"http://{there}"}, {"sec-fetch-site": "cross-site"}):
                assert status("/agent/chat", "POST", **headers) == 403, headers
            assert (at_agent, elsewhere) == ([], [])
            for path in ("/agent/x?y=/../z", f"/agent//{there}/x", "/agent/../%2e%2e/agents"):
                assert status(path) == 200, path
            assert status("/agent/chat", "POST", origin=f"http://{own}") == 200
    assert (at_agent, elsewhere) == (["/base/x?y=/../z", f"/base//{there}/x", "/base/agents", "/base/chat"], [])


def test_what_the_page_shows_of_the_example_is_the_example() -> None:
    shown = re.findall(r"```jsx?\n// (examples/\S+)\n(.*?)```", PAGE, re.DOTALL)
    shown += [(f"examples/chat-page/src/{name}", text) for name, text in PROGRAMS if name == "agent.mjs"]
    assert len(shown) == 4
    for path, text in shown:
        assert text in (ROOT / path).read_text("utf-8"), f"docs/how-to/frontend.md and {path} differ"
