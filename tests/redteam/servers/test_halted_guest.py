"""A guest whose workspace is contained or halted in the middle of a turn: where the host cannot end its process, that
lives on, and makes no model call and no tool call any more."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_testing import Call, Recorded, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually
from tests.integration.host.live import Host, catalog

_numbers = itertools.count()


def step(_: Recorded) -> Say:
    """One more file."""
    return Say(calls=(Call("write", {"path": f"steps/{next(_numbers)}", "content": "x"}),))


QUIET = 1.5
"""Seconds in which an agent that is not held makes many steps."""


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(otherwise=step) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("mesh")
    with Host(folder / "data", MESH_MODELS=catalog(folder, provider), UPSTREAM_KEY="sk") as host:
        yield host


@contextmanager
def busy(host: Host, provider: ScriptedProvider, folder: Path, name: str) -> Generator[Runtime]:
    """A guest that the host did not start, with work that goes on for ever: one model call and one tool call a step."""
    made = host.operator.post("/workspaces", json={"id": name, "driver": "external"})
    assert host.operator.post(f"/workspaces/{name}/start").status_code == 200
    (folder / "key").write_text(made.json()["mediation_key"])
    port = host.process.wait_for_output(r"agents come for work to tcp://127.0.0.1:(\d+)")[1]
    settings = {
        "AGENT_ID": name,
        "AGENT_LLM_BASE_URL": f"{host.url}/v1",
        "AGENT_MESH_URL": host.url,
        "AGENT_MESH_TOKEN": host.token(name),
        "AGENT_MEDIATION_URL": f"tcp://127.0.0.1:{port}",
        "AGENT_MEDIATION_KEY_FILE": folder / "key",
        "AGENT_MEDIATION_REQUIRED": "true",
        "AGENT_MAX_ROUNDS": "500",
    }
    provider.clear()
    provider.script.replace([], otherwise=step)
    with Runtime(provider, folder / "guest", **settings) as guest:
        work = {"workspace": name, "request": {"request_id": f"{name}-1", "content": "go on for ever"}}
        assert host.operator.post("/work", json=work).status_code == 202
        eventually(lambda: min(deeds(guest)) >= 2)
        yield guest


def deeds(guest: Runtime) -> tuple[int, int]:
    """Model calls and tool calls so far."""
    return len(guest.provider.requests), len(list((guest.data_dir / "workspace").glob("steps/*")))


def assert_it_stops(guest: Runtime, before: tuple[int, int]) -> None:
    """Nothing new is done: at most the call ends that was under way, of the model or of a tool."""
    eventually(lambda: guest.status()["channel"] not in ("ready", "busy"))
    last, since = deeds(guest), time.monotonic()
    while time.monotonic() - since < QUIET:
        now = deeds(guest)
        assert sum(now) <= sum(before) + 1, (before, now)
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.05)


def test_a_guest_in_quarantine_does_nothing_more(host: Host, provider: ScriptedProvider, tmp_path: Path) -> None:
    with busy(host, provider, tmp_path, "contained") as guest:
        assert host.operator.post("/workspaces/contained/quarantine").status_code == 200
        assert_it_stops(guest, deeds(guest))


@pytest.mark.timeout(90)
def test_a_guest_that_is_halted_does_nothing_more(host: Host, provider: ScriptedProvider, tmp_path: Path) -> None:
    """It is halted because it stands still for longer than constraints wait for it; then its machine goes on."""
    with busy(host, provider, tmp_path, "halted") as guest:
        os.kill(guest.process.pid, signal.SIGSTOP)
        try:
            pushed = {"version": 1, "payload": "no more", "severity": "CRITICAL"}
            assert host.operator.post("/workspaces/halted/constraints", json=pushed).status_code < 300
            eventually(lambda: host.operator.get("/workspaces/halted").json()["mediationReady"]["code"] == "halted", 40)
            before = deeds(guest)
        finally:
            os.kill(guest.process.pid, signal.SIGCONT)
        assert_it_stops(guest, before)
