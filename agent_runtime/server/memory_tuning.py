"""Keep the memory of a runtime small: many may share a machine."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8
_MMAP_THRESHOLD = -3
"""Of mallopt(3)."""
_LARGE_BLOCK = 128 * 1024


def tune_malloc() -> None:
    """Let all threads share one heap; one heap for each would be filled less. Large blocks stay outside of it, so that
    their memory goes back to the system: left alone, malloc puts ever larger ones into it. Call it before any thread
    starts."""
    with suppress(AttributeError):  # not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)
