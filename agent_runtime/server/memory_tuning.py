"""Keep the memory of a runtime small: many may share a machine."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8
"""Of mallopt(3)."""


def limit_malloc_arenas() -> None:
    """Threads share one heap, in place of one for each that is never as full. Before any thread is there."""
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
