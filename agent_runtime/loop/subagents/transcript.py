"""The transcript of an agent that ran inside a call, as far as a result can carry it."""

from __future__ import annotations

from typing import Any

from ...sessions import NOTICE, rows, tool_name

MAX_BYTES = 200 * 1024
"""Bytes of a transcript."""
MAX_PART_BYTES = 16 * 1024
"""Bytes of one part of it."""
SHOWN_CHARACTERS = 2000
"""Characters that stay of what is too long."""


def transcript(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All parts, long ones shortened; of too many, the last ones, with a notice in place of the others."""
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
    """What stands in place of an input or an envelope."""
    text = rows.dump(value)
    return {"head": text[:SHOWN_CHARACTERS], "total_bytes": len(text), "truncated": True}


def _short(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}..."
