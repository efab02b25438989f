"""The vsock device: its three rings, and the processing of packets when the guest signals one."""

from __future__ import annotations

import os
from collections.abc import Callable

from .loop import READ, PollLoop
from .memory import BadMemory, GuestMemory
from .mux import Mux
from .packet import HEADER, Header, parse
from .ring import Ring, RingBroken
from .rx_queue import RxQueue

RECEIVE = 0
TRANSMIT = 1
RINGS = 3
"""Receive, transmit and events. The device sends no events."""
_PACKETS_A_TURN = 64
_ONE = (1).to_bytes(8, "little")


class Slot:
    """The monitor's settings for one ring, which starts once they are complete."""

    def __init__(self) -> None:
        self.size = self.first = 0
        self.addresses: tuple[int, int, int] | None = None
        self.kick = self.call = -1
        self.enabled = True
        self.ring: Ring | None = None


class Device:
    def __init__(self, loop: PollLoop, cid: int, uds: str, log: Callable[[str], None]) -> None:
        self._loop = loop
        self._log = log
        self._rx_queue = RxQueue()
        self.mux = Mux(loop, self._rx_queue, cid, uds)
        self.memory = GuestMemory()
        self.slots = [Slot() for _ in range(RINGS)]
        self._broken = False

    # ---------------------------------------------------------------- the monitor's side

    def set_memory(self, memory: GuestMemory) -> None:
        """Use a new mapping of the guest's memory. Raises BadMemory if a ring is not in it."""
        self.memory = memory
        for slot in self.slots:
            if slot.ring is not None:
                slot.first = slot.ring.next
                self._start(slot)

    def set_kick(self, number: int, handle: int) -> None:
        """Set the eventfd by which the guest signals that a ring has data, and start the ring. Raises BadMemory if the
        ring's addresses are invalid."""
        slot = self.slots[number]
        self._drop_kick(slot)
        if handle < 0:
            return
        os.set_blocking(handle, False)
        slot.kick = handle
        self._start(slot)
        self._loop.watch(handle, READ, lambda _events: self._drain_kick(handle))

    def set_call(self, number: int, handle: int) -> None:
        """Set the eventfd that interrupts the guest; -1 means none."""
        slot = self.slots[number]
        if slot.call >= 0:
            os.close(slot.call)
        if handle >= 0:
            os.set_blocking(handle, False)
        slot.call = handle

    def stop_ring(self, number: int) -> int:
        """Stop a ring, because the guest is being reset. Returns the index at which it would have continued."""
        slot = self.slots[number]
        first = slot.ring.next if slot.ring is not None else slot.first
        self._drop_kick(slot)
        slot.ring = None
        slot.first = first
        self._rx_queue.ring = self.slots[RECEIVE].ring
        self._broken = False
        self.mux.reset()
        return first

    def reset(self) -> None:
        """Forget all settings, because the monitor has disconnected."""
        for number in range(RINGS):
            self.stop_ring(number)
            self.set_call(number, -1)
            self.slots[number] = Slot()
        self.memory = GuestMemory()

    def _start(self, slot: Slot) -> None:
        if slot.addresses is None:
            raise BadMemory("a ring has no addresses")
        slot.ring = Ring(self.memory, slot.size, slot.addresses, slot.first)
        self._rx_queue.ring = self.slots[RECEIVE].ring

    def _drop_kick(self, slot: Slot) -> None:
        if slot.kick >= 0:
            self._loop.forget(slot.kick)
            os.close(slot.kick)
            slot.kick = -1

    # ---------------------------------------------------------------- the guest's side

    def process_rings(self) -> bool:
        """Process packets without blocking, up to a fixed number. Returns True if there are more."""
        if self._broken:
            return False
        try:
            more = self._process_transmit()
            self.mux.resume()
            self._interrupt_guest()
        except RingBroken as why:
            self.fail(why)
            return False
        return more

    def _process_transmit(self) -> bool:
        slot = self.slots[TRANSMIT]
        ring = slot.ring
        if ring is None or not slot.enabled:
            return False
        for _ in range(_PACKETS_A_TURN):
            if not self.mux.accepting:
                self.mux.flush()
            if not self.mux.accepting or not ring.pending():
                return False
            head, buffers = ring.peek(writable=False)
            header, data = read_packet(buffers)
            if header is not None:
                self.mux.handle_packet(header, data)
            ring.return_chain(head, 0)
        return ring.pending() > 0

    def _interrupt_guest(self) -> None:
        for slot in self.slots:
            if slot.ring is not None and slot.ring.interrupt_due() and slot.call >= 0:
                try:
                    os.write(slot.call, _ONE)
                except BlockingIOError:  # the counter is full: an interrupt is pending anyway
                    continue

    def _drain_kick(self, handle: int) -> None:
        """Clear the eventfd. `process_rings` then does the work, once for all events of one poll."""
        try:
            os.read(handle, 8)
        except BlockingIOError:
            return

    def fail(self, why: RingBroken) -> None:
        """Stop processing and drop all streams until the guest resets the device."""
        self._broken = True
        self._log(f"the guest's rings are broken: {why}")
        self.mux.reset()


def read_packet(buffers: list[memoryview]) -> tuple[Header | None, list[memoryview] | None]:
    """Return header and payload of a packet. The header is None if the packet is too short for one; the payload is None
    if it is shorter than the header says."""
    raw = bytearray()
    rest: list[memoryview] = []
    for buffer in buffers:
        missing = HEADER.size - len(raw)
        raw += buffer[:missing]
        if len(buffer) > missing:
            rest.append(buffer[missing:])
    if len(raw) < HEADER.size:
        return None, None
    header = parse(bytes(raw))
    return header, _slice_exactly(rest, header.length)


def _slice_exactly(buffers: list[memoryview], length: int) -> list[memoryview] | None:
    found: list[memoryview] = []
    for buffer in buffers:
        if not length:
            break
        found.append(buffer[:length])
        length -= len(found[-1])
    return None if length else found
