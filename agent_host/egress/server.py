"""The forward proxy for agents: which hosts they may reach, and log lines about connections and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError

from agent_common.net import (
    ConnectionRecord,
    DirectUpstream,
    ForwardProxy,
    ForwardProxyLimits,
    HostPatterns,
    ListeningSocket,
    Upstream,
)
from agent_common.telemetry import Seldom, connection_lines

from ..access import AccessGuard
from ..errors import Unauthorized, Unavailable

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EgressServer:
    """The forward proxy and its address."""

    sockets: Sequence[ListeningSocket]
    url: str
    """The proxy's URL for runtimes on this machine."""


def egress_proxy(
    guard: AccessGuard,
    hosts: HostPatterns,
    *,
    upstream: Upstream | None = None,
    limits: ForwardProxyLimits | None = None,
) -> ForwardProxy:
    """Make the forward proxy, for clients with a token of the mesh. Give it a socket with `listen`, and `close` it."""

    async def known(token: str) -> str | None:
        try:
            return (await guard.identify(f"Bearer {token}")).agent_id
        except Unauthorized:
            return None
        except SQLAlchemyError as error:
            raise Unavailable("the host's database does not answer", code="database_unavailable") from error

    async def admit(host: str, _port: int, _agent: str) -> str | None:
        if hosts.match(host):
            return None
        return f"{host} is not among the hosts that the mesh lets its agents reach (MESH_EGRESS_HOSTS)"

    strangers = Seldom()
    agents = connection_lines()

    def note(record: ConnectionRecord) -> None:
        lines = agents if record.agent else strangers
        more = lines.facts_of_event(f"{record.agent} {record.status}")
        if more is not None:
            _log_connection(record, more)

    return ForwardProxy(upstream or DirectUpstream(), admit, authenticate=known, on_closed=note, limits=limits)


def _log_connection(record: ConnectionRecord, more: Mapping[str, int]) -> None:
    log.info(
        "egress",
        agent=record.agent or None,
        host=record.host,
        port=record.port,
        verdict=record.verdict,
        status=record.status,
        reason=record.reason or None,
        sent=record.sent,
        received=record.received,
        seconds=round(record.seconds, 3),
        **more,
    )
