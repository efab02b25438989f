"""What JSON that others have written costs as objects: how much of it a page may hold, and how much is kept."""

from __future__ import annotations

import json

from .json_cost import count_values

MAX_PAGE_BYTES = 4 << 20
MAX_PAGE_VALUES = 50_000
"""An agent reads 200,000 values; the last row of a page may have 131,072, which is a number and a comma each."""
VALUE_BYTES = 100
"""What a value takes in memory, on the average of the densest JSON."""


class PageSize:
    """The size of the rows of a page so far."""

    def __init__(self, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = self._values = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._max_bytes or self._values >= MAX_PAGE_VALUES

    def add(self, *values: str | None) -> None:
        """Count a row with this JSON. Each value follows one of the characters that are counted."""
        for value in values:
            if value is not None:
                self._bytes += len(value.encode(errors="replace"))  # bytes that were no UTF-8 are surrogates
                self._values += 1 + value.count(",") + value.count("[") + value.count("{")


def memory_of(value: object) -> int:
    """Return about how many bytes of memory a JSON value takes. A character beyond ASCII may widen all of its text."""
    text = json.dumps(value, ensure_ascii=False)
    width = 1 if text.isascii() else 4
    return len(text) * width + VALUE_BYTES * count_values(text.encode(errors="replace"))
