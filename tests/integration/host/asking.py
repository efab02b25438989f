"""Agents that are attached to a host and do what they are asked, for tests of what agents ask each other."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.unit.host.listener.agent import Agent, Frame

from .live import PATIENCE, Host
from .members import make_token
from .reporting import made


class Peer:
    """A workspace of a team, its agent's token, and its channel."""

    def __init__(self, host: Host, name: str, team: str = "default") -> None:
        self.host, self.name = host, name
        self.workspace = made(host, name, team=team)
        self.token = make_token(host, name)

    @asynccontextmanager
    async def attached(self, url: str | None = None) -> AsyncGenerator[Agent]:
        """Its channel; `url`: the listener's address, if the host has another than at first."""
        async with Agent(url or self.workspace["mediation_url"], self.name, self.workspace["mediation_key"]) as agent:
            yield await agent.attach()

    @asynccontextmanager
    async def client(self, task: str | None = None, user: str | None = None) -> AsyncGenerator[httpx.AsyncClient]:
        """A client of the agent; `task`: the work in whose name it speaks; `user`: whose task it says that is."""
        cause = {**({"x-agent-task": task} if task else {}), **({"x-agent-user": user} if user else {})}
        headers = {"authorization": f"Bearer {self.token}", **cause}
        async with httpx.AsyncClient(
            base_url=self.host.url, headers=headers, timeout=PATIENCE, trust_env=False
        ) as client:
            yield client


def answer(agent: Agent, request: Frame, result: dict[str, Any]) -> None:
    """Complete the work with this result of its task."""
    agent.accept(request)
    agent.result(
        request, content=json.dumps({"task_id": request["request_id"], "status": "complete", "result": result})
    )
    agent.complete(request)
