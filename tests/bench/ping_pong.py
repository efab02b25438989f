"""Two agents that answer each other over a hub in memory, by its public interface.

`python ping_pong.py ours|ag2 ENVELOPES` prints JSON: the envelopes per second, and the rate of the last quarter by that
of the first. AG2 is in an environment of its own, where nothing of ours is, so each is imported only if it is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib import import_module
from typing import Any

TEXT = "x" * 100
EV_TEXT = "ag2.msg.text"
QUARTERS = 4


class Ours:
    """The hub of this project."""

    async def join(self, names: tuple[str, ...]) -> list[Any]:
        from agent_client.hub import HubClient, LocalLink, Passport
        from agent_host.hub import Hub

        self.hub = await Hub.open()
        return [
            await HubClient(LocalLink(self.hub)).register(None, Passport(name=name), attach_plugin=False)
            for name in names
        ]

    async def accept(self, client: Any, envelope: Any) -> None:
        from agent_client.hub import default_handler

        await default_handler(client, envelope)

    def session(self, client: Any, opened: Any) -> Any:
        return client.session(opened.session_id)


class Ag2:
    """That of AG2, whose sessions are channels."""

    def __init__(self) -> None:
        self._network = import_module("ag2.network")

    async def join(self, names: tuple[str, ...]) -> list[Any]:
        store, network = import_module("ag2.knowledge").MemoryKnowledgeStore(), self._network
        self.hub = await network.Hub.open(store, ttl_sweep_interval=0, expectation_sweep_interval=0)
        clients = [network.HubClient(network.LocalLink(self.hub), hub=self.hub) for _ in names]
        return [
            await client.register(import_module("ag2").Agent(name), network.Passport(name=name), attach_plugin=False)
            for client, name in zip(clients, names, strict=True)
        ]

    async def accept(self, client: Any, envelope: Any) -> None:
        await self._network.default_handler(envelope, client)

    def session(self, client: Any, opened: Any) -> Any:
        return self._network.Channel(metadata=opened.metadata, client=client)


async def measure(side: Ours | Ag2, envelopes: int) -> tuple[float, float]:
    """Envelopes per second, and the last quarter's rate by the first's."""
    alice, bob = await side.join(("alice", "bob"))
    sessions: dict[Any, Any] = {}
    marks: list[float] = []
    count, done = 0, asyncio.Event()

    async def handle(client: Any, envelope: Any) -> None:
        nonlocal count
        if envelope.event_type != EV_TEXT:
            await side.accept(client, envelope)
            return
        count += 1
        if count % (envelopes // QUARTERS) == 0:
            marks.append(time.perf_counter())
        if count < envelopes:
            await sessions[client].send(TEXT, causation_id=envelope.envelope_id)
        else:
            done.set()

    for client in (alice, bob):
        client.on_envelope(lambda envelope, client=client: handle(client, envelope))
    opened = await alice.open(type="conversation", target="bob")
    sessions.update({client: side.session(client, opened) for client in (alice, bob)})
    marks.append(time.perf_counter())
    await sessions[alice].send(TEXT)
    await done.wait()
    rate = envelopes / (marks[-1] - marks[0])
    return rate, (marks[1] - marks[0]) / (marks[QUARTERS] - marks[QUARTERS - 1])


if __name__ == "__main__":
    SIDES = {"ours": Ours, "ag2": Ag2}
    print(json.dumps(asyncio.run(measure(SIDES[sys.argv[1]](), int(sys.argv[2])))))
