"""Two hubs as processes on one PostgreSQL, killed in turn while agents talk over both."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from agent_client.hub import AgentClient, Envelope, HubClient, Passport, WebSocketLink, default_handler
from agent_host.hub import Hub
from agent_testing import LiveProcess
from tests.ports import free_port
from tests.unit.host.postgresql import new_database, postgresql

from .agents import is_text

PATIENCE = 120.0
pytestmark = pytest.mark.timeout(600)


class HubProcess:
    """A hub over all its lives."""

    def __init__(self, database: str) -> None:
        self._port, self._database, self._life = free_port(), database, ExitStack()
        self.url = f"ws://127.0.0.1:{self._port}/hub"

    def start(self) -> None:
        command = [sys.executable, Path(__file__).parent / "hub_process.py", self._database, str(self._port)]
        self._process = self._life.enter_context(LiveProcess(command, timeout=PATIENCE))
        self._process.wait_for_output("the hub listens")

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._life.close()

    def close(self) -> None:
        self._life.close()


@pytest.fixture
def database() -> Generator[str]:
    with postgresql() as server:
        yield new_database(server, "hubs")


@pytest.fixture
def hubs(database: str) -> Generator[tuple[HubProcess, HubProcess]]:
    found = HubProcess(database), HubProcess(database)
    try:
        for hub in found:
            hub.start()
        yield found
    finally:
        for hub in found:
            hub.close()


class Listener:
    """An agent that remembers what it has handled."""

    def __init__(self, client: AgentClient) -> None:
        self.client, self.seen = client, list[tuple[str, str]]()
        client.on_envelope(self._handle)

    async def _handle(self, envelope: Envelope) -> None:
        if is_text(envelope):
            self.seen.append((envelope.session_id, envelope.text))
        else:
            await default_handler(self.client, envelope)


@asynccontextmanager
async def joined(urls: list[str], name: str) -> AsyncGenerator[Listener]:
    client = HubClient(WebSocketLink(urls), timeout=PATIENCE)
    try:
        yield Listener(await client.register(None, Passport(name=name), attach_plugin=False))
    finally:
        await client.close()


@pytest.mark.slow
async def test_agents_go_on_over_the_other_hub(hubs: tuple[HubProcess, HubProcess], database: str) -> None:
    await _talk(hubs, database, sessions=2, kills=1, texts=10)


@pytest.mark.slow
async def test_each_hub_killed_in_turn_under_load(hubs: tuple[HubProcess, HubProcess], database: str) -> None:
    await _talk(hubs, database, sessions=10, kills=12, texts=40)


async def _talk(hubs: tuple[HubProcess, HubProcess], database: str, *, sessions: int, kills: int, texts: int) -> None:
    """Kill the hubs in turn: each when some of the texts are sent, and the next one when all have arrived."""
    urls = [hub.url for hub in hubs]
    async with joined(urls, "alice") as alice, joined(urls[::-1], "bob") as bob:
        opened = [await alice.client.open(type="conversation", target="bob") for _ in range(sessions)]
        ids = [one.session_id for one in opened]
        accepted: dict[str, str] = {}
        count = 0

        async def send(speaker: Listener, session_id: str, first: int) -> None:
            for number in range(first, first + texts):
                text = f"{speaker.client.passport.name} {number}"
                accepted[await speaker.client.session(session_id).send(text)] = text

        for kill in range(kills):
            before = len(accepted)
            sending = [
                asyncio.create_task(send(speaker, session_id, count)) for session_id in ids for speaker in (alice, bob)
            ]
            while len(accepted) < before + texts * sessions // 2:
                await asyncio.wait(sending, timeout=0.01)
            await asyncio.to_thread(hubs[kill % 2].kill)
            await asyncio.gather(*sending)
            count += texts
            await _arrived(alice, "bob", ids, count)
            await _arrived(bob, "alice", ids, count)
            if kill < kills - 1:
                await asyncio.to_thread(hubs[kill % 2].start)
    hub = await Hub.open(database)
    try:
        for session_id in ids:
            await _check_log(hub, session_id, accepted, count)
    finally:
        await hub.close()


async def _arrived(listener: Listener, speaker: str, ids: list[str], count: int) -> None:
    """All that the other one has said has come, in its order. Some of it may have come again after a kill."""
    wanted = [f"{speaker} {number}" for number in range(count)]
    async with asyncio.timeout(PATIENCE):
        for session_id in ids:
            while _firsts(listener, session_id) != wanted:
                await asyncio.sleep(0.01)


def _firsts(listener: Listener, session_id: str) -> list[str]:
    return list(dict.fromkeys(text for where, text in listener.seen if where == session_id))


async def _check_log(hub: Hub, session_id: str, accepted: dict[str, str], count: int) -> None:
    """What was accepted is in the log once and in order."""
    log: list[Envelope] = []
    while page := (await hub.queries.log(None, session_id, len(log), 500)).envelopes:
        log += page
    assert [one.sequence for one in log] == list(range(1, len(log) + 1))
    assert [one.envelope_id for one in log] == sorted({one.envelope_id for one in log})
    said = [one for one in log if is_text(one)]
    for speaker in ("alice", "bob"):
        mine = [one.text for one in said if one.text.startswith(speaker)]
        assert mine == [f"{speaker} {number}" for number in range(count)]
    assert all(accepted[one.envelope_id] == one.text for one in said)
