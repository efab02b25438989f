"""Find the variables of the host's environment that a runtime gets for its MCP servers."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

MAX_FILE_BYTES = 1024 * 1024
"""Most bytes of the file, as in the runtime, which refuses a longer one."""
_NAMED = re.compile(rb"(?:\$\{|\{env:|\$\{env:)([A-Za-z_][A-Za-z0-9_]*)(?::-|\})")
_OF_THE_HOST = re.compile(r"(?:AGENT|MESH|OPENAI|ANTHROPIC)_.*|PG[A-Z]+|.*_PROXY", re.IGNORECASE)
"""Settings and credentials of the host: its own, those of its database's driver, and proxies with their passwords."""


def mcp_variables(
    data_dir: Path, environment: Mapping[str, str], given: Mapping[str, str], withheld: Collection[str]
) -> dict[str, str]:
    """Return the variables that the operator's file of MCP servers names as `${NAME}`.

    `environment`: the host's. `given`: what the runtime gets anyhow. `withheld`: names of keys that the host uses,
    which no file can have passed. Where commands are not confined they can write the file, so nothing is passed.
    """
    if given.get("AGENT_CONFINEMENT") == "off":
        return {}
    names = _names_in(Path(given.get("AGENT_MCP_FILE") or data_dir / "mcp.json"))
    kept = {*withheld, *(f"{name}_FILE" for name in withheld)}
    return {
        name: value
        for name, value in environment.items()
        if name in names and name not in kept and not _OF_THE_HOST.fullmatch(name)
    }


def _names_in(path: Path) -> set[str]:
    """Return the names in the file; none if it cannot be read, which the runtime reports."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return set()
            return {name.decode() for name in _NAMED.findall(file.read(MAX_FILE_BYTES))}
    except OSError:
        return set()
