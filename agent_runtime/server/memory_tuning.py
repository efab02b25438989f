"""Keep the memory of a runtime small: many may share a machine."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""Of mallopt(3)."""
_LARGE_BLOCK = 128 * 1024


def tune_malloc() -> None:
    """Have threads share one heap, in place of one for each that is never as full, and large blocks stay out of it, so
    that they go back to the system; left alone, malloc puts ever larger ones into it. Before any thread is there."""
    with suppress(AttributeError):  # not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)
