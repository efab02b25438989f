"""Run the host as a process. It takes the folder, the lock and the ports before the heavy imports."""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_common.net import (
    Endpoint,
    ListeningSocket,
    Tcp,
    Unix,
    Vsock,
    bind_other_loopback,
    http_url,
    listen_at,
    raise_file_limit,
)
from agent_common.redaction import redacted_url

from .descriptors import DescriptorShares, divide_descriptors
from .errors import StartError
from .settings import HostSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .app import Announce
    from .database import HostDatabase
    from .egress import EgressServer

PrintLine = Callable[[str], None]
_BACKLOG = 2048
_NEAREST = (Tcp, Unix, Vsock)
"""The kinds of address, best first."""


class Role(Enum):
    """What a process does for a host."""

    ALL = "all"
    LISTENER = "listener"
    """Only the mediation listener, for agents that other programs boot."""
    HUB = "hub"
    """Only the hub, beside a host that has the same database."""


def serve(settings: HostSettings, print_line: PrintLine, role: Role = Role.ALL) -> None:
    """Serve until SIGTERM or SIGINT, then stop all runtimes.

    Raises StartError if the host cannot start.
    """
    gc.disable()  # a start makes little garbage; `tune_interpreter` turns it on again
    shares = divide_descriptors(raise_file_limit())
    make_data_dir(settings.data_dir)
    with lock_data_dir(settings.data_dir) as lock, ExitStack() as stack:
        found = stack.enter_context(open_sockets(settings.addresses))
        other = _other_loopback(settings, found)
        if other is not None:
            stack.enter_context(other)
        egress = None
        if settings.egress is not None and role is Role.ALL:
            egress = stack.enter_context(open_sockets(settings.egress_addresses))
        mediation = stack.enter_context(open_sockets(settings.mediation_addresses if role is not Role.HUB else {}))
        _write_lock(lock, url_of(found))
        listens = _Sockets(found, other, egress, mediation[0] if mediation else None)
        _run(settings, listens, shares, print_line, role)


def make_data_dir(path: Path) -> None:
    """Create the folder if it is missing, accessible only to its owner. Raises StartError if it is not writable."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(_open_lock(path))
    except OSError as error:
        raise StartError(f"MESH_DATA_DIR: cannot write to {path}: {error.strerror}") from error


def _open_lock(path: Path) -> int:
    return os.open(path / "host.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


@contextmanager
def lock_data_dir(path: Path) -> Generator[int]:
    """Lock the folder for this process, and yield the open file. Raises StartError if another host uses it."""
    lock = _open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)  # what the process before has written
        yield lock
    except BlockingIOError as error:
        text = (
            f"MESH_DATA_DIR: another agent-host uses {path}{_who(lock)}; name another folder, or stop it: `agent down`"
        )
        raise StartError(text) from error
    finally:
        os.close(lock)


def _write_lock(lock: int, url: str) -> None:
    """Write who holds the lock, for `agent up` and `agent down`. It counts only while the file is locked."""
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)


def _who(lock: int) -> str:
    """Return in words what the host that holds the lock has written there."""
    try:
        known: dict[str, Any] = json.loads(os.pread(lock, 4096, 0))  # noqa: TID251  our own file
        return f", process {known['pid']} at {known['url']}"
    except (ValueError, KeyError, TypeError):  # it has not opened its port yet
        return ""


@contextmanager
def open_sockets(addresses: Mapping[str, Sequence[Endpoint]]) -> Generator[Sequence[ListeningSocket]]:
    """Open sockets on all addresses, given by setting. Connections queue until the app accepts them.

    Raises StartError, naming the setting, if an address cannot be used.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(_open_socket(one, name)) for name, named in addresses.items() for one in named]


def _other_loopback(settings: HostSettings, found: Sequence[ListeningSocket]) -> ListeningSocket | None:
    """Return a listening socket on the other loopback address, unless the address was chosen."""
    if "host" in settings.model_fields_set and settings.host != "localhost":
        return None
    bound = bind_other_loopback(found[0].sock)
    if bound is None:
        return None
    bound.listen(_BACKLOG)
    return ListeningSocket(Tcp(*bound.getsockname()[:2]), bound)


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
    """Return the best URL of the host for programs on this machine."""
    return http_url(min((one.endpoint for one in found), key=lambda one: _NEAREST.index(type(one))))


@dataclass(frozen=True, slots=True)
class _Sockets:
    """The listening sockets of the host."""

    http: Sequence[ListeningSocket]
    other_loopback: ListeningSocket | None
    """Of the same server, for programs to which `localhost` is `::1`."""
    egress: Sequence[ListeningSocket] | None
    mediation: ListeningSocket | None

    @property
    def all_http(self) -> Sequence[ListeningSocket]:
        return self.http if self.other_loopback is None else [*self.http, self.other_loopback]

    def egress_server(self) -> EgressServer | None:
        from .egress import EgressServer

        return EgressServer(self.egress, url_of(self.egress)) if self.egress else None

    def announce(self, settings: HostSettings, url: str, print_line: PrintLine) -> None:
        """Print all addresses except the one that has been printed already."""
        for one in self.http:
            if http_url(one.endpoint) != url:
                print_line(f"agent-host listens on {one.endpoint} too")
        if self.mediation is not None:
            print_line(f"agents come for work to {self.mediation.endpoint}")
        for one in self.egress or ():
            print_line(f"agents go out through {http_url(one.endpoint)} to {settings.egress_hosts}")


def _run(settings: HostSettings, bound: _Sockets, shares: DescriptorShares, print_line: PrintLine, role: Role) -> None:
    from .database import open_database
    from .http_server import HttpServer
    from .listener import ledger_lock
    from .logs import configure_logs

    configure_logs(settings.log_level, settings.log_format)
    url = url_of(bound.http)

    def announce(token: str | None) -> None:
        _announce(settings, url, token, print_line, role)
        bound.announce(settings, url, print_line)

    with ExitStack() as stack:
        if role is not Role.HUB:
            stack.enter_context(ledger_lock(settings.database))
        database = stack.enter_context(closing(open_database(settings.database)))
        app = _make_app(settings, database, url, shares, announce, bound, role)
        server = HttpServer(app, settings, bound.all_http, shares.connections)
        # uvicorn handles signals from its start on, and raises the signal that ended it again when it is done. The host
        # must stop on an early signal, and ignore a late one.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.handle_exit)
        server.run(sockets=[])


def _make_app(
    settings: HostSettings,
    database: HostDatabase,
    url: str,
    shares: DescriptorShares,
    announce: Announce,
    bound: _Sockets,
    role: Role,
) -> FastAPI:
    from .app import create_app, create_hub_app, create_listen_app

    match role:
        case Role.ALL:
            outlet = bound.egress_server()
            return create_app(
                settings, database, url, shares, announce, egress_server=outlet, mediation=bound.mediation
            )
        case Role.LISTENER:
            return create_listen_app(settings, database, announce, mediation=bound.mediation)
        case Role.HUB:
            return create_hub_app(settings, database, announce)


def _announce(settings: HostSettings, url: str, token: str | None, print_line: PrintLine, role: Role) -> None:
    if role is Role.HUB:
        print_line(f"agent-host listens on {url} with the hub of {redacted_url(settings.database)}")
        return
    models = settings.models or f"the built-in models of the provider {settings.builtin_provider!r}"
    if settings.models is None and settings.builtin_provider == "openai":
        models = f"{models}: default is {settings.openai_model} at {redacted_url(settings.openai_base_url)}"
    if settings.models is None and settings.builtin_provider == "anthropic":
        models = f"{models}: default is {settings.anthropic_model} at {redacted_url(settings.anthropic_base_url)}"
    if settings.demo_unasked and role is Role.ALL:
        print_line(
            "OPENAI_MODEL is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL: the demo answers; set one of them"
        )
    then = "; next: `agent up` in a folder makes an agent that works there" if role is Role.ALL else ""
    print_line(f"agent-host listens on {url} with {models if role is Role.ALL else 'no models'}{then}")
    if token:
        print_line(f"operator token: {token} (`agent-host token operator --show` prints it again)")
    elif settings.admin_token is None:
        print_line("operator token: `agent-host token operator --show` prints it; without --show it makes a new one")
