"""Whether a host runs on this machine, and if not, what is in its way."""

from __future__ import annotations

import socket

from ..errors import CliError
from ..local import LOG_NAME, data_dir, log_tail, running_host
from .finding import Finding, error, ok, warning

PORT = 8420
_STARTED = ("agent-host listens on", " INFO ")
"""A host that has started has written one of these."""


def check_local_host() -> list[Finding]:
    folder = data_dir()
    try:
        host = running_host(folder)
    except CliError as failure:
        return [error("host process", str(failure), "MESH_DATA_DIR names another folder")]
    if host is not None:
        return [ok("host process", f"process {host.pid} serves {host.url}")]
    what = f"no host runs for {folder}"
    tail = log_tail(folder)
    if (folder / LOG_NAME).exists() and not any(mark in tail for mark in _STARTED):
        what = f"{what}; the last one did not start: {tail}"
    return [error("host process", what, "`agent up` starts one"), *_check_port()]


def _check_port() -> list[Finding]:
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
    except OSError:
        return []
    what = f"port {PORT} is taken by another program"
    return [warning("port", what, f"`agent up` takes another port; ss -ltnp 'sport = :{PORT}' names the program")]
