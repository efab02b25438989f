"""Names of MCP servers' tools: `<server>_<tool>`, changed where that is not valid or already taken.

A name depends only on the configuration and on the tool itself, never on other tools of the server or their order,
because sessions, rules and caches refer to tools by name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

from ...tools import RESERVED_TOOL_NAMES

MAX_NAME_LENGTH = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LETTER = re.compile(r"[A-Za-z]")
_FINGERPRINT_LENGTH = 8
"""Length of the fingerprint that distinguishes tools whose names would be equal."""


def tool_name(server: str, tool: str, servers: Collection[str]) -> str:
    """Return the name of a server's tool. `servers`: the names of all configured servers.

    A valid name is used as it is. A fingerprint is added to a name that had to be changed, or that is reserved by the
    product. One that would begin as the tools of another server do has it in front, because a rule for all of those
    would hold for it too.
    """
    head = _head(server)
    plain = f"{server}_{tool}"
    fit = _UNSAFE.sub("_", f"{head}_{tool}")
    foreign = any(fit.startswith(f"{_head(other)}_") for other in servers if len(_head(other)) > len(head))
    if fit == plain and len(plain) <= MAX_NAME_LENGTH and not foreign and plain not in RESERVED_TOOL_NAMES:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode(errors="replace")).hexdigest()[:_FINGERPRINT_LENGTH]
    if foreign:
        return f"{head}_{mark}_{fit[len(head) + 1 :]}"[:MAX_NAME_LENGTH]
    return f"{fit[: MAX_NAME_LENGTH - _FINGERPRINT_LENGTH - 1]}_{mark}"


def rule_name(server: str, tool: str) -> str:
    """Return the name of a tool in permission rules and manifests."""
    return f"mcp:{server}:{tool}"


def name_prefixes(server: str) -> tuple[str, str]:
    """Return the prefixes of the names of all tools of a server."""
    return f"{_head(server)}_", rule_name(server, "")


def _head(server: str) -> str:
    """Return what the names of a server's tools begin with: a letter, because some providers refuse any other."""
    return server if _LETTER.match(server) else f"mcp_{server}"
