"""A guest without a token on loopback: what web pages of elsewhere can have a browser send to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agent_testing import ScriptedProvider
from tests.e2e.live import Runtime, assert_problem


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("open")
    with ScriptedProvider() as provider:
        runtime = Runtime(provider, folder)
        del runtime.env["AGENT_TOKEN"]
        with runtime, runtime.client(accept="application/json") as client:
            yield client


@pytest.mark.parametrize(
    "host",
    [
        "evil",
        "evil:8400",
        "evil.example:8400",
        "127.0.0.1.evil:8400",
        "localhost.evil",
        "xlocalhost",
        "10.0.0.1",
        "[::2]:1",
    ],
)
def test_a_name_that_was_led_here_is_refused(caller: httpx.Client, host: str) -> None:
    assert_problem(caller.get("/status", headers={"host": host}), 403, "cross_site")


@pytest.mark.parametrize("origin", ["http://evil", "https://evil.example", "null", "http://localhost.evil:8400"])
def test_a_page_of_elsewhere_is_refused(caller: httpx.Client, origin: str) -> None:
    assert_problem(caller.get("/status", headers={"origin": origin}), 403, "cross_site")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8400", "agent.localhost:8400", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:8400"]
)
def test_names_of_this_machine_are_served(caller: httpx.Client, host: str) -> None:
    assert caller.get("/status", headers={"host": host}).status_code == 200
