"""The tester as agents of a hub, one for each token that it was given."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from agent_common.errors import StartError
from agent_common.hub_client import HubAddress
from agent_common.protocol.hub import EV_SESSION_OPENED, AuthError, HubUnavailable
from agent_testing.channel import ExpectationFailed

from ..rules import NotApplicable, RuleBroken
from .agent import HubOptions, TesterAgent, request

_RETRY = 0.2


class TesterAgents:
    """The tester's end for the rules for hubs."""

    def __init__(self, address: HubAddress, tokens: dict[str, str], options: HubOptions | None = None) -> None:
        """`tokens`: by the name of the agent that each is for."""
        self.options = options or HubOptions()
        self.address = address
        self.all = [TesterAgent(name, token, address, self.options) for name, token in tokens.items()]

    async def wait_for_hub(self) -> None:
        """Wait until the hub takes links. Raises StartError after the options' `wait`, or if an agent is not let in."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.options.wait
        for agent in self.all:
            while True:
                try:
                    await (await agent.dial()).close()
                    break
                except AuthError as error:
                    raise StartError(f"--token: {agent.name} is not let in: {error.message}") from None
                except HubUnavailable as error:
                    if loop.time() > until:
                        raise StartError(
                            f"no hub within {self.options.wait:g} s: {error.message}; start it there, or raise --wait"
                        ) from None
                await asyncio.sleep(_RETRY)

    async def check_unused(self) -> None:
        """Raise StartError if one of the names is in use: the tester would take the agent's place."""
        for agent in self.all:
            await agent.connect()
            try:
                found = await agent.ask("get_agent", name=agent.name)
            except RuleBroken:
                continue
            if found.get("connected"):
                raise StartError(f"--token: {agent.name} is connected: give the tester agents of its own")

    async def members(self, count: int) -> list[TesterAgent]:
        """The first agents, registered with the default rule. Raises NotApplicable if there are fewer tokens."""
        if len(self.all) < count:
            given = len(self.all)
            raise NotApplicable(f"it needs {count} agents: give --token NAME=TOKEN {count} times, not {given}")
        for agent in self.all[:count]:
            await agent.join()
        return self.all[:count]

    async def open_pair(self) -> tuple[TesterAgent, TesterAgent, str]:
        """The first two agents, and a conversation that the first one has opened. Raises NotApplicable, RuleBroken."""
        alice, bob = await self.members(2)
        return alice, bob, await self.open(alice, bob)

    async def open(self, creator: TesterAgent, *others: TesterAgent, **params: Any) -> str:
        """Open a session with agents who accept; return its id once all have got the news. Raises RuleBroken."""
        opening = await self.start_open(creator, *others, **params)
        for other in others:
            await other.accept(await other.invitation(opening))
        info = await creator.answer(opening, "open")
        session_id = info["session_id"]
        for one in (creator, *others):
            await one.take(session_id, EV_SESSION_OPENED)
        return session_id

    async def start_open(self, creator: TesterAgent, *others: TesterAgent, **params: Any) -> str:
        """Ask for a session; return the request_id, by which the invitations are known."""
        opening = creator.next_id()
        params = {
            "agent_id": creator.agent_id,
            "type": "conversation" if len(others) == 1 else "discussion",
            "targets": [one.name for one in others],
            "labels": {"opening": opening},
            **params,
        }
        await creator.link.send({**request("open", **params), "request_id": opening})
        return opening

    async def start_over(self) -> None:
        """Take the agents off the hub, which ends their sessions, so that what a rule has left affects no other."""
        for agent in self.all:
            if agent.agent_id:
                with suppress(ExpectationFailed):
                    await agent.join()
                    await agent.ask_own("unregister")
                agent.agent_id = ""

    async def drop(self) -> None:
        """Lose all links."""
        for agent in self.all:
            await agent.drop()

    async def close(self) -> None:
        """Take the agents off the hub, and end all links."""
        await self.start_over()
        for agent in self.all:
            for link in agent.links:
                await link.close()
