"""The way out of a command: none, unless rules open hosts to `shell.net`, and then to these and no others.

The command has no network of its own. It gets a proxy of its own on a unix socket, which asks the rules about every
connection, in words of hosts, and goes out by the same way as web_fetch: resolved once, public addresses only, or
through the host's forward proxy. The token of that proxy stays on this side.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent_common.protocol import Net, RequirementSet
from agent_common.telemetry import logger

from ...ports import ToolContext
from ...sandbox import Confinement

if TYPE_CHECKING:
    from agent_common.net import ConnectionRecord, Upstream

SHELL_NET = "shell.net"
"""The permission of commands to reach a host. It must be named: a rule for everything does not open the network."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CommandProxy:
    """Opens a way out for one command at a time."""

    confinement: Confinement
    upstream: Upstream | None = None
    """None: there is no way out at all."""

    @asynccontextmanager
    async def open(self, context: ToolContext) -> AsyncGenerator[Path | None]:
        """The socket of a proxy for this command, while the block lasts; none when it may reach nothing."""
        wanted = self.confinement.name == "bubblewrap" and context.authority.has_allow_rule(SHELL_NET)
        if self.upstream is None or not wanted:
            yield None
            return
        from agent_common.net import unix_socket_proxy

        async def admit(host: str, _port: int, _agent: str) -> str | None:
            return None if _may_reach(host, context) else f"commands of agent {context.agent} may not reach {host}"

        def note(passage: ConnectionRecord) -> None:
            log.info(
                "command out",
                call_id=context.call_id,
                host=passage.host,
                port=passage.port,
                verdict=passage.verdict,
                reason=passage.reason,
            )

        # Not in the data folder, whose path may be too long for a socket's name.
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
