"""Runs the host as a process: folder, lock and port first, the heavy imports after."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_runtime.net import serve_socket

from .errors import StartError
from .settings import Settings

Say = Callable[[str], None]
_ANY = {"0.0.0.0", "::"}  # noqa: S104  compared with, not bound to
_STREAM_GRACE_SECONDS = 5
"""How long answers that are under way when the host stops may go on."""


def serve(settings: Settings, say: Say) -> None:
    """Serves until SIGTERM or SIGINT, then stops what it started. Raises StartError."""
    make_data_dir(settings.data_dir)
    with held(settings.data_dir), listening(settings.host, settings.port) as bound:
        _run(settings, bound, say)


def make_data_dir(path: Path) -> None:
    """The folder, made when missing, for nobody but its owner. Raises StartError when it cannot be written to."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(_open_lock(path))
    except OSError as error:
        raise StartError(f"MESH_DATA_DIR: cannot write to {path}: {error.strerror}") from error


def _open_lock(path: Path) -> int:
    return os.open(path / "host.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


@contextmanager
def held(path: Path) -> Generator[None]:
    """The folder, for this process alone. Raises StartError when another host has it."""
    lock = _open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise StartError(
            f"MESH_DATA_DIR: another agent-host works in {path}; stop it or name another folder"
        ) from error
    finally:
        os.close(lock)


@contextmanager
def listening(host: str, port: int) -> Generator[socket.socket]:
    """The bound port; connections wait in its queue until the app is there. Raises StartError."""
    try:
        bound = serve_socket(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"MESH_PORT: {host}:{port} is in use; stop what listens there or set another") from error
        raise StartError(f"MESH_HOST: cannot listen on {host}:{port}: {error.strerror or error}") from error
    with bound:
        bound.listen(2048)
        yield bound


def url_of(bound: socket.socket) -> str:
    """Where the host is reached from this machine."""
    host, port = bound.getsockname()[:2]
    host = "127.0.0.1" if host in _ANY else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _run(settings: Settings, bound: socket.socket, say: Say) -> None:
    import uvicorn

    from .app import create_app
    from .database import open_database

    class Server(uvicorn.Server):
        """Stops the runtimes while it still serves: their last steps need the proxy."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                await app.state.fleet.close()
            finally:
                await super().shutdown(sockets)

    _configure_logs(settings.log_level)
    url = url_of(bound)
    database = open_database(settings.database)
    app = create_app(settings, database, url, lambda token: _announce(settings, url, token, say))
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(min(settings.stop_grace, _STREAM_GRACE_SECONDS)),
    )
    server = Server(config)
    # uvicorn handles signals from its start on, and raises the one that ended it once more when it is done: an early
    # one counts, and a late one does no harm.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    with closing(database):
        server.run(sockets=[bound])


def _announce(settings: Settings, url: str, token: str | None, say: Say) -> None:
    models = settings.models or f"the built-in models of the provider {settings.builtin_provider!r}"
    say(f"agent-host listens on {url} with {models}")
    if token:
        say(f"operator token (shown only now): {token}")
    elif settings.admin_token is None:
        say("operator token: as shown when it was made; `agent-host token operator` makes a new one")


def _configure_logs(level: str) -> None:
    import structlog

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
