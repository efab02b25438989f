"""Tasks over WebSockets, of a hub that is a process of its own and dies without a word."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_client.hub import HubClient, Passport, TaskSpec, WebSocketLink
from agent_common.protocol.hub import Envelope
from agent_testing import LiveProcess
from tests.ports import free_port

PATIENCE = 120.0


class HubOnFile:
    """A hub over its lives, with one database."""

    def __init__(self, folder: Path) -> None:
        self._command = [sys.executable, str(Path(__file__).parent / "hub_process.py"), f"sqlite:///{folder}/hub.db"]
        self._port, self._life = free_port(), ExitStack()
        self.url = f"ws://127.0.0.1:{self._port}/hub"

    def start(self) -> None:
        self._process = self._life.enter_context(LiveProcess([*self._command, str(self._port)], timeout=PATIENCE))
        self._process.wait_for_output("the hub listens")

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._life.close()

    def close(self) -> None:
        self._life.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[HubOnFile]:
    hub = HubOnFile(tmp_path)
    hub.start()
    yield hub
    hub.close()


@pytest.mark.slow  # a kill
async def test_what_was_confirmed_of_a_task_survives_the_death_of_the_hub(process: HubOnFile) -> None:
    alices, bobs = [HubClient(WebSocketLink(process.url), timeout=PATIENCE) for _ in range(2)]
    try:
        alice = await alices.register(None, Passport(name="alice"))
        bob = await bobs.register(None, Passport(name="bob"))
        session = await alice.open(type="conversation", target="bob")
        shown = await alice.tasks.observe("t", TaskSpec(title="Count"), session_id=session.session_id, ttl=3600)
        await alice.tasks.update("t", progress={"n": 1})
        await alice.tasks.checkpoint("t", {"next": 2})
        asked = await bob.tasks.cancel("t", "too slow")
        over = await alice.tasks.observe("over")
        await alice.tasks.update("over", "failed", error="no")
        await asyncio.to_thread(process.kill)
        await asyncio.to_thread(process.start)
        kept = await bob.tasks.get("t")
        assert kept == asked
        assert (kept.state, kept.progress, kept.expires_at) == ("running", {"n": 1}, shown.expires_at)
        assert await alice.tasks.read_checkpoint("t") == {"next": 2}
        assert (await alice.tasks.get(over.task_id)).state == "failed"
        assert await bob.tasks.cancel("t", "again") == asked, "it counts once, also after a restart"
        await session.close("enough")
        assert (await bob.tasks.get("t")).state == "expired"
    finally:
        await alices.close()
        await bobs.close()


async def test_what_an_envelope_and_a_task_may_nest_is_read_in_their_lists_too(process: HubOnFile) -> None:
    client = HubClient(WebSocketLink(process.url), timeout=PATIENCE)
    try:
        alice, _ = [await client.register(None, Passport(name=name)) for name in ("alice", "bob")]
        session = await alice.open(type="conversation", target="bob")
        deep: dict[str, Any] = {}
        for _ in range(96):
            deep = {"deeper": deep}
        envelope = Envelope(session_id=session.session_id, sender_id=alice.agent_id, event_type="app.deep")
        await alice.send_envelope(envelope.model_copy(update={"event_data": deep}))
        assert [one.event_data for one in await client.read_wal(session.session_id)][-1] == deep
        await alice.tasks.observe("t")
        await alice.tasks.update("t", progress=deep)
        tasks, _ = await alice.tasks.list()
        assert [one.progress for one in tasks] == [deep]
    finally:
        await client.close()
