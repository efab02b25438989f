"""Leave out what a caller has not given."""

from __future__ import annotations

from typing import Any


def without_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not None, for a query or a body."""
    return {name: value for name, value in values.items() if value is not None}
