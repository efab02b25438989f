"""The step that only this double knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..provider import Say


@dataclass(frozen=True, slots=True)
class Blocks(Say):
    """An answer given block by block: redacted thinking, thinking between texts, several texts.

        Blocks(content=({"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "Hello"}))

    A thinking block without a signature gets one, a call without an id too.
    """

    content: tuple[dict[str, Any], ...] = ()
