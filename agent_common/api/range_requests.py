"""Parse the `Range` header (RFC 9110, section 14): one range of a file. Several or invalid ranges, and a
header of more than 1024 characters, give the whole file."""

from __future__ import annotations

import re

MAX_HEADER_LENGTH = 1024
_ONE = re.compile(r"bytes\s*+=\s*+(\d{0,18}+)\s*+-\s*+(\d{0,18}+)\s*+", re.IGNORECASE | re.ASCII)


class RangeNotSatisfiable(Exception):
    """Raised if the range is outside the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the end (exclusive); None: the whole file. Raises RangeNotSatisfiable."""
    found = _ONE.fullmatch(header) if header is not None and len(header) <= MAX_HEADER_LENGTH else None
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        last = int(found[2])
        if last == 0 or size == 0:
            raise RangeNotSatisfiable
        return max(0, size - last), size
    start = int(found[1])
    end = min(int(found[2]) + 1, size) if found[2] else size
    if found[2] and int(found[2]) < start:
        return None
    if start >= size:
        raise RangeNotSatisfiable
    return start, end
