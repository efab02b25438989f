"""A mesh of the demo's own as a process, and one runtime that the mesh starts as another."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from agent_runtime.testing import LiveProcess

READY_SECONDS = 60.0
AGENT = "demo"


class DemoError(Exception):
    """The demo cannot go on."""


@contextmanager
def running_mesh(folder: Path, provider: str) -> Generator[httpx.Client]:
    """`agent-host up` on a free port, with its data in `folder`; gives the operator's client."""
    token = secrets.token_urlsafe(24)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        "MESH_HOST": "127.0.0.1",
        "MESH_PORT": str(port),
        "MESH_DATA_DIR": str(folder),
        "MESH_ADMIN_TOKEN": token,
        "MESH_PROVIDER": provider,
    }
    command = [sys.executable, "-m", "agent_host", "up"]
    with ExitStack() as stack:
        operator = stack.enter_context(client_of(url, token))
        try:
            stack.enter_context(LiveProcess(command, environment, f"{url}/readyz", READY_SECONDS))
        except (RuntimeError, TimeoutError) as error:
            raise DemoError(str(error)) from None
        yield operator


@contextmanager
def running_runtime(operator: httpx.Client) -> Generator[tuple[httpx.Client, Path]]:
    """One runtime under the mesh's process driver; gives the client of its HTTP face and its workspace."""
    made = checked(operator.post("/workspaces", json={"id": AGENT})).json()
    try:
        checked(operator.post(f"/workspaces/{AGENT}/start"))
        with client_of(made["url"], made["token"]) as agent:
            wait_until_ready(agent)
            workspace = Path(made["data_dir"]) / "workspace"
            workspace.mkdir(parents=True, exist_ok=True)
            yield agent, workspace
    finally:
        with contextlib.suppress(httpx.HTTPError):
            operator.post(f"/workspaces/{AGENT}/stop", timeout=15.0)


def client_of(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60.0, trust_env=False)


def wait_until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + READY_SECONDS
    answer = "nothing"
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            response = client.get("/readyz")
            if response.is_success:
                return
            answer = response.text
        time.sleep(0.02)
    raise DemoError(f"The runtime did not get ready within {READY_SECONDS:.0f} s; it says: {answer}")


def checked(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success."""
    if not response.is_success:
        request = response.request
        raise DemoError(f"{request.method} {request.url} answered {response.status_code}: {response.text}")
    return response


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
