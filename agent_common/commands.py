"""Entry points of the commands whose packages are optional: without these a command says what to install.

The commands are named and not imported here, because what they share imports none of them.
"""

from __future__ import annotations

import sys
from importlib import import_module

from . import __version__

_OURS = "agent_"


def agent() -> None:
    """Run `agent`."""
    _run("agent", "agent_client.cli", "client")


def agent_host() -> None:
    """Run `agent-host`."""
    _run("agent-host", "agent_host.cli", "host")


def _run(name: str, module: str, extra: str) -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{name} {__version__}\n")
        return
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(_OURS):
            raise
        sys.exit(
            f"{name}: the package {error.name!r} is not installed; "
            f"install the distribution again with its extra {extra!r}, as docs/how-to/install.md shows"
        )
    sys.exit(main())
