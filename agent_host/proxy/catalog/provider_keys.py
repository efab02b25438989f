"""Read the providers' keys, which are used only as a header of upstream requests."""

from __future__ import annotations

import os
from pathlib import Path


def read_key(name: str) -> str | None:
    """Return the secret in variable `name`, or in the file that `{name}_FILE` names; None if neither is set."""
    if value := os.environ.get(name, "").strip():
        return value
    path = os.environ.get(f"{name}_FILE")
    try:
        return (Path(path).read_text().strip() or None) if path else None
    except (OSError, UnicodeDecodeError):
        return None
