"""Runs the host as a process: folder, lock and port first, the heavy imports after."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_common.http import tune_interpreter
from agent_common.net import Endpoint, ListeningSocket, Tcp, Unix, Vsock, http_url, listen_at, raise_file_limit

from .budget import DescriptorBudget, budget_of
from .errors import StartError
from .settings import HostSettings, redacted_url

if TYPE_CHECKING:
    from .egress import EgressServer

PrintLine = Callable[[str], None]
_NEAREST = (Tcp, Unix, Vsock)
"""The kinds of address, best first."""
_STREAM_GRACE_SECONDS = 5
"""How long answers that are under way when the host stops may go on."""


def serve(settings: HostSettings, print_line: PrintLine, *, only_listen: bool = False) -> None:
    """Serves until SIGTERM or SIGINT, then stops what it started; `only_listen`: the mediation listener and nothing
    else. Raises StartError."""
    budget = budget_of(raise_file_limit())
    make_data_dir(settings.data_dir)
    with lock_data_dir(settings.data_dir), ExitStack() as life:
        found = life.enter_context(open_sockets(settings.addresses))
        egress = None
        if settings.egress is not None and not only_listen:
            egress = life.enter_context(open_sockets(settings.egress_addresses))
        mediation = life.enter_context(open_sockets(settings.mediation_addresses))
        listens = _Sockets(found, egress, mediation[0] if mediation else None)
        _run(settings, listens, budget, print_line, only_listen=only_listen)


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
def lock_data_dir(path: Path) -> Generator[None]:
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
def open_sockets(addresses: Mapping[str, Sequence[Endpoint]]) -> Generator[Sequence[ListeningSocket]]:
    """All of them, by the settings that name them; connections wait in their queues until the app is there.

    Raises StartError.
    """
    with ExitStack() as life:
        yield [life.enter_context(_open_socket(one, name)) for name, named in addresses.items() for one in named]


def _open_socket(endpoint: Endpoint, setting: str) -> ListeningSocket:
    try:
        return listen_at(endpoint)
    except OSError as error:
        shown = str(endpoint).removeprefix("tcp://")
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"{setting}: {shown} is in use; stop what listens there or set another") from error
        why = (error.strerror or str(error)).removeprefix(f"{endpoint}: ")
        raise StartError(f"{setting.replace('_PORT', '_HOST')}: cannot listen on {shown}: {why}") from error


def url_of(found: Sequence[ListeningSocket]) -> str:
    """Where the host is best reached from this machine."""
    return http_url(min((one.endpoint for one in found), key=lambda one: _NEAREST.index(type(one))))


@dataclass(frozen=True, slots=True)
class _Sockets:
    """What the host listens on."""

    http: Sequence[ListeningSocket]
    egress: Sequence[ListeningSocket] | None
    mediation: ListeningSocket | None

    def egress_server(self) -> EgressServer | None:
        from .egress import EgressServer

        return EgressServer(self.egress, url_of(self.egress)) if self.egress else None

    def announce(self, settings: HostSettings, url: str, print_line: PrintLine) -> None:
        """All but the nearest, which is said already."""
        for one in self.http:
            if http_url(one.endpoint) != url:
                print_line(f"agent-host listens on {one.endpoint} too")
        if self.mediation is not None:
            print_line(f"agents come for work to {self.mediation.endpoint}")
        for one in self.egress or ():
            print_line(f"agents go out through {http_url(one.endpoint)} to {settings.egress_hosts}")


def _run(
    settings: HostSettings, bound: _Sockets, budget: DescriptorBudget, print_line: PrintLine, *, only_listen: bool
) -> None:
    import uvicorn

    from agent_common.http import limited_http_protocol

    from .app import create_app, create_listen_app
    from .database import open_database
    from .listener import ledger_lock
    from .listening_sockets import HttpSide, ListeningSockets
    from .logs import configure_logs

    class Server(uvicorn.Server):
        """Takes the doors as its own, and stops the runtimes while it still serves: their last steps need the proxy."""

        def connection(self) -> asyncio.Protocol:
            make: Any = config.http_protocol_class
            return make(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for one in bound.http:
                await doors.add(one)
            tune_interpreter()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                await app.state.fleet.close()
            finally:
                doors.stop_listening()
                await super().shutdown(sockets)

    configure_logs(settings.log_level, settings.log_format)
    url = url_of(bound.http)
    life = ExitStack()
    life.enter_context(ledger_lock(settings.database))
    database = life.enter_context(closing(open_database(settings.database)))

    def announce(token: str | None) -> None:
        _announce(settings, url, token, print_line, only_listen=only_listen)
        bound.announce(settings, url, print_line)

    if only_listen:
        app = create_listen_app(settings, database, announce, mediation=bound.mediation)
    else:
        outlet = bound.egress_server()
        app = create_app(settings, database, url, budget, announce, egress_server=outlet, mediation=bound.mediation)
    http = limited_http_protocol(budget.connections)
    app.state.connections = http.limit
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=http,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(min(settings.stop_grace, _STREAM_GRACE_SECONDS)),
    )
    server = Server(config)
    doors = app.state.doors = ListeningSockets(HttpSide(server.connection))
    # uvicorn handles signals from its start on, and raises the one that ended it once more when it is done: an early
    # one counts, and a late one does no harm.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    with life:
        server.run(sockets=[])


def _announce(settings: HostSettings, url: str, token: str | None, print_line: PrintLine, *, only_listen: bool) -> None:
    models = settings.models or f"the built-in models of the provider {settings.builtin_provider!r}"
    if settings.models is None and settings.builtin_provider == "openai":
        models = f"{models}: default is {settings.openai_model} at {redacted_url(settings.openai_base_url)}"
    if settings.demo_unasked and not only_listen:
        print_line(
            "OPENAI_MODEL is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL: the demo answers; set one of them"
        )
    print_line(f"agent-host listens on {url} with {'no models' if only_listen else models}")
    if token:
        print_line(f"operator token (shown only now): {token}")
    elif settings.admin_token is None:
        print_line("operator token: as shown when it was made; `agent-host token operator` makes a new one")
