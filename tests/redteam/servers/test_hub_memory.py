"""An agent that takes all that is sent to it and acknowledges nothing: what waits for it is in the log of the hub, and
not in the memory of the host."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from agent_client.hub import EV_TEXT, Envelope, HubClient, Inbox, Passport, Rule, WebSocketLink, default_handler
from agent_host.database import open_database
from agent_testing import LiveProcess
from tests.integration.hub import hub_process
from tests.memory_limit import HOST_MIB, limited, peak_mib
from tests.ports import free_port

PATIENCE = 60.0
SENT = 300
MOST_MIB = 256
"""Less than a MiB for each of what is sent."""


@pytest.fixture
def hub(tmp_path: Path) -> Generator[tuple[LiveProcess, str]]:
    url, port = f"sqlite:///{tmp_path / 'hub.db'}", free_port()
    open_database(url).close()
    command = limited([sys.executable, hub_process.__file__, url, str(port)], HOST_MIB)
    with LiveProcess(command, timeout=PATIENCE) as process:
        process.wait_for_output("the hub listens")
        yield process, f"ws://127.0.0.1:{port}/hub"


@pytest.mark.timeout(300)
async def test_an_agent_that_acknowledges_nothing_fills_no_memory(hub: tuple[LiveProcess, str]) -> None:
    process, url = hub
    alice_link, eve_link = (HubClient(WebSocketLink(url), timeout=PATIENCE) for _ in range(2))
    try:
        alice = await alice_link.register(None, Passport(name="alice"), attach_plugin=False)
        rule = Rule(inbox=Inbox(in_flight=1000))
        eve = await eve_link.register(None, Passport(name="eve"), rule=rule, attach_plugin=False)
        first = asyncio.Event()

        async def never_done(envelope: Envelope) -> None:
            if envelope.event_type != EV_TEXT:
                await default_handler(eve, envelope)
                return
            first.set()
            await asyncio.Event().wait()

        eve.on_envelope(never_done)
        session = await alice.open(type="conversation", target="eve")
        for number in range(SENT):
            await session.send(f"{number} " + "x" * 1_000_000)
        async with asyncio.timeout(PATIENCE):
            await first.wait()
        assert peak_mib(process.pid) < MOST_MIB
    finally:
        await asyncio.gather(alice_link.close(), eve_link.close())
