"""The way out of a plugin's worker: none, unless the operator lets the plugin reach hosts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent_common.telemetry import Seldom, logger

from ...errors import ToolFailure
from ...sandbox import Confinement
from ..sources.granted_hosts import GrantedHosts
from ..sources.staging import StagedBuild

if TYPE_CHECKING:
    from agent_common.net import ByteStream, ConnectionRecord, Upstream

log = logger(__name__)


async def open_network(
    staged: StagedBuild,
    confinement: Confinement,
    upstream: Upstream | None,
    stack: AsyncExitStack,
    count: Callable[[int], None] | None,
    lines: Seldom,
) -> Path | None:
    """Return the socket of a proxy for one worker, open until `stack` is closed; None if it has no network. `lines`
    bounds those of the log about its connections. Raises ToolFailure where the confinement cannot give it one."""
    hosts = staged.grant.hosts
    plugin = staged.plugin.name
    # An unconfined process has the machine's network.
    if hosts is None or confinement.name == "off":
        return None
    if confinement.name != "bubblewrap":
        raise ToolFailure(f"{plugin} may reach hosts, and only bubblewrap can give it a network", kind="unavailable")
    from agent_common.net import unix_socket_proxy

    async def admit(host: str, port: int, _agent: str) -> str | None:
        if hosts.match(host, port):
            return None
        return f"plugin {plugin} may not reach port {port} of {host}; see `agent-runtime skill allow`"

    def note(passage: ConnectionRecord) -> None:
        more = lines.facts_of_event(f"{plugin} {passage.status}")
        if more is not None:
            log.info("skill out", plugin=plugin, host=passage.host, port=passage.port, verdict=passage.verdict, **more)

    folder = stack.enter_context(TemporaryDirectory(prefix="agent-skill-"))
    opened = unix_socket_proxy(
        Path(folder, "proxy"),
        admit,
        _GrantedUpstream(hosts, upstream),
        uid=confinement.uid,
        on_closed=note,
        count_sent=count,
    )
    return await stack.enter_async_context(opened)


@dataclass(frozen=True, slots=True)
class _GrantedUpstream:
    """Straight out, or through the operator's proxy. A host that the operator has named may have any address, on the
    ports that were granted with it; one that only matches a pattern must be public."""

    hosts: GrantedHosts
    upstream: Upstream | None

    async def open(self, host: str, port: int) -> ByteStream:
        from agent_common.net import ANY_ADDRESS, AddressPolicy, DirectUpstream

        rules = ANY_ADDRESS if self.hosts.is_named(host, port) else AddressPolicy()
        return await (self.upstream or DirectUpstream(rules)).open(host, port)
