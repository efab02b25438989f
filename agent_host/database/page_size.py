"""How much JSON a page may hold, so that an agent can read it whatever others have written."""

from __future__ import annotations

MAX_PAGE_BYTES = 4 << 20
MAX_PAGE_VALUES = 50_000
"""An agent reads 200,000 values; the last row of a page may have 131,072, which is a number and a comma each."""


class PageSize:
    """The size of the rows of a page so far."""

    def __init__(self) -> None:
        self._bytes = self._values = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= MAX_PAGE_BYTES or self._values >= MAX_PAGE_VALUES

    def add(self, value: str | None) -> None:
        """Count a row with this JSON. Each value follows one of the characters that are counted."""
        if value is not None:
            self._bytes += len(value.encode())
            self._values += 1 + value.count(",") + value.count("[") + value.count("{")
