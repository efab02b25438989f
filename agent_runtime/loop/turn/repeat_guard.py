"""Notice a model that repeats a call with the same result: warn it the third time, stop its tools after the fifth."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from pydantic_core import to_json

from ...ports import ToolResult

WARN_AT = 3
STOP_AT = 5
WARNING = (
    "You have made this call {count} times with the same arguments and got the same result. "
    "It will not change: try something else or give your final answer."
)


class RepeatGuard:
    """Counts identical calls with identical results in one turn."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()
        self.stop_tools = False
        """Whether the next step is asked without tools."""

    def record(self, name: str, arguments: dict[str, Any], result: ToolResult) -> str | None:
        """Record a finished call. Returns a warning to show the model with the result, or None."""
        content = to_json([name, sorted(arguments.items()), result.type, result.data, result.error_text])
        key = hashlib.sha256(content).digest()
        self._seen[key] += 1
        count = self._seen[key]
        self.stop_tools = self.stop_tools or count >= STOP_AT
        return WARNING.format(count=count) if count >= WARN_AT else None
