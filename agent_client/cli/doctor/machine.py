"""Checks of this machine that need no server: Python, packages, the programs of the sandbox, proxies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from agent_common import DISTRIBUTION
from agent_common.confinement_cures import confinement_cures

from .finding import Finding, error, ok, warning

_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
OLDEST_PYTHON = (3, 11)
_SECONDS = 10.0
_NEEDED = {
    "agent_client": ("httpx2", "prompt_toolkit", "rich", "stamina", "typer"),
    "agent_host": ("alembic", "fastapi", "sqlalchemy", "structlog", "uvicorn"),
    "agent_runtime": ("fastapi", "httpx2", "uvicorn"),
}
"""Our packages, and modules without which they do not start."""


def check_python() -> list[Finding]:
    shown = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return [error("python", f"Python {shown} is too old", "install with Python 3.11 or newer")]
    return [ok("python", f"Python {shown}")]


def check_packages() -> list[Finding]:
    fix = "install the wheel again with the extras client and host (docs/how-to/install.md)"
    try:
        installed = version(DISTRIBUTION)
    except PackageNotFoundError:
        return [error("packages", f"the distribution {DISTRIBUTION} is not installed for this Python", fix)]
    missing = {module for name, modules in _NEEDED.items() for module in (name, *modules) if not find_spec(module)}
    if missing:
        return [error("packages", f"missing: {', '.join(sorted(missing))}", fix)]
    return [ok("packages", f"client, host and runtime {installed}")]


def check_sandbox() -> list[Finding]:
    """Whether commands of an agent on this machine can be confined in the best way."""
    if not sys.platform.startswith("linux"):
        return [warning("sandbox", f"commands are not confined on {sys.platform}", "run the host on Linux")]
    found = [_check_search()]
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return [
            *found,
            warning("sandbox", "bubblewrap is missing", "; ".join(confinement_cures(has_bwrap=False))),
        ]
    # The namespaces that a sandbox needs. A server that is root needs no user namespace.
    user = ("--unshare-user",) if os.geteuid() else ()
    command = (bwrap, *user, "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--", "/bin/true")
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        why = ended.stderr.strip() if ended.returncode else None
    except (OSError, subprocess.SubprocessError) as failure:
        why = str(failure)
    if why is not None:
        fix = "; ".join(confinement_cures())
        return [*found, warning("sandbox", f"bubblewrap cannot make namespaces here: {why}", fix)]
    return [*found, ok("sandbox", "bubblewrap works")]


def _check_search() -> Finding:
    if shutil.which("rg") is None:
        return warning("search", "ripgrep is missing: glob and grep of agents do not work", "apt-get install ripgrep")
    return ok("search", "ripgrep is there")


def check_proxies() -> list[Finding]:
    """Whether a proxy for the outside would be asked for this machine's own ports."""
    named = next((name for name in _PROXIES if os.environ.get(name)), None)
    direct = {part.strip() for name in ("no_proxy", "NO_PROXY") for part in os.environ.get(name, "").split(",")}
    if named and not direct & {"*", "127.0.0.1", "127.0.0.0/8"}:
        what = f"{named} also captures 127.0.0.1, where the host and its agents listen"
        return [warning("proxy", what, "export NO_PROXY=localhost,127.0.0.1,::1 no_proxy=localhost,127.0.0.1,::1")]
    return [ok("proxy", "no proxy captures 127.0.0.1")]
