"""How much JSON that others have written a page may hold."""

from __future__ import annotations

from .json_cost import count_values

MAX_PAGE_BYTES = 4 << 20
MAX_PAGE_VALUES = 50_000
"""An agent reads 200,000 values; the last row of a page may have 131,072, which is a number and a comma each."""


class PageSize:
    """The size of the rows of a page so far."""

    def __init__(self, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = self._values = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._max_bytes or self._values >= MAX_PAGE_VALUES

    def add(self, *values: str | None) -> None:
        """Count a row with this JSON."""
        for value in values:
            if value is not None:
                data = value.encode(errors="replace")  # bytes that were no UTF-8 are surrogates
                self._bytes += len(data)
                self._values += 1 + count_values(data)
