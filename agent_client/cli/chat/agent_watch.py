"""Knows how the agent is: asks for its status again and again, and hears of turns that other windows begin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from agent_common.protocol import AgentStatus, SessionDetail

from ... import Agent, AgentEvent, ClientError, NotFound

STATUS_SECONDS = 2.0
AWAY_SECONDS = 1.0
"""Between two attempts while the agent does not answer."""
ANSWER_SECONDS = 2.5
"""An agent that takes longer counts as away."""


@dataclass(slots=True)
class Known:
    """What was heard of the agent last."""

    status: AgentStatus | None = None
    session: SessionDetail | None = None
    """None before its first message."""


class AgentWatch:
    """Keeps `known` up to date. `changed` is called whenever it is."""

    def __init__(self, agent: Agent, changed: Callable[[], None]) -> None:
        self.known = Known()
        self.online = asyncio.Event()
        self.online.set()
        self._agent = agent
        self._changed = changed

    async def run(self) -> None:
        """Ask for the status until it is cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(STATUS_SECONDS if self.online.is_set() else AWAY_SECONDS)

    async def ask(self) -> None:
        """Ask once."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self.known.status = await self._agent.status()
            self.online.set()
        except (ClientError, TimeoutError):
            self.online.clear()
        self._changed()

    async def read_session(self, name: str) -> SessionDetail | None:
        """Read the session's title, tokens and cost. None if there is none of that name, or no answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self.known.session = await self._agent.sessions.get(name)
        except NotFound:
            self.known.session = None
        except (ClientError, TimeoutError):
            return None
        self._changed()
        return self.known.session

    async def hear(self, heard: Callable[[AgentEvent], None]) -> None:
        """Pass on events of turns until it is cancelled."""
        while True:
            try:
                async with aclosing(self._agent.events()) as events:
                    async for event in events:
                        heard(event)
            except ClientError:
                await asyncio.sleep(STATUS_SECONDS)
