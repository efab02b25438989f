"""The network access of a command: none, unless rules open hosts to `shell.net`, and then only those hosts.

The command itself has no network. It gets its own proxy on a unix socket, which checks the host of every connection
against the rules and connects in the same way as web_fetch: names are resolved once, to public addresses only, or the
host's forward proxy is used. That proxy's token never reaches the command.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent_common.protocol import Net, RequirementSet
from agent_common.telemetry import Seldom, connection_lines, logger

from ...ports import ToolContext
from ...sandbox import Confinement

if TYPE_CHECKING:
    from agent_common.net import ConnectionRecord, Upstream

SHELL_NET = "shell.net"
"""The permission of commands to reach a host. It must be named: a rule for all permissions does not open the
network."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CommandProxy:
    """Opens network access for one command at a time."""

    confinement: Confinement
    upstream: Upstream | None = None
    """None: no network access at all."""
    lines: Seldom = field(default_factory=connection_lines)
    """Bounds those of the log about connections."""

    @asynccontextmanager
    async def open(self, context: ToolContext) -> AsyncGenerator[Path | None]:
        """Yield the socket of a proxy for this command while the block runs; None if it may reach no host."""
        wanted = self.confinement.name == "bubblewrap" and context.authority.has_allow_rule(SHELL_NET)
        if self.upstream is None or not wanted:
            yield None
            return
        from agent_common.net import unix_socket_proxy

        async def admit(host: str, _port: int, _agent: str) -> str | None:
            return None if _may_reach(host, context) else f"commands of agent {context.agent} may not reach {host}"

        def note(passage: ConnectionRecord) -> None:
            more = self.lines.facts_of_event(str(passage.status))
            if more is not None:
                log.info(
                    "command out",
                    call_id=context.call_id,
                    host=passage.host,
                    port=passage.port,
                    verdict=passage.verdict,
                    reason=passage.reason,
                    **more,
                )

        # Not in the data folder, whose path may be too long for a socket.
        with TemporaryDirectory(prefix="agent-out-") as folder:
            path = Path(folder, "proxy")
            count = context.egress.count_sent if context.egress else None
            async with unix_socket_proxy(
                path, admit, self.upstream, uid=self.confinement.uid, on_closed=note, count_sent=count
            ):
                yield path


def _may_reach(host: str, context: ToolContext) -> bool:
    if context.authority.missing_grant(RequirementSet(net=Net(hosts=[host])), context.variables) is not None:
        return False
    return context.authority.explicitly_allows(SHELL_NET, host)
