"""Serves one runtime: binds the port, then warms up behind it, and drains on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib
import signal
import socket
from collections.abc import Generator

import uvicorn

from .errors import StartError
from .net import serve_socket
from .runtime import Runtime
from .settings import Settings
from .telemetry import logger

log = logger(__name__)
BACKLOG = 2048
GOODBYE_SECONDS = 5
"""What open connections get to finish after the drain."""


class _Server(uvicorn.Server):
    """Leaves the signals to us: a drain comes before the listener closes."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.opened = asyncio.Event()
        """The port answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.opened.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def serve(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. Raises StartError when it cannot start."""
    import uvloop

    runtime = Runtime(settings)
    with _listen(settings) as listening:
        runtime.open()
        uvloop.run(_main(runtime, listening))


async def _main(runtime: Runtime, listening: socket.socket) -> None:
    config = uvicorn.Config(
        runtime.app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
    )
    server, told = _Server(config), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await _open(server, serving)
        await runtime.warm()
        _settle_memory()
        host, port = listening.getsockname()[:2]
        if runtime.settings.token is None:
            log.warning("no token is set: whoever reaches this machine's loopback address may give this agent work")
        log.info("ready", url=f"http://{host}:{port}", agent=runtime.settings.id)
        await asyncio.wait((serving, stopping := asyncio.ensure_future(told.wait())), return_when="FIRST_COMPLETED")
        stopping.cancel()
        await runtime.drain()
    finally:
        server.should_exit = True
        await serving
        await runtime.close()


async def _open(server: _Server, serving: asyncio.Task[None]) -> None:
    """Returns once the port answers: what is slow to load comes after that."""
    await asyncio.wait((serving, opened := asyncio.ensure_future(server.opened.wait())), return_when="FIRST_COMPLETED")
    opened.cancel()
    await asyncio.to_thread(importlib.import_module, "agent_runtime.mesh.model")


def _settle_memory() -> None:
    """What is loaded now stays for good: the collector need not look at it again. `cli` keeps it off until here."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _listen(settings: Settings) -> socket.socket:
    try:
        return serve_socket(settings.host, settings.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"port {settings.port} on {settings.host} is in use: set AGENT_PORT or stop the other server"
        else:
            text = f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}"
        raise StartError(text) from error
