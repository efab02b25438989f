"""Serves one runtime: opens the port, loads and warms up behind it, and drains on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import os
import signal
import socket
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uvicorn import Config, Server

from agent_common.http import end_if_stalled, tune_interpreter
from agent_common.net import bind_other_loopback, bind_tcp_socket, raise_file_limit
from agent_common.telemetry import logger

from ..errors import StartError
from ..settings import Settings
from .memory_tuning import tune_malloc
from .startup_app import StartupApp

if TYPE_CHECKING:
    from ..runtime import Runtime

log = logger(__name__)
BACKLOG = 2048
SHUTDOWN_SECONDS = 5
"""What open connections get to finish after the drain."""
MAX_CONNECTIONS = 2048


class _Server(Server):
    """Leaves the signals to us: a drain comes before the listener closes."""

    def __init__(self, config: Config, unix_socket: Path | None) -> None:
        super().__init__(config)
        self._unix_socket = unix_socket
        self.opened = asyncio.Event()
        """The port answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._unix_socket is not None:
            await self._listen_on_unix_socket(self._unix_socket)
        self.opened.set()

    def serve_connection(self, transport: asyncio.Transport) -> None:
        """Answer requests on a connection that this process has opened. Its peer counts as local, like one on a unix
        socket."""
        protocol = self._make_protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.client = None

    def _make_protocol(self) -> Any:
        made: Any = self.config.http_protocol_class
        return made(config=self.config, server_state=self.server_state, app_state={})

    async def _listen_on_unix_socket(self, path: Path) -> None:
        """Listen on a unix socket too; what an earlier run has left there is replaced."""
        loop = asyncio.get_running_loop()
        made = await loop.create_unix_server(self._make_protocol, str(path), backlog=self.config.backlog)
        os.chmod(path, 0o600)
        self.servers.append(made)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def serve(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. Raises StartError when it cannot start."""
    import uvloop

    tune_malloc()
    connections = min(MAX_CONNECTIONS, raise_file_limit() // 2)  # the others: database, calls, commands, files
    with contextlib.ExitStack() as stack:
        listening = [stack.enter_context(one) for one in _listen(settings)]
        uvloop.run(_main(settings, listening, connections))


async def _main(settings: Settings, listening: Sequence[socket.socket], connections: int) -> None:
    end_if_stalled("agent-runtime", settings.stall_timeout)
    entrance = StartupApp()
    stop_requested = asyncio.Event()
    server = _Server(_config(entrance, connections), settings.socket)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    serving = asyncio.create_task(server.serve(sockets=list(listening)))
    runtime: Runtime | None = None
    try:
        await _wait_for_either(serving, server.opened)
        if (fault := settings.data_dir_fault) is not None:
            log.warning(fault)
        runtime = await _load(settings)
        runtime.serve_connection = server.serve_connection
        await asyncio.to_thread(runtime.open)  # the probes answer while a large database is checked
        mediated = settings.mediation_url is not None  # then work comes that way, and need not wait for the routes
        if not mediated:
            entrance.set_app(await asyncio.to_thread(runtime.create_http_app))
        if await _start_runtime(runtime, stop_requested):
            if mediated:
                entrance.set_app(await asyncio.to_thread(runtime.create_http_app))
            tune_interpreter()
            _announce(settings, listening[0])
            await _wait_for_either(serving, stop_requested)
            await runtime.drain()
    finally:
        entrance.close()
        server.should_exit = True
        await serving
        if runtime is not None:
            await runtime.close()


def _config(app: StartupApp, connections: int) -> Config:
    from agent_common.http import limited_http_protocol

    return Config(
        app,
        http=limited_http_protocol(connections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


async def _load(settings: Settings) -> Runtime:
    """Everything behind the open port. The imports run beside the event loop, so that the probes go on answering."""
    for module in ("agent_runtime.runtime", "agent_runtime.mesh.model"):
        await asyncio.to_thread(importlib.import_module, module)
    from ..runtime import Runtime

    return Runtime(settings)


async def _start_runtime(runtime: Runtime, stop_requested: asyncio.Event) -> bool:
    """Warms up; False when the server was told to stop meanwhile. Raises StartError."""
    warming = asyncio.create_task(runtime.start())
    telling = asyncio.create_task(stop_requested.wait())
    await asyncio.wait((warming, telling), return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()
    if warming.done():
        await warming
        return True
    warming.cancel()
    await asyncio.wait([warming])
    return False


async def _wait_for_either(serving: asyncio.Task[None], event: asyncio.Event) -> None:
    """Returns when the event is set, or the server has ended by itself."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _announce(settings: Settings, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    url = f"http://{host}:{port}"
    bearer = "" if settings.token is None else " -H 'Authorization: Bearer TOKEN'"
    first = f'curl {url}/chat{bearer} -d \'{{"message": "hello"}}\''
    log.info("ready", url=url, agent=settings.id, data_dir=str(settings.data_dir), next=first)
    if settings.token is None:
        log.warning(
            "no token is set (AGENT_TOKEN): whoever reaches this machine's loopback address may give this agent work"
        )


def _listen(settings: Settings) -> list[socket.socket]:
    """Return the bound sockets. On loopback there are two, unless the address was chosen. Raises StartError."""
    try:
        bound = bind_tcp_socket(settings.host, settings.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"port {settings.port} on {settings.host} is in use: set AGENT_PORT or stop the other server"
        else:
            text = f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}"
        raise StartError(text) from error
    chosen = "host" in settings.model_fields_set and settings.host != "localhost"
    other = None if chosen else bind_other_loopback(bound)
    return [bound] if other is None else [bound, other]
