"""Lines of a runtime's log (docs/reference/logs.md), as a person reads them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

LEFT_OUT = ("timestamp", "level", "logger", "event")
"""Fields that are shown otherwise, or not at all."""


def entry_of(line: str) -> dict[str, Any] | None:
    """Return the entry of a line; None if it is something else that the runtime has printed."""
    from agent_common.json_reader import JsonLimits, read_json
    from agent_common.protocol import is_object

    try:
        entry: Any = read_json(line.encode("utf-8", "replace"), JsonLimits(1 << 20, refuse_ambiguous=False))
    except ValueError:
        return None
    return entry if is_object(entry) and isinstance(entry.get("event"), str) else None


def readable(entry: dict[str, Any]) -> str:
    """Return the entry as text: `2026-11-25 20:02:11 warning turn ended status=failed`."""
    facts = (f"{name}={value}" for name, value in entry.items() if name not in LEFT_OUT and value is not None)
    return " ".join((_local(str(entry.get("timestamp", ""))), str(entry.get("level", "info")), entry["event"], *facts))


def _local(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return timestamp
