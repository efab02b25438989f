"""The step that only this double knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..provider import Say


@dataclass(frozen=True, slots=True)
class Items(Say):
    """An answer given item by item: reasoning between calls, several messages, refusals.

        Items(output=({"type": "reasoning", "summary": []}, {"type": "message", "content": [...]}))

    An item without an id gets one, a call without a `call_id` too, and reasoning its encrypted content if the request
    asks for that.
    """

    output: tuple[dict[str, Any], ...] = ()
