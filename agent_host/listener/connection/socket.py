"""One connection: split received bytes into lines, and write lines. Their meaning is left to the handler.

A connection is never half-closed, because the bridge between host and guest then closes both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import Protocol, cast

from agent_common.clock import Clock
from agent_common.protocol.work import FrameFault, FrameTooLarge, Lines

from ..limits import ListenerLimits
from ..timers import Timer, Timers

_HIGH_WATER = 256 << 10
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class LineHandler(Protocol):
    """Handles the lines of a connection."""

    def on_line(self, line: bytes | FrameFault) -> None: ...

    def on_lost(self, reason: str) -> None:
        """Called once, when the connection has closed."""
        ...


class AgentConnection(asyncio.Protocol):
    """The asyncio protocol of one connection: gives lines to its handler, and writes lines in order."""

    __slots__ = (
        "__weakref__",
        "_clock",
        "_flushing",
        "_frozen",
        "_held_lines",
        "_holding",
        "_limits",
        "_lines",
        "_outbox",
        "_outbox_bytes",
        "_paused",
        "_reason",
        "_stall_timer",
        "_timers",
        "_transport",
        "closed",
        "handler",
        "last_received_at",
        "number",
        "received_bytes",
    )

    def __init__(
        self, number: int, handler: LineHandler, *, limits: ListenerLimits, timers: Timers, clock: Clock
    ) -> None:
        self.number = number
        self.handler = handler
        self._limits = limits
        self._timers = timers
        self._clock = clock
        self._lines = Lines(limits.first_line_bytes)
        self._transport: asyncio.Transport | None = None
        self._outbox: deque[tuple[bytes, bool]] = deque()
        self._outbox_bytes = 0
        self._held_lines: deque[bytes | FrameFault] = deque()
        self._holding = self._paused = self._flushing = self._frozen = False
        self._stall_timer: Timer | None = None
        self._reason: str | None = None
        self.closed = False
        self.received_bytes = 0
        self.last_received_at = clock.monotonic()
        """Monotonic time of the last byte received, in seconds."""

    def set_max_line(self, max_line: int) -> None:
        """Allow longer lines, once the peer has proved who it is."""
        self._lines.soft = max_line

    # ---------------------------------------------------------------- in

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.closed:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for name, value in _KEEPALIVE:
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.last_received_at = self._clock.monotonic()
        try:
            for line in self._lines.feed(data):
                self._deliver_line(line)
        except FrameTooLarge as error:
            self.close(str(error))

    def _deliver_line(self, line: bytes | FrameFault) -> None:
        if self.closed:
            return
        if self._holding:
            self._held_lines.append(line)
        else:
            self.handler.on_line(line)

    @property
    def holding(self) -> bool:
        """Whether reading is paused and received lines are kept."""
        return self._holding

    def hold(self) -> None:
        """Stop reading and keep received lines until `release`, while the disk is slow or the peer is too fast."""
        self._holding = True
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def release(self) -> None:
        """Give the kept lines to the handler, and read again."""
        self._holding = False
        while self._held_lines and not self._holding and not self.closed:
            self.handler.on_line(self._held_lines.popleft())
        if not self._holding and not self.closed and self._transport is not None:
            self._transport.resume_reading()

    def eof_received(self) -> bool | None:
        self._reason = self._reason or "the peer closed the connection"
        return False  # a half-closed connection is of no use: close both directions

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._outbox.clear()
        self._held_lines.clear()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self.handler.on_lost(self._reason or (str(exc) if exc else "the connection broke"))

    # ---------------------------------------------------------------- out

    def send(self, line: bytes, *, droppable: bool = False) -> None:
        """Write a line, in order. If the peer reads too slowly, drop droppable lines first, then the connection."""
        if self.closed:
            return
        self._outbox.append((line, droppable))
        self._outbox_bytes += len(line)
        if len(self._outbox) > self._limits.queue_frames or self._outbox_bytes > self._limits.queue_bytes:
            self._drop_queued()
        if not self._flushing and not self._paused:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _drop_queued(self) -> None:
        if not self._paused:
            self._flush()
            return
        kept = deque(entry for entry in self._outbox if not entry[1])
        self._outbox = kept
        self._outbox_bytes = sum(len(line) for line, _ in kept)
        if len(kept) > self._limits.queue_frames or self._outbox_bytes > self._limits.queue_bytes:
            self.abort("the peer does not read, and its queue is full")

    def _flush(self) -> None:
        self._flushing = False
        while self._outbox and not self._paused and not self.closed and self._transport is not None:
            piece: list[bytes] = []
            size = 0
            while self._outbox and size < _HIGH_WATER:
                line, _ = self._outbox.popleft()
                piece.append(line)
                size += len(line)
            self._outbox_bytes -= size
            self._transport.write(b"".join(piece))

    def pause_writing(self) -> None:
        self._paused = True
        self._stall_timer = self._timers.call_later(self._limits.stall_timeout, self._on_stalled)
        if self._frozen:
            self._stall_timer.freeze()

    def resume_writing(self) -> None:
        self._paused = False
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self._flush()

    def freeze(self) -> None:
        """Do not count the time until `thaw` as a stall: the peer's machine is paused."""
        self._frozen = True
        if self._stall_timer is not None:
            self._stall_timer.freeze()

    def thaw(self) -> None:
        self._frozen = False
        if self._stall_timer is not None:
            self._stall_timer.thaw()

    def _on_stalled(self) -> None:
        self.abort(f"the peer has read nothing for {self._limits.stall_timeout:g} s")

    # ---------------------------------------------------------------- end

    def hand_over(self) -> asyncio.Transport:
        """Give the transport to another protocol, once it is connected. Nothing is read or written here any more."""
        assert self._transport is not None  # noqa: S101
        self.closed = True
        return self._transport

    def close(self, reason: str) -> None:
        """Close once all queued lines are written, at the latest after `close_timeout`."""
        if self.closed:
            return
        self._flush()
        self.closed = True
        self._reason = self._reason or reason
        if self._transport is None:
            return  # not connected yet: `connection_made` ends it
        self._transport.close()
        if self._transport.get_write_buffer_size():
            transport = self._transport
            self._timers.call_later(self._limits.close_timeout, transport.abort)

    def abort(self, reason: str) -> None:
        """Close at once, and drop the lines that are not written."""
        self.closed = True
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()
