"""`max_egress_bytes` and skills that may reach a host: what their workers send counts for the work that they serve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agent_runtime.skills import Grants, find_source
from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh

from .host import Host, Peer, request
from .test_egress_bound import BOUND, SITE, Proxy, egress

PLUGIN = f"""
import socket, urllib.request

@skill
def post(size: int) -> str:
    '''Send so many bytes.'''
    return urllib.request.urlopen("http://{SITE}/", data=b"x" * size, timeout=5).read().decode()

@skill
def leave(size: int) -> str:
    '''Hand over so many bytes and return before they have gone out.'''
    global tunnel
    tunnel = socket.create_connection(("127.0.0.1", 3128))
    tunnel.sendall(b"CONNECT {SITE}:80 HTTP/1.1\\r\\nHost: {SITE}\\r\\n\\r\\n")
    tunnel.recv(1000)
    tunnel.sendall(b"x" * size)
    return "left"
"""
IMPORTING = f"""
import os, urllib.request
try:
    urllib.request.urlopen("http://{SITE}/", data=b"x" * 1000, timeout=5)
except OSError:
    pass

@skill
def hello(die: bool) -> str:
    '''Say hello.'''
    if die:
        os._exit(1)
    return "hello"
"""


@dataclass(frozen=True)
class Line:
    """The channel of an agent with two plugins that may reach the site."""

    peer: Peer
    provider: ScriptedProvider

    def work(self, *calls: Call, bound: int | None) -> tuple[dict[str, Any], int | None]:
        """The result of work with these calls, and the bytes that it counted."""
        name = fresh("r")
        self.provider.script.replace([*calls, Say("done")])
        self.peer.send(request(name, bounds=None if bound is None else {"max_egress_bytes": bound}))
        return self.peer.result(name), egress(self.peer, name)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    with proxy.listening:
        yield proxy


@pytest.fixture(scope="module")
def line(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    folder = tmp_path_factory.mktemp("skills")
    skills = folder / "skills"
    skills.mkdir()
    grants = Grants(folder / "skill-grants.json", {})
    for name, code in (("sender", PLUGIN), ("importer", IMPORTING)):
        (skills / f"{name}.py").write_text(code)
        source = find_source(skills / f"{name}.py")
        assert source is not None
        grants.allow(source, (), (SITE,))
    with TemporaryDirectory(prefix="med") as place, Host(Path(place)) as host, ScriptedProvider() as provider:
        settings: dict[str, Any] = {"AGENT_MEDIATION_URL": host.url, "AGENT_EGRESS_URL": proxy.url}
        with Runtime(provider, folder, **settings) as agent:
            peer = host.accept()
            peer.attach()
            eventually(lambda: [one["state"] for one in agent.get("/capabilities").json()["skills"]] == ["active"] * 3)
            yield Line(peer, provider)


def test_what_a_skill_sends_is_counted(line: Line, proxy: Proxy) -> None:
    before = proxy.received
    result, counted = line.work(Call("post", {"size": 1000}), bound=BOUND)
    assert result["status"] == "completed", result
    assert counted == proxy.received - before > 1000


def test_no_byte_of_a_skill_goes_beyond_the_bound(line: Line, proxy: Proxy) -> None:
    before = proxy.received
    result, counted = line.work(Call("post", {"size": 1_000_000}), bound=BOUND)
    assert (result["status"], result["error"].split(":")[0]) == ("yielded", "budget_exhausted"), result
    assert (counted or 0) <= BOUND
    assert proxy.received - before <= BOUND


def test_bytes_that_a_skill_leaves_behind_count_for_its_call(line: Line, proxy: Proxy) -> None:
    before = proxy.received
    line.work(Call("leave", {"size": 500}), bound=None)
    eventually(lambda: proxy.received == before + 500)
    for _ in range(5):
        line.work(Call("leave", {"size": 500}), bound=0)
    _, counted = line.work(Call("post", {"size": 1000}), bound=BOUND)
    assert counted is not None
    assert proxy.received == before + 500 + counted, "those five sent nothing"


def test_what_an_import_sends_counts_for_the_call_that_needs_it(line: Line, proxy: Proxy) -> None:
    line.work(Call("hello", {"die": True}), bound=None)
    before = proxy.received
    result, _ = line.work(Call("hello", {"die": False}), bound=0)
    assert (result["status"], result["error"].split(":")[0]) == ("yielded", "budget_exhausted"), result
    assert proxy.received == before
