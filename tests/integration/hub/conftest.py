"""A hub with quick retries, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from agent_client.hub import AgentClient, HubClient, LocalLink, NetworkAgent, Passport, Rule
from agent_common.backoff import Backoff
from agent_host.hub import Hub, HubLimits

Join = Callable[..., Awaitable[AgentClient]]


@pytest.fixture
async def hub() -> AsyncGenerator[Hub]:
    opened = await Hub.open(limits=HubLimits(retry=Backoff(0.01, 0.02)))
    yield opened
    await opened.close()


@pytest.fixture
async def join(hub: Hub) -> AsyncGenerator[Join]:
    """Register an agent by a client of its own, or by a given one."""
    clients: list[HubClient] = []

    async def register(
        name: str,
        agent: NetworkAgent | None = None,
        *,
        client: HubClient | None = None,
        rule: Rule | None = None,
        attach_plugin: bool = True,
    ) -> AgentClient:
        own = client or HubClient(LocalLink(hub), hub=hub)
        clients.append(own)
        return await own.register(agent, Passport(name=name), rule=rule, attach_plugin=attach_plugin)

    yield register
    for client in clients:
        await client.close()
