"""All streams of one machine: handle the guest's packets, and send packets to the guest.

The number of streams in each direction, the 256 KiB buffer of a stream and the queue of refusals are bounded. While the
queue of refusals is full, nothing is read from the guest until it accepts packets again, as the standard requires.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from functools import partial

from . import packet
from .handshake import HostHandshake
from .loop import READ, WRITE, PollLoop
from .packet import Header
from .rx_queue import RxQueue
from .stream import STREAM_BUFFER_BYTES, Key, State, VsockStream

MOST_FROM_GUEST = 256
MOST_REFUSALS = 256
CLOSE_SECONDS = 10.0
"""How long a stream that is closed on one side may take to close on the other."""
_READS_PER_TURN = 16
"""Most packets that are read from one socket before the others get their turn."""
_OPS = (packet.REQUEST, packet.RESPONSE, packet.CREDIT_UPDATE, packet.SHUTDOWN)
"""Control packets, in the order in which they are sent."""


class Mux:
    def __init__(self, loop: PollLoop, rx_queue: RxQueue, cid: int, uds: str) -> None:
        self._loop = loop
        self._rx_queue = rx_queue
        self._cid = cid
        self._uds = uds
        self._streams: dict[Key, VsockStream] = {}
        self._from_guest = 0
        self._op_queue: deque[VsockStream] = deque()
        self._paused: deque[VsockStream] = deque()
        self._refusals: deque[Key] = deque()
        self.host_handshake = HostHandshake(loop, self._is_used, self._open_from_host)
        self._handlers: dict[int, Callable[[VsockStream, Header, list[memoryview]], None]] = {
            packet.RESPONSE: self._on_response,
            packet.RST: lambda stream, _header, _data: self._close_stream(stream),
            packet.SHUTDOWN: self._on_shutdown,
            packet.RW: self._on_data,
            packet.CREDIT_UPDATE: lambda stream, _header, _data: self._update_watch(stream),
            packet.CREDIT_REQUEST: lambda stream, _header, _data: self._queue_op(stream, packet.CREDIT_UPDATE),
        }

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def accepting(self) -> bool:
        """Whether packets of the guest may be processed."""
        return len(self._refusals) < MOST_REFUSALS

    def reset(self) -> None:
        """Drop all streams, because the guest has reset the device and no longer knows them."""
        for stream in tuple(self._streams.values()):
            self._close_stream(stream)
        for queue in (self._refusals, self._op_queue, self._paused):
            queue.clear()

    # ---------------------------------------------------------------- from the guest

    def handle_packet(self, header: Header, data: list[memoryview] | None) -> None:
        """Handle a packet of the guest. `data` is None if the packet was shorter than its header says."""
        if header.source_cid != self._cid:
            return
        key = (header.source_port, header.target_port)
        known = header.target_cid == packet.HOST_CID and header.kind == packet.STREAM and data is not None
        stream = self._streams.get(key)
        if stream is None:
            if known and header.op == packet.REQUEST:
                self._open_from_guest(key, header)
            elif header.op != packet.RST:
                self._refusals.append(key)
            return
        stream.peer_buf_alloc = header.buf_alloc
        stream.peer_fwd_cnt = header.fwd_cnt
        act = self._handlers.get(header.op)
        if not known or act is None:
            self._reset_stream(stream)
        else:
            act(stream, header, data or [])

    def _open_from_guest(self, key: Key, header: Header) -> None:
        if self._from_guest >= MOST_FROM_GUEST:
            self._refusals.append(key)
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(f"{self._uds}_{key[1]}")
        except OSError:  # no program listens, or its backlog is full
            sock.close()
            self._refusals.append(key)
            return
        stream = self._add_stream(sock, "open", key)
        stream.peer_buf_alloc = header.buf_alloc
        stream.peer_fwd_cnt = header.fwd_cnt
        self._from_guest += 1
        self._queue_op(stream, packet.RESPONSE)
        self._update_watch(stream)

    def _on_response(self, stream: VsockStream, _header: Header, _data: list[memoryview]) -> None:
        if stream.state != "asked":
            self._reset_stream(stream)
            return
        if stream.timer is not None:
            stream.timer.cancel()
        stream.state = "open"
        stream.out_buffer += b"OK %d\n" % stream.key[1]
        stream.own_bytes = len(stream.out_buffer)
        self._update_watch(stream)

    def _on_data(self, stream: VsockStream, header: Header, data: list[memoryview]) -> None:
        try:
            fine = stream.state == "open" and not stream.shutdown_flags & packet.NO_MORE_SEND
            if not fine or not stream.deliver(data, header.length):
                self._reset_stream(stream)
                return
        except OSError:
            self._reset_stream(stream)
            return
        if stream.credit_due:
            self._queue_op(stream, packet.CREDIT_UPDATE)
        self._update_watch(stream)

    def _on_shutdown(self, stream: VsockStream, header: Header, _data: list[memoryview]) -> None:
        stream.shutdown_flags |= header.flags & 3
        self._start_close_timer(stream)
        if not stream.out_buffer:
            self._on_drained(stream)
        else:
            self._update_watch(stream)

    def _on_drained(self, stream: VsockStream) -> None:
        """Close what the guest has closed, now that the host's program has received all data."""
        if stream.shutdown_flags == packet.NO_MORE_SEND | packet.NO_MORE_RECEIVE:
            self._reset_stream(stream)
            return
        if stream.shutdown_flags & packet.NO_MORE_SEND:
            try:
                stream.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self._reset_stream(stream)
                return
        self._update_watch(stream)

    # ---------------------------------------------------------------- from the host

    def _is_used(self, key: Key) -> bool:
        return key in self._streams

    def _open_from_host(self, sock: socket.socket, key: Key) -> VsockStream:
        """Open a stream from a program of the host to a port of the guest."""
        stream = self._add_stream(sock, "asked", key)
        self._queue_op(stream, packet.REQUEST)
        return stream

    def _on_socket_ready(self, stream: VsockStream, events: int) -> None:
        if events & WRITE and stream.out_buffer:
            try:
                stream.drain()
            except OSError:
                self._reset_stream(stream)
                return
            if stream.credit_due:
                self._queue_op(stream, packet.CREDIT_UPDATE)
            if not stream.out_buffer and stream.shutdown_flags:
                self._on_drained(stream)
        if events & READ and stream.events & READ and stream.key in self._streams:
            self._read_socket(stream)
        if stream.key in self._streams:
            self._update_watch(stream)

    def _read_socket(self, stream: VsockStream) -> None:
        """Read from the socket into the guest's buffers, as far as it has buffers and has given credit."""
        self.flush()
        for _ in range(_READS_PER_TURN):
            if not stream.credit:
                return
            if stream.owed_ops or not self._rx_queue.has_buffers:
                stream.paused = True
                self._paused.append(stream)
                return
            try:
                count, buffers, head = self._rx_queue.receive_from(
                    stream.sock, min(stream.credit, packet.LONGEST_PAYLOAD)
                )
            except BlockingIOError:
                return
            except OSError:
                self._reset_stream(stream)
                return
            if not count:
                stream.host_ended = True
                self._queue_op(stream, packet.SHUTDOWN)
                self._start_close_timer(stream)
                return
            self._rx_queue.finish_packet(self._header(stream, packet.RW, count), count, buffers, head)
            stream.tx_cnt = (stream.tx_cnt + count) & packet.U32

    # ---------------------------------------------------------------- to the guest

    def flush(self) -> None:
        """Send waiting refusals and control packets, as far as the guest has buffers."""
        while self._refusals and self._rx_queue.has_buffers:
            self._rx_queue.put_packet(self._reset_packet(self._refusals.popleft()))
        while self._op_queue and self._rx_queue.has_buffers:
            stream = self._op_queue[0]
            op = next((one for one in _OPS if stream.owed_ops & 1 << one), None)
            if op is None:
                stream.queued = False
                self._op_queue.popleft()
                continue
            stream.owed_ops &= ~(1 << op)
            self._rx_queue.put_packet(self._header(stream, op))

    def resume(self) -> None:
        """Flush, then let streams that waited for the guest's buffers read again."""
        self.flush()
        if self._refusals or self._op_queue or not self._paused or not self._rx_queue.has_buffers:
            return
        waiting = self._paused
        self._paused = deque()
        for stream in waiting:
            stream.paused = False
            if self._streams.get(stream.key) is stream:
                self._update_watch(stream)

    def _queue_op(self, stream: VsockStream, op: int) -> None:
        stream.owed_ops |= 1 << op
        if not stream.queued:
            stream.queued = True
            self._op_queue.append(stream)

    def _header(self, stream: VsockStream, op: int, length: int = 0) -> bytes:
        flags = packet.NO_MORE_RECEIVE | packet.NO_MORE_SEND if op == packet.SHUTDOWN else 0
        stream.last_fwd_cnt = stream.fwd_cnt
        guest, host = stream.key
        addresses = (packet.HOST_CID, self._cid, host, guest)
        return packet.HEADER.pack(*addresses, length, packet.STREAM, op, flags, STREAM_BUFFER_BYTES, stream.fwd_cnt)

    def _reset_packet(self, key: Key) -> bytes:
        addresses = (packet.HOST_CID, self._cid, key[1], key[0])
        return packet.HEADER.pack(*addresses, 0, packet.STREAM, packet.RST, 0, 0, 0)

    # ---------------------------------------------------------------- the streams

    def _add_stream(self, sock: socket.socket, state: State, key: Key) -> VsockStream:
        stream = self._streams[key] = VsockStream(sock, state)
        stream.key = key
        if state == "asked":
            stream.timer = self._loop.call_later(CLOSE_SECONDS, partial(self._expire, stream))
        return stream

    def _update_watch(self, stream: VsockStream) -> None:
        """Watch the socket for the operations that are possible now."""
        events = WRITE if stream.out_buffer else 0
        reads = stream.state == "open" and not stream.host_ended and not stream.paused
        if reads and not stream.shutdown_flags & packet.NO_MORE_RECEIVE and stream.credit:
            events |= READ
        if events != stream.events:
            stream.events = events
            self._loop.watch(stream.sock.fileno(), events, partial(self._on_socket_ready, stream))

    def _start_close_timer(self, stream: VsockStream) -> None:
        """Limit the time until the other side closes, once one side has."""
        if stream.timer is not None:
            stream.timer.cancel()
        stream.timer = self._loop.call_later(CLOSE_SECONDS, partial(self._expire, stream))

    def _expire(self, stream: VsockStream) -> None:
        if self._streams.get(stream.key) is stream:
            self._reset_stream(stream)

    def _reset_stream(self, stream: VsockStream) -> None:
        """Close the stream on both sides."""
        self._refusals.append(stream.key)
        self._close_stream(stream)

    def _close_stream(self, stream: VsockStream) -> None:
        if self._streams.pop(stream.key, None) is None:
            return
        if stream.timer is not None:
            stream.timer.cancel()
        if not self.host_handshake.discard(stream):
            self._from_guest -= 1
        stream.owed_ops = 0
        stream.out_buffer.clear()
        self._loop.forget(stream.sock.fileno())
        stream.sock.close()
