"""The guest's memory, as the monitor shares it. No address that the guest names leads outside of it."""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass, field

MOST_REGIONS = 8
LARGEST_REGION = 1 << 40
_SHRINK = getattr(fcntl, "F_SEAL_SHRINK", 2)
_GET_SEALS = getattr(fcntl, "F_GET_SEALS", 1034)


class BadMemory(Exception):
    """An address or a region is not usable."""


@dataclass(frozen=True, slots=True)
class Region:
    guest_address: int
    size: int
    user_address: int
    """Its address in the monitor's address space, which the addresses of rings refer to."""
    view: memoryview = field(repr=False)


class GuestMemory:
    """All regions of one guest. There are at most eight, so a linear search is fast."""

    def __init__(self, regions: list[Region] | None = None) -> None:
        self._regions = regions or []

    def at_guest(self, address: int, size: int) -> memoryview:
        """Return a view of the memory at a guest address. Raises BadMemory unless it is all in one region."""
        for region in self._regions:
            start = address - region.guest_address
            if 0 <= start <= region.size - size:
                return region.view[start : start + size]
        raise BadMemory(f"guest address {address:#x} + {size}")

    def at_user(self, address: int, size: int) -> memoryview:
        """Return a view of the memory at a monitor address. Raises BadMemory unless it is all in one region."""
        for region in self._regions:
            start = address - region.user_address
            if 0 <= start <= region.size - size:
                return region.view[start : start + size]
        raise BadMemory(f"monitor address {address:#x} + {size}")


def map_region(handle: int, guest: int, size: int, user: int, offset: int) -> Region:
    """Map a region from a file. Raises BadMemory if the file is too small or could shrink, because access to memory
    beyond the end of the file would kill this process."""
    if not 0 < size <= LARGEST_REGION or not 0 <= offset <= LARGEST_REGION:
        raise BadMemory(f"a region of {size} bytes at {offset}")
    if os.fstat(handle).st_size < offset + size:
        raise BadMemory("a region is larger than its file")
    try:
        sealed = fcntl.fcntl(handle, _GET_SEALS) & _SHRINK
    except OSError:
        sealed = 0
    if not sealed:
        raise BadMemory("a region's file could shrink: it must be a memfd that is sealed against that")
    whole = mmap.mmap(handle, offset + size)
    return Region(guest, size, user, memoryview(whole)[offset : offset + size])
