"""A mesh of the demo's own as a process, and one runtime that the mesh starts as another."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from pydantic import ValidationError

from agent_common.protocol import Problem
from agent_testing import LiveProcess

READY_SECONDS = 30.0
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
        "MESH_LISTENER_URL": "tcp://127.0.0.1:0",  # a free port, also beside another mesh
        "MESH_DATA_DIR": str(folder),
        "MESH_ADMIN_TOKEN": token,
        "MESH_PROVIDER": provider,
        "AGENT_DRAIN_GRACE": "1",  # handed on to the runtime: who interrupts the demo does not want to wait for a turn
    }
    command = [sys.executable, "-m", "examples.demo.host", "up"]
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
    made = require_success(operator.post("/workspaces", json={"id": AGENT})).json()
    try:
        running = require_success(
            operator.post(f"/workspaces/{AGENT}/start")
        ).json()  # answers when the runtime is ready
        with client_of(running["url"], made["token"]) as agent:
            yield agent, Path(running["data_dir"]) / "workspace"
    finally:
        with contextlib.suppress(httpx.HTTPError):
            operator.post(f"/workspaces/{AGENT}/stop", timeout=15.0)


def client_of(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60.0, trust_env=False)


def require_success(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success."""
    if response.is_success:
        return response
    try:
        why = Problem.model_validate_json(response.content).detail
    except ValidationError:
        why = response.text
    raise DemoError(f"{response.request.method} {response.request.url} answered {response.status_code}: {why}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
