"""One process's connection to a hub, and the agents that it has registered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeGuard, cast
from uuid import uuid4

from ..protocol.hub import (
    SESSION_TYPES,
    AccessDeniedError,
    AgentKind,
    Envelope,
    NetworkError,
    NotFoundError,
    NotifyFrame,
    Passport,
    Resume,
    Rule,
    SessionType,
    ViewPolicy,
    load_info,
)
from .agent_client import AgentClient
from .connection import Connection
from .default_handler import default_handler
from .interfaces import NetworkAgent
from .links import Link, LinkClient


class HubClient:
    """Registers agents over one link, which is opened on first use. Close it at the end."""

    def __init__(
        self,
        link: Link | LinkClient,
        *,
        hub: object | None = None,
        timeout: float = 30.0,
        types: Mapping[str, SessionType[Any]] = SESSION_TYPES,
    ) -> None:
        """`hub`: the hub itself if it is in this process, for turns that want it. `timeout`: seconds that an answer may
        take. `types`: types of sessions that the hub knows."""
        end = link.client() if _makes_clients(link) else cast("LinkClient", link)
        self._connection = Connection(end, timeout)
        self._connection.on_notify = self._receive
        self._connection.on_dead_letter = self._give_up
        self._connection.on_reconnect = self._register_again
        self._hub = hub
        self._types = types
        self._agents: dict[str, AgentClient] = {}
        self._leaving: set[str] = set()
        self._registering = 0
        self._early: dict[str, list[NotifyFrame]] = {}
        """What has come for agents before the answer to their registration."""

    async def register(
        self,
        agent: NetworkAgent | None,
        passport: Passport,
        resume: Resume | None = None,
        *,
        rule: Rule | None = None,
        attach_plugin: bool = True,
    ) -> AgentClient:
        """Register an agent. One of a known name goes on where it was. Raises NetworkError.

        `attach_plugin`: have `default_handler` answer envelopes; otherwise set a handler with `on_envelope`."""
        await self._connection.open()
        resume = resume or Resume()
        rule = rule or Rule()
        self._registering += 1
        try:
            key = uuid4().hex
            found = await self._connection.ask("register", _registration(passport, resume, rule, key))
        finally:
            self._registering -= 1
        client = AgentClient(
            self._connection,
            found["agent_id"],
            agent,
            passport=passport,
            resume=resume,
            rule=rule,
            key=key,
            hub=self._hub,
            types=self._types,
        )
        if attach_plugin:
            client.on_envelope(partial(default_handler, client))
        self._agents[client.agent_id] = client
        for frame in self._early.pop(client.agent_id, ()):
            client.receive(frame)
        if not self._registering:
            self._early.clear()
        return client

    async def unregister(self, agent_id: str) -> None:
        """Take an agent off the hub. It leaves its sessions, and its name is free. Raises NetworkError."""
        is_ours = agent_id in self._agents
        self._leaving.add(agent_id)
        try:
            await self._connection.ask("unregister", {"agent_id": agent_id})
        except (AccessDeniedError, NotFoundError):
            if not is_ours or agent_id in self._agents:
                raise  # else it was done, and the link broke before the answer
        finally:
            self._leaving.discard(agent_id)
        await self._forget(agent_id)

    async def _forget(self, agent_id: str) -> None:
        client = self._agents.pop(agent_id, None)
        if client is not None:
            await client.close()

    async def close(self) -> None:
        """End the link. The agents stay registered, and their envelopes wait at the hub."""
        for client in self._agents.values():
            await client.close()
        await self._connection.close()

    @property
    def is_connected(self) -> bool:
        """Whether the link is there now; one that has broken comes back by itself."""
        return self._connection.is_open

    async def wait_ended(self) -> NetworkError:
        """Wait until the link does not come back any more, and return why: this client is closed, the hub does not let
        it in, or has forgotten an agent of it."""
        return await self._connection.wait_ended()

    # ---------------------------------------------------------------- what this process may see

    async def read_wal(self, session_id: str) -> list[Envelope]:
        """All that agents of this process may read of a session. Raises NetworkError."""
        found: list[Envelope] = []
        after: int | None = 0
        while after is not None:
            page = await self._connection.ask("read_log", {"session_id": session_id, "after": after, "limit": 500})
            found += [Envelope.model_validate(one) for one in page["envelopes"]]
            after = page["next"]
        return found

    async def can_send(self, session_id: str, agent_id: str) -> bool:
        """Whether a text of an agent would be accepted now. Raises NetworkError."""
        return await self._connection.ask("can_send", {"session_id": session_id, "agent_id": agent_id})

    async def default_view_policy(self, session_id: str, agent_id: str) -> ViewPolicy:
        """How a participant sees what was said, unless it chooses another way. Raises NetworkError."""
        info = load_info(await self._connection.ask("info", {"session_id": session_id, "agent_id": agent_id}))
        return self._types[info.type].default_view_policy(len(info.participants))

    async def list_agents(
        self,
        *,
        capability: str | None = None,
        text: str | None = None,
        kind: AgentKind | None = None,
        after: str = "",
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Agents of the hub by name, a page at a time: id, passport, resume and card of each. Raises NetworkError."""
        params = {"capability": capability, "text": text, "kind": kind, "after": after, "limit": limit}
        return await self._connection.ask("list_agents", params)

    # ---------------------------------------------------------------- what comes

    def _receive(self, frame: NotifyFrame) -> None:
        client = self._agents.get(frame.recipient_id)
        if client is not None:
            client.receive(frame)
        elif self._registering:
            self._early.setdefault(frame.recipient_id, []).append(frame)

    def _give_up(self, envelope_id: str) -> None:
        for client in self._agents.values():
            client.give_up(envelope_id)

    async def _register_again(self) -> None:
        for client in tuple(self._agents.values()):
            if client.agent_id in self._leaving and not await self._is_registered(client.agent_id):
                await self._forget(client.agent_id)
                continue
            client.start_over()
            params = _registration(client.passport, client.resume, client.rule, client.key)
            found = await self._connection.ask("register", params, again=False)
            if found["agent_id"] != client.agent_id:
                raise NotFoundError(f"the hub has forgotten {client.passport.name}: it has another id now")

    async def _is_registered(self, agent_id: str) -> bool:
        try:
            await self._connection.ask("get_agent", {"name": agent_id}, again=False)
        except NotFoundError:
            return False
        return True


def _registration(passport: Passport, resume: Resume, rule: Rule, key: str) -> dict[str, Any]:
    return {
        "passport": passport.model_dump(mode="json"),
        "resume": resume.model_dump(mode="json"),
        "rule": rule.model_dump(mode="json"),
        "key": key,
    }


def _makes_clients(link: Link | LinkClient) -> TypeGuard[Link]:
    return hasattr(link, "client")
