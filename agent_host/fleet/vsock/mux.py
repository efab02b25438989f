"""All streams of one machine: what each packet of the guest means, and what the guest has to be told.

Bounds: so many streams from either side, 256 KiB for each, so many refusals that wait. When those are full nothing more
is taken from the guest until it takes what there is for it, as the standard says.
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
from .stream import ROOM, Key, State, VsockStream

MOST_FROM_GUEST = 256
MOST_REFUSALS = 256
CLOSE_SECONDS = 10.0
"""How long one that has ended on one side may take on the other."""
_PULLS = 16
"""Packets that one socket may fill before it is another's turn."""
_OPS = (packet.REQUEST, packet.RESPONSE, packet.CREDIT_UPDATE, packet.SHUTDOWN)
"""In the order in which they are told."""


class Mux:
    def __init__(self, loop: PollLoop, inbox: RxQueue, cid: int, uds: str) -> None:
        self._loop, self._inbox, self._cid, self._uds = loop, inbox, cid, uds
        self._streams: dict[Key, VsockStream] = {}
        self._from_guest = 0
        self._due: deque[VsockStream] = deque()
        self._paused: deque[VsockStream] = deque()
        self._refusals: deque[Key] = deque()
        self.greeter = HostHandshake(loop, self._taken, self._ask)
        self._acts: dict[int, Callable[[VsockStream, Header, list[memoryview]], None]] = {
            packet.RESPONSE: self._answered,
            packet.RST: lambda stream, _header, _data: self._close(stream),
            packet.SHUTDOWN: self._shut,
            packet.RW: self._data,
            packet.CREDIT_UPDATE: lambda stream, _header, _data: self._interest(stream),
            packet.CREDIT_REQUEST: lambda stream, _header, _data: self._owe(stream, packet.CREDIT_UPDATE),
        }

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def accepting(self) -> bool:
        """Whether more may be taken from the guest."""
        return len(self._refusals) < MOST_REFUSALS

    def reset(self) -> None:
        """The guest has begun anew: it knows nothing of what there was."""
        for stream in tuple(self._streams.values()):
            self._close(stream)
        for queue in (self._refusals, self._due, self._paused):
            queue.clear()

    # ---------------------------------------------------------------- from the guest

    def packet(self, header: Header, data: list[memoryview] | None) -> None:
        """What the guest has sent; without data its length was a lie."""
        if header.source_cid != self._cid:
            return
        key = (header.source_port, header.target_port)
        known = header.target_cid == packet.HOST_CID and header.kind == packet.STREAM and data is not None
        stream = self._streams.get(key)
        if stream is None:
            if known and header.op == packet.REQUEST:
                self._open(key, header)
            elif header.op != packet.RST:
                self._refusals.append(key)
            return
        stream.peer_room, stream.peer_taken = header.room, header.taken
        act = self._acts.get(header.op)
        if not known or act is None:
            self._break(stream)
        else:
            act(stream, header, data or [])

    def _open(self, key: Key, header: Header) -> None:
        if self._from_guest >= MOST_FROM_GUEST:
            self._refusals.append(key)
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(f"{self._uds}_{key[1]}")
        except OSError:  # nobody listens, or its queue is full
            sock.close()
            self._refusals.append(key)
            return
        stream = self._enter(sock, "open", key)
        stream.peer_room, stream.peer_taken = header.room, header.taken
        self._from_guest += 1
        self._owe(stream, packet.RESPONSE)
        self._interest(stream)

    def _answered(self, stream: VsockStream, _header: Header, _data: list[memoryview]) -> None:
        if stream.state != "asked":
            self._break(stream)
            return
        if stream.timer is not None:
            stream.timer.cancel()
        stream.state = "open"
        stream.out += b"OK %d\n" % stream.key[1]
        stream.unpaid = len(stream.out)
        self._interest(stream)

    def _data(self, stream: VsockStream, header: Header, data: list[memoryview]) -> None:
        try:
            fine = stream.state == "open" and not stream.shut & packet.NO_MORE_SEND
            if not fine or not stream.accept(data, header.length):
                self._break(stream)
                return
        except OSError:
            self._break(stream)
            return
        if stream.credit_due:
            self._owe(stream, packet.CREDIT_UPDATE)
        self._interest(stream)

    def _shut(self, stream: VsockStream, header: Header, _data: list[memoryview]) -> None:
        stream.shut |= header.flags & 3
        self._hurry(stream)
        if not stream.out:
            self._drained(stream)
        else:
            self._interest(stream)

    def _drained(self, stream: VsockStream) -> None:
        """The host's program has all; ends what the guest has ended."""
        if stream.shut == packet.NO_MORE_SEND | packet.NO_MORE_RECEIVE:
            self._break(stream)
            return
        if stream.shut & packet.NO_MORE_SEND:
            try:
                stream.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self._break(stream)
                return
        self._interest(stream)

    # ---------------------------------------------------------------- from the host

    def _taken(self, key: Key) -> bool:
        return key in self._streams

    def _ask(self, sock: socket.socket, key: Key) -> VsockStream:
        """A host's program wants the guest's port."""
        stream = self._enter(sock, "asked", key)
        self._owe(stream, packet.REQUEST)
        return stream

    def _ready(self, stream: VsockStream, events: int) -> None:
        if events & WRITE and stream.out:
            try:
                stream.drain()
            except OSError:
                self._break(stream)
                return
            if stream.credit_due:
                self._owe(stream, packet.CREDIT_UPDATE)
            if not stream.out and stream.shut:
                self._drained(stream)
        if events & READ and stream.events & READ and stream.key in self._streams:
            self._pull(stream)
        if stream.key in self._streams:
            self._interest(stream)

    def _pull(self, stream: VsockStream) -> None:
        """Into the guest's buffers, as far as there are any and it has given credit."""
        self.flush()
        for _ in range(_PULLS):
            if not stream.credit:
                return
            if stream.owed or not self._inbox.free:
                stream.paused = True
                self._paused.append(stream)
                return
            try:
                count, buffers, head = self._inbox.fill(stream.sock, min(stream.credit, packet.LONGEST_PAYLOAD))
            except BlockingIOError:
                return
            except OSError:
                self._break(stream)
                return
            if not count:
                stream.ended = True
                self._owe(stream, packet.SHUTDOWN)
                self._hurry(stream)
                return
            self._inbox.seal(self._header(stream, packet.RW, count), count, buffers, head)
            stream.sent = (stream.sent + count) & packet.U32

    # ---------------------------------------------------------------- to the guest

    def flush(self) -> None:
        """Tells the guest what it is owed, as far as it has room; then lets go on who waited for room."""
        while self._refusals and self._inbox.free:
            self._inbox.put(self._refusal(self._refusals.popleft()))
        while self._due and self._inbox.free:
            stream = self._due[0]
            op = next((one for one in _OPS if stream.owed & 1 << one), None)
            if op is None:
                stream.queued = False
                self._due.popleft()
                continue
            stream.owed &= ~(1 << op)
            self._inbox.put(self._header(stream, op))

    def resume(self) -> None:
        """Lets those read again who waited for room in the guest's queue."""
        self.flush()
        if self._refusals or self._due or not self._paused or not self._inbox.free:
            return
        waiting, self._paused = self._paused, deque()
        for stream in waiting:
            stream.paused = False
            if self._streams.get(stream.key) is stream:
                self._interest(stream)

    def _owe(self, stream: VsockStream, op: int) -> None:
        stream.owed |= 1 << op
        if not stream.queued:
            stream.queued = True
            self._due.append(stream)

    def _header(self, stream: VsockStream, op: int, length: int = 0) -> bytes:
        flags = packet.NO_MORE_RECEIVE | packet.NO_MORE_SEND if op == packet.SHUTDOWN else 0
        stream.told = stream.taken
        guest, host = stream.key
        ends = (packet.HOST_CID, self._cid, host, guest)
        return packet.HEADER.pack(*ends, length, packet.STREAM, op, flags, ROOM, stream.taken)

    def _refusal(self, key: Key) -> bytes:
        ends = (packet.HOST_CID, self._cid, key[1], key[0])
        return packet.HEADER.pack(*ends, 0, packet.STREAM, packet.RST, 0, 0, 0)

    # ---------------------------------------------------------------- the streams

    def _enter(self, sock: socket.socket, state: State, key: Key) -> VsockStream:
        stream = self._streams[key] = VsockStream(sock, state)
        stream.key = key
        if state == "asked":
            stream.timer = self._loop.later(CLOSE_SECONDS, partial(self._expire, stream))
        return stream

    def _interest(self, stream: VsockStream) -> None:
        """Watches the socket for what could be done with it now."""
        events = WRITE if stream.out else 0
        reads = stream.state == "open" and not stream.ended and not stream.paused
        if reads and not stream.shut & packet.NO_MORE_RECEIVE and stream.credit:
            events |= READ
        if events != stream.events:
            stream.events = events
            self._loop.watch(stream.sock.fileno(), events, partial(self._ready, stream))

    def _hurry(self, stream: VsockStream) -> None:
        """One side has ended: the other gets a while."""
        if stream.timer is not None:
            stream.timer.cancel()
        stream.timer = self._loop.later(CLOSE_SECONDS, partial(self._expire, stream))

    def _expire(self, stream: VsockStream) -> None:
        if self._streams.get(stream.key) is stream:
            self._break(stream)

    def _break(self, stream: VsockStream) -> None:
        """Ends it on both sides."""
        self._refusals.append(stream.key)
        self._close(stream)

    def _close(self, stream: VsockStream) -> None:
        if self._streams.pop(stream.key, None) is None:
            return
        if stream.timer is not None:
            stream.timer.cancel()
        if not self.greeter.gone(stream):
            self._from_guest -= 1
        stream.owed = 0
        stream.out.clear()
        self._loop.forget(stream.sock.fileno())
        stream.sock.close()
