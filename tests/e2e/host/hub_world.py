"""A live host with runtimes on its hub, and a client that talks to them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from agent_client.hub import AgentClient, Envelope, HubClient, Passport, Session, WebSocketLink
from agent_testing import ScriptedProvider
from tests.integration.host.live import OPERATOR, PATIENCE, Host
from tests.integration.host.members import make_member
from tests.ports import free_port

from ..live import Runtime


class HubRuntime(Runtime):
    """A runtime on the hub of a host, which it reaches by the host's URL unless it is given another one."""

    def __init__(self, provider: ScriptedProvider, host: Host, folder: Path, name: str, url: str = "") -> None:
        folder.mkdir()
        super().__init__(
            provider,
            folder / "data",
            AGENT_ID=name,
            AGENT_HUB="true",
            AGENT_DRAIN_GRACE="60",
            AGENT_MESH_URL=url or host.url,
            AGENT_MESH_TOKEN=make_member(host, name),
        )

    def wait_joined(self) -> Self:
        self.process.wait_for_output("hub joined", PATIENCE)
        return self

    @property
    def asked(self) -> int:
        """How often its model was asked."""
        return len(self.provider.completions)


class HubWorld:
    """One host over several lives at one address, and its runtimes by name. `bob` reaches it over a unix socket."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._socket = folder / "mesh.sock"
        listen = {"MESH_PORT": free_port(), "MESH_LISTEN": f"unix:{self._socket}"}
        with ExitStack() as stack:
            self.host = stack.enter_context(Host(folder / "mesh", **listen))
            self.runtimes = {name: self._runtime(stack, folder / name, name) for name in names}
            for runtime in self.runtimes.values():
                runtime.wait_joined()
            self._stack = stack.pop_all()

    def _runtime(self, stack: ExitStack, folder: Path, name: str) -> HubRuntime:
        url = f"http+unix://{quote(str(self._socket), safe='')}" if name == "bob" else ""
        provider = stack.enter_context(ScriptedProvider())
        return stack.enter_context(HubRuntime(provider, self.host, folder, name, url))

    @property
    def url(self) -> str:
        return self.host.url.replace("http://", "ws://") + "/hub"

    def close(self) -> None:
        self._stack.close()

    def agents(self) -> list[dict[str, Any]]:
        """The agents of the hub, as its operator sees them."""
        return self.host.operator.get("/hub/agents").json()["agents"]

    def outcomes(self, session: Session) -> list[str]:
        """How the turns of a session ended, as the hub has recorded it."""
        uri = f"{(self.host.data_dir / 'mesh.db').as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as connection:
            query = "SELECT outcome FROM hub_turns WHERE session_id = ? ORDER BY sequence"
            return [row[0] for row in connection.execute(query, (session.session_id,))]

    @asynccontextmanager
    async def client(self, name: str) -> AsyncGenerator[AgentClient]:
        """Somebody else on the hub, who answers nothing."""
        hub = HubClient(WebSocketLink(self.url, token=OPERATOR), timeout=PATIENCE)
        try:
            yield await hub.register(None, Passport(name=name))
        finally:
            await hub.close()


async def answer_to(client: AgentClient, session: Session, envelope_id: str) -> Envelope:
    """The answer to an envelope."""
    return await client.wait_for_session_event(
        session.session_id, lambda one: one.causation_id == envelope_id, timeout=PATIENCE
    )


async def whole_log(client: AgentClient, session: Session) -> list[Envelope]:
    envelopes, _ = await client.read_log(session.session_id, 0, 500)
    return envelopes


async def eventually(check: Callable[[], object]) -> None:
    """Wait until a function gives something true."""
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.02)
