"""Connections to an attached agent's HTTP API, which the agent opens when the host asks for one
(docs/protocols/mediation.md#31-the-agents-http-api)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agent_common.protocol.work import ApiOpened, OpenApi, api_challenge, verify_mac

from ...errors import RequestError, Unavailable
from ..channels.channel import AttachedAgent, HandedOver, P

MOST_CONNECTIONS = 64
"""Most connections to one agent, those that it has not opened yet included."""
OPEN_SECONDS = 10.0
"""Time for the agent to open a connection."""


class ApiNotOffered(RequestError):
    """The agent does not let the host reach its API."""

    status = 501
    code = "not_offered"


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A connection that the agent has been asked for."""

    take: Callable[[asyncio.Transport], None]
    give_up: Callable[[Exception], None]


class AgentApi:
    """The connections of one attachment. They are cut when it ends."""

    __slots__ = ("_awaited", "_open", "_session", "_sid")

    def __init__(self, session: AttachedAgent, sid: str | None) -> None:
        """`sid`: of the offer with which the agent has attached; None if it does not offer its API."""
        self._session = session
        self._sid = sid
        self._awaited: dict[str, _Awaited] = {}
        self._open: list[asyncio.Transport] = []

    async def connect(self, protocol: Callable[[], P]) -> P:
        """Ask the agent for a connection, and return its protocol. Raises ApiNotOffered, Unavailable if there are too
        many, and OSError if the agent does not open it."""
        if self._sid is None:
            raise ApiNotOffered("the agent does not offer its API; set AGENT_MEDIATION_API=true where it runs")
        if not self._session.confirmed:
            raise ConnectionError("the agent is about to attach")
        self._open = [transport for transport in self._open if not transport.is_closing()]
        if len(self._open) + len(self._awaited) >= MOST_CONNECTIONS:
            raise Unavailable("the agent has too many connections to its API", code="too_many_connections")
        connection_id = secrets.token_urlsafe(16)
        opened: asyncio.Future[P] = asyncio.get_running_loop().create_future()
        self._awaited[connection_id] = _Awaited(partial(_hand_over, protocol, opened), partial(_give_up, opened))
        try:
            self._session.send(OpenApi(id=connection_id))
            async with asyncio.timeout(OPEN_SECONDS):
                return await opened
        finally:
            self._awaited.pop(connection_id, None)

    def claim(self, frame: ApiOpened, connection: HandedOver) -> bool:
        """Hand the connection over to the protocol that waits for it. Returns False if the host has not asked for it,
        or if the agent has not proved who it is."""
        channel = self._session.channel
        awaited = self._awaited.get(frame.id)
        if awaited is None or not (channel.auth == "none" or self._is_proved(frame)):
            return False
        del self._awaited[frame.id]
        transport = connection.hand_over()
        self._open.append(transport)
        awaited.take(transport)
        return True

    def _is_proved(self, frame: ApiOpened) -> bool:
        channel = self._session.channel
        return verify_mac(
            frame.mac or "",
            channel.key or b"",
            challenge=api_challenge(frame.id),
            sid=self._sid or "",
            agent_id=channel.workspace,
            epoch=self._session.epoch,
        )

    def close(self) -> None:
        """Cut all connections, and give up those that have not come."""
        awaited = self._awaited
        self._awaited = {}
        for one in awaited.values():
            one.give_up(ConnectionError("the agent has detached"))
        for transport in self._open:
            transport.abort()


def _hand_over(protocol: Callable[[], P], opened: asyncio.Future[P], transport: asyncio.Transport) -> None:
    """Let the protocol use the connection, unless nothing waits for it any more."""
    if opened.done():
        transport.abort()
        return
    made = protocol()
    transport.set_protocol(made)
    made.connection_made(transport)
    opened.set_result(made)


def _give_up(opened: asyncio.Future[P], why: Exception) -> None:
    if not opened.done():
        opened.set_exception(why)
