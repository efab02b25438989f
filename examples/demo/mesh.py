"""A mesh of the demo's own as a process, and one agent whose runtime the mesh starts as another."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent_client import ClientError
from agent_client.sync import SyncAgent, SyncMesh
from agent_testing import LiveProcess

READY_SECONDS = 30.0
AGENT = "demo"


class DemoError(Exception):
    """The demo cannot go on."""


@contextmanager
def running_mesh(folder: Path, provider: str, program: str = "examples.demo.host") -> Generator[SyncMesh]:
    """`agent-host up` on a free port, with its data in `folder`; gives the operator's client. `program`: the module
    that is the host, with the scripts of its demo model."""
    token = secrets.token_urlsafe(24)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        "MESH_HOST": "127.0.0.1",
        "MESH_PORT": str(port),
        "MESH_LISTENER_URL": "tcp://127.0.0.1:0",  # a free port, also beside another mesh
        "MESH_DATA_DIR": str(folder),
        "MESH_ADMIN_TOKEN": token,
        "MESH_PROVIDER": provider,
        "AGENT_DRAIN_GRACE": "1",  # handed on to the runtime: who interrupts the demo does not want to wait for a turn
    }
    command = [sys.executable, "-m", program, "up"]
    with ExitStack() as stack:
        try:
            stack.enter_context(LiveProcess(command, environment, f"{url}/readyz", READY_SECONDS))
        except (RuntimeError, TimeoutError) as error:
            raise DemoError(str(error)) from None
        yield stack.enter_context(SyncMesh(url, token))


@contextmanager
def running_agent(mesh: SyncMesh, name: str = AGENT, team: str | None = None) -> Generator[tuple[SyncAgent, Path]]:
    """One agent under the mesh's process driver; gives its client and its workspace."""
    mesh.workspaces.create(name, team=team)
    try:
        running = mesh.workspaces.start(name)  # returns when the runtime is ready
        yield mesh.agent(name), Path(running.data_dir) / "workspace"
    finally:
        with contextlib.suppress(ClientError):
            mesh.workspaces.stop(name)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
