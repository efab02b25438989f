"""The agent's card is posted until the host has taken it."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from agent_common.protocol import PeerCard
from agent_runtime.errors import MeshUnavailable
from agent_runtime.mesh import CardPoster
from agent_runtime.ports import MeshReply, MeshRequest, MeshStream


@dataclass
class Host:
    """Is away at first."""

    failures: int
    asked: list[MeshRequest] = field(default_factory=list[MeshRequest])
    taken: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(self, request: MeshRequest) -> MeshReply:
        self.asked.append(request)
        if len(self.asked) <= self.failures:
            raise MeshUnavailable("the host gave no answer")
        self.taken.set()
        return MeshReply(200, {}, b"{}")

    def open(self, request: MeshRequest) -> AbstractAsyncContextManager[MeshStream]:
        raise NotImplementedError


async def test_it_is_posted_again_until_it_is_taken() -> None:
    host, card = Host(failures=1), PeerCard(name="ann", role="gardener", tools=["bash"])

    faults = [OSError("the skills cannot be read")]

    async def read() -> PeerCard:
        if faults:
            raise faults.pop()
        return card

    poster = CardPoster(host, read)
    poster.start()
    async with asyncio.timeout(60):
        await host.taken.wait()
    await poster.close()
    assert [(one.method, one.path) for one in host.asked] == [("POST", "/agents")] * 2
    posted = host.asked[-1].body
    assert isinstance(posted, bytes)
    assert PeerCard.model_validate_json(posted) == card
