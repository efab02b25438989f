"""Load what hosts and runtimes have loaded once they serve. `tests/forked.py` copies the process that has done so."""

from __future__ import annotations

import gc
from importlib import import_module

LOADED = (
    "agent_common.hub_client.web_socket",
    "agent_common.telemetry",
    "agent_host.app",
    "agent_host.cli",
    "agent_host.database",
    "agent_host.listening_sockets",
    "agent_host.logs",
    "agent_host.serve",
    "agent_host.startup",
    "agent_runtime.api.app",
    "agent_runtime.cli.main",
    "agent_runtime.runtime.app",
    "agent_runtime.server.main",
    "agent_runtime.server.startup_app",
    "uvicorn",
    "uvloop",
)

for name in LOADED:
    import_module(name)
# The collector of a copy has nothing to look at but what is its own.
gc.collect()
gc.freeze()
