"""The device itself: three rings, and what happens when the guest kicks them."""

from __future__ import annotations

import os
from collections.abc import Callable

from .loop import READ, PollLoop
from .memory import BadMemory, GuestMemory
from .mux import Mux
from .packet import HEADER, Header, parse
from .ring import Ring, RingBroken
from .rx_queue import RxQueue

RECEIVE, TRANSMIT = 0, 1
RINGS = 3
"""The third is for events; there are none."""
_PACKETS_A_TURN = 64
_ONE = (1).to_bytes(8, "little")


class Slot:
    """What the monitor has told of one ring; it runs when all of it is there."""

    def __init__(self) -> None:
        self.size = self.first = 0
        self.addresses: tuple[int, int, int] | None = None
        self.kick = self.call = -1
        self.enabled = True
        self.ring: Ring | None = None


class Device:
    def __init__(self, loop: PollLoop, cid: int, uds: str, log: Callable[[str], None]) -> None:
        self._loop, self._log = loop, log
        self._rx_queue = RxQueue()
        self.mux = Mux(loop, self._rx_queue, cid, uds)
        self.memory = GuestMemory()
        self.slots = [Slot() for _ in range(RINGS)]
        self._broken = False

    # ---------------------------------------------------------------- the monitor's side

    def set_memory(self, memory: GuestMemory) -> None:
        """The guest's memory lies elsewhere now. Raises BadMemory."""
        self.memory = memory
        for slot in self.slots:
            if slot.ring is not None:
                slot.first = slot.ring.next
                self._start(slot)

    def set_kick(self, number: int, handle: int) -> None:
        """The file by which the guest says that a ring has something; the ring runs from now on. Raises BadMemory."""
        slot = self.slots[number]
        self._drop_kick(slot)
        if handle < 0:
            return
        os.set_blocking(handle, False)
        slot.kick = handle
        self._start(slot)
        self._loop.watch(handle, READ, lambda _events: self._drain_kick(handle))

    def set_call(self, number: int, handle: int) -> None:
        """The file by which the guest is told."""
        slot = self.slots[number]
        if slot.call >= 0:
            os.close(slot.call)
        if handle >= 0:
            os.set_blocking(handle, False)
        slot.call = handle

    def stop_ring(self, number: int) -> int:
        """Takes nothing from that ring any more; where it would have gone on. The guest is being reset."""
        slot = self.slots[number]
        first = slot.ring.next if slot.ring is not None else slot.first
        self._drop_kick(slot)
        slot.ring, slot.first = None, first
        self._rx_queue.ring = self.slots[RECEIVE].ring
        self._broken = False
        self.mux.reset()
        return first

    def reset(self) -> None:
        """The monitor has gone."""
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
        """Everything that can be done without waiting, but not more than a turn's share: True when there is more."""
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
                except BlockingIOError:  # it has been told so often that the counter is full
                    continue

    def _drain_kick(self, handle: int) -> None:
        """What follows is done by `process_rings`, once for all of a turn."""
        try:
            os.read(handle, 8)
        except BlockingIOError:
            return

    def fail(self, why: RingBroken) -> None:
        """The guest is not believed any more before it begins anew."""
        self._broken = True
        self._log(f"the guest's rings are broken: {why}")
        self.mux.reset()


def read_packet(buffers: list[memoryview]) -> tuple[Header | None, list[memoryview] | None]:
    """Header and payload of what the guest has sent; no header: too short for one; no payload: it is not there."""
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
