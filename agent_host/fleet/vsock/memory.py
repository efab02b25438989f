"""The guest's memory as the monitor shares it. What lies outside is never touched, whatever address the guest names."""

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
    """An address or a region that cannot be used."""


@dataclass(frozen=True, slots=True)
class Region:
    guest_address: int
    size: int
    user_address: int
    """Where it lies in the monitor's address space: rings are named that way."""
    view: memoryview = field(repr=False)


class GuestMemory:
    """All regions; at most eight, so a look-up is a short walk."""

    def __init__(self, regions: list[Region] | None = None) -> None:
        self._regions = regions or []

    def at_guest(self, address: int, size: int) -> memoryview:
        """Raises BadMemory unless all of it lies in one region."""
        for region in self._regions:
            start = address - region.guest_address
            if 0 <= start <= region.size - size:
                return region.view[start : start + size]
        raise BadMemory(f"guest address {address:#x} + {size}")

    def at_user(self, address: int, size: int) -> memoryview:
        """The same for the monitor's addresses."""
        for region in self._regions:
            start = address - region.user_address
            if 0 <= start <= region.size - size:
                return region.view[start : start + size]
        raise BadMemory(f"monitor address {address:#x} + {size}")


def map_region(handle: int, guest: int, size: int, user: int, offset: int) -> Region:
    """Raises BadMemory for a file that is too small, or could become so: touching what is gone would kill us."""
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
