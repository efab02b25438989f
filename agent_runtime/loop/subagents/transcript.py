"""The transcript of a subagent that ran inside a call, shortened to what a tool result can carry."""

from __future__ import annotations

from typing import Any

from ...sessions import NOTICE, rows, tool_name

MAX_BYTES = 200 * 1024
"""Maximum bytes of a transcript."""
MAX_PART_BYTES = 16 * 1024
"""Maximum bytes of one part."""
SHOWN_CHARACTERS = 2000
"""Characters kept of a text that is too long."""


def transcript(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all parts, long ones shortened. If they are too many, only the last ones, after a notice."""
    kept: list[dict[str, Any]] = []
    left = MAX_BYTES
    for part in reversed([_shortened(part) for part in parts]):
        left -= len(rows.dump(part))
        if left < 0:
            gone = f"the first {len(parts) - len(kept)} of {len(parts)} parts are left out"
            return [{"type": NOTICE, "data": {"text": gone}}, *reversed(kept)]
        kept.append(part)
    return kept[::-1]


def _shortened(part: dict[str, Any]) -> dict[str, Any]:
    if len(rows.dump(part)) <= MAX_PART_BYTES:
        return part
    if tool_name(part) is None:
        return {key: _short(value) for key, value in part.items()}
    long = {
        key: _head(part[key])
        for key in ("input", "output")
        if key in part and len(rows.dump(part[key])) > SHOWN_CHARACTERS
    }
    return {**{key: _short(value) for key, value in part.items() if key not in long}, **long}


def _head(value: Any) -> dict[str, Any]:
    """Return the replacement of an input or an envelope that is too long."""
    text = rows.dump(value)
    return {"head": text[:SHOWN_CHARACTERS], "total_bytes": len(text), "truncated": True}


def _short(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}..."
