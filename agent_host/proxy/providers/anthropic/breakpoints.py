"""Mark how far a prompt should be cached: up to its last block, which the next request begins with."""

from __future__ import annotations

from typing import Any

from .assistant import THINKING

_MARK = {"type": "ephemeral"}


def mark_breakpoints(request: dict[str, Any]) -> None:
    """Mark the end of tools and system, where the previous request ended, and the end of this one.

    Claude looks for what it has cached 20 blocks back from a breakpoint, and one step may add more: the second is where
    the previous request had its last.
    """
    head: list[dict[str, Any]] = request.get("system") or request.get("tools") or []
    if head:
        head[-1]["cache_control"] = _MARK
    asked = [message["content"] for message in request["messages"] if message["role"] == "user"]
    for blocks in asked[-2:]:
        if blocks and blocks[-1]["type"] not in THINKING:
            blocks[-1]["cache_control"] = _MARK
