"""How tools of MCP servers are called: `<server>_<tool>`, and what to do where that cannot be, or is taken.

A name depends on what the operator has configured and on the tool itself, never on what else a server lists or in
which order: sessions, rules and caches go by names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

from ...tools import RESERVED_TOOL_NAMES

MAX_NAME_LENGTH = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_FINGERPRINT_LENGTH = 8
"""Characters of the fingerprint that tells apart what would be called alike."""


def tool_name(server: str, tool: str, servers: Collection[str]) -> str:
    """The name of a server's tool; `servers` are all that are configured.

    A plain name that fits is taken as it is. What had to be changed, what belongs to the product, and what reads like
    a tool of another server carries a fingerprint.
    """
    plain = f"{server}_{tool}"
    fit = _UNSAFE.sub("_", plain)
    rivals = [other for other in servers if other != server and len(other) > len(server)]
    foreign = any(plain.startswith(f"{other}_") for other in rivals)
    if fit == plain and len(plain) <= MAX_NAME_LENGTH and not foreign and plain not in RESERVED_TOOL_NAMES:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode(errors="replace")).hexdigest()[:_FINGERPRINT_LENGTH]
    return f"{fit[: MAX_NAME_LENGTH - _FINGERPRINT_LENGTH - 1]}_{mark}"


def rule_name(server: str, tool: str) -> str:
    """How permission rules and manifests may call it."""
    return f"mcp:{server}:{tool}"


def name_prefixes(server: str) -> tuple[str, str]:
    """What the names of all tools of a server begin with."""
    return f"{server}_", rule_name(server, "")
