"""A split virtqueue, from the device's side. The guest may write anything into it at any time.

Indexes are accessed through memoryview casts to native 16 and 32 bits, which are single loads and stores. `struct`
works byte by byte, so the guest could see half-written values.
"""

from __future__ import annotations

import struct
import threading

from .memory import BadMemory, GuestMemory

MAX_RING_SIZE = 1024
_DESCRIPTOR = struct.Struct("<QIHH")
_NEXT = 1
_WRITE = 2
_INDIRECT = 4
_NO_INTERRUPT = 1
Chain = tuple[int, list[memoryview]]
"""The index of a descriptor chain's head, and its buffers in order."""


class RingBroken(Exception):
    """The guest has broken the virtio rules. Its rings are ignored until it resets the device."""


class Ring:
    def __init__(self, memory: GuestMemory, size: int, addresses: tuple[int, int, int], first: int) -> None:
        """`addresses`: of the descriptors, the used and the available ring, in the monitor's address space. `first`:
        the index to start at. Raises BadMemory if size or addresses are invalid."""
        if not 0 < size <= MAX_RING_SIZE or size & (size - 1):
            raise BadMemory(f"a ring of {size} descriptors")
        descriptors, used, available = addresses
        self.size = size
        self.next = first & 0xFFFF
        self._memory = memory
        self._descriptors = memory.at_user(descriptors, 16 * size)
        self._available = memory.at_user(available, 4 + 2 * size).cast("H")
        whole = memory.at_user(used, 4 + 8 * size)
        self._used = whole[:4].cast("H")
        self._entries = whole[4:].cast("I")
        self._used_index = self._used[1]
        self._dirty = False
        self._barrier = threading.Lock()

    def pending(self) -> int:
        """Return the number of chains that the guest has made available. Raises RingBroken."""
        count = (self._available[1] - self.next) & 0xFFFF
        if count > self.size:
            raise RingBroken(f"{count} chains in a ring of {self.size}")
        return count

    def peek(self, *, writable: bool) -> Chain:
        """Return the next chain without consuming it; there must be one. Raises RingBroken."""
        head = index = self._available[2 + (self.next & (self.size - 1))]
        buffers: list[memoryview] = []
        forbidden = _INDIRECT if writable else _INDIRECT | _WRITE
        wanted = _WRITE if writable else 0
        for _ in range(self.size):
            if index >= self.size:
                raise RingBroken(f"descriptor {index} in a ring of {self.size}")
            address, length, flags, index = _DESCRIPTOR.unpack_from(self._descriptors, 16 * index)
            if flags & forbidden or flags & wanted != wanted:
                raise RingBroken(f"a descriptor has the flags {flags:#x}")
            try:
                buffers.append(self._memory.at_guest(address, length))
            except BadMemory as error:
                raise RingBroken(str(error)) from None
            if not flags & _NEXT:
                return head, buffers
        raise RingBroken("a chain of descriptors has no end")

    def return_chain(self, head: int, written: int) -> None:
        """Consume the chain that `peek` returned, and give it back to the guest with `written` bytes."""
        self.next = (self.next + 1) & 0xFFFF
        at = 2 * (self._used_index & (self.size - 1))
        self._entries[at] = head
        self._entries[at + 1] = written
        self._used_index = (self._used_index + 1) & 0xFFFF
        self._used[1] = self._used_index
        self._dirty = True

    def interrupt_due(self) -> bool:
        """Whether chains were given back since the last call and the guest wants an interrupt for that."""
        if not self._dirty:
            return False
        self._dirty = False
        with self._barrier:  # a full memory fence: publish the index before reading the guest's flag
            pass
        return not self._available[0] & _NO_INTERRUPT
