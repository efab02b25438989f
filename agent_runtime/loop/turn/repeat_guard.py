"""Notice a model that repeats a call with the same result: warn it the third time, stop its tools after the fifth."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from agent_common.protocol import is_object

from ...context import ToolCallRecord
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
        count = self._count(name, arguments, result.envelope())
        return WARNING.format(count=count) if count >= WARN_AT else None

    def restore(self, calls: Sequence[ToolCallRecord]) -> None:
        """Record calls that an earlier run of the turn has finished.

        Only the results of tools have metadata: the answers of people and interrupted calls do not count.
        """
        for call in calls:
            if is_object(call.input) and is_object(call.output) and call.output.get("metadata"):
                self._count(call.name, call.input, call.output)

    def _count(self, name: str, arguments: Mapping[str, Any], envelope: Mapping[str, Any]) -> int:
        result = [envelope.get(key) for key in ("type", "data", "error_text")]
        key = hashlib.sha256(to_json([name, sorted(arguments.items()), *result])).digest()
        self._seen[key] += 1
        self.stop_tools = self.stop_tools or self._seen[key] >= STOP_AT
        return self._seen[key]
