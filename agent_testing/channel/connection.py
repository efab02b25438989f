"""One connection of the mediation channel, for either end: it records every frame that comes, sends any frames, valid
or not, and waits for frames with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from pydantic import BaseModel

from agent_common.net import Endpoint, listen_at
from agent_common.protocol.work import MAX_BAD_LINES, FrameFault, FrameTooLarge, Lines, decode, encode

from .frames import Frame
from .received_frames import ReceivedFrames

LONGEST_LINE = 16 << 20
MOST_FRAMES = 100_000
_PIECE = 1 << 18
_RESET = struct.pack("ii", 1, 0)
_BLANK_LINE = re.compile(rb"\n(?=[ \t\r]*\n)")


class PeerConnection(ReceivedFrames):
    """A connection that is driven by hand."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, lines: Lines | None = None
    ) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self.name = name
        self.faults: list[str] = []
        """Lines that were not frames, with the reason."""
        self.blank_lines = 0
        self.bad_lines_sent = 0
        self.ctl_allowed = False
        """Whether both ends have agreed on control frames."""
        self._reason = ""
        self.last_received = asyncio.get_running_loop().time()
        self.on_frame: Callable[[Frame], None] = lambda _: None
        """Called for each frame that comes. If it raises FrameFault the frame counts as a bad line."""
        self.on_fault: Callable[[FrameFault], None] = lambda _: None
        """Called for each line that is not a frame."""
        self._lines = lines or Lines(LONGEST_LINE)
        self._fault_times: list[float] = []
        self._send_lock = asyncio.Lock()
        """Prevents that an answer is sent within a frame that is sent byte by byte."""
        self._posts: set[asyncio.Task[None]] = set()
        self._reader_task = asyncio.create_task(self._read(), name=f"peer {name}")

    # ---------------------------------------------------------------- sending

    async def send(self, *frames: BaseModel | Frame) -> None:
        await self.send_bytes(b"".join(encode(frame) for frame in frames))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes, or drop them if the connection has ended: a caller that waits for an answer sees the end."""
        async with self._send_lock:
            await self._write(data)

    def post(self, *frames: BaseModel | Frame) -> None:
        """Send frames without waiting, from a callback."""
        self.post_bytes(b"".join(encode(frame) for frame in frames))

    def post_bytes(self, data: bytes) -> None:
        if self._send_lock.locked():
            task = asyncio.get_running_loop().create_task(self.send_bytes(data))
            self._posts.add(task)
            task.add_done_callback(self._posts.discard)
        elif not self.closed:
            self._writer.write(data)

    async def _write(self, data: bytes) -> None:
        if self.closed:
            return
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(data)
            await self._writer.drain()

    async def send_bad_lines(self, *lines: bytes) -> None:
        """Send lines that are not frames."""
        self.bad_lines_sent += len(lines)
        await self.send_bytes(b"".join(line + b"\n" for line in lines))

    async def send_byte_by_byte(self, data: bytes, pause: float = 0.001) -> None:
        async with self._send_lock:
            for at in range(len(data)):
                await self._write(data[at : at + 1])
                await asyncio.sleep(pause)

    # ---------------------------------------------------------------- ending

    async def ended(self) -> str:
        """Wait until either end has ended the connection, and return how."""
        await asyncio.wait([self._reader_task])
        return self.peer_ended or self._reason or "closed"

    def hang_up(self, reason: str = "") -> None:
        """End both directions at once, from a callback."""
        self.closed_by_us = True
        self._reason = reason
        self._writer.close()
        self._reader_task.cancel()
        self._changed.set()

    async def close(self, *, reset: bool = False) -> None:
        """End the connection, with RST if `reset`. Idempotent."""
        self.closed_by_us = True
        self._changed.set()
        if reset and (transport := self._writer.transport) is not None:  # pyright: ignore[reportUnnecessaryComparison]
            opened = transport.get_extra_info("socket")
            with contextlib.suppress(OSError, AttributeError):
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()
        self._reader_task.cancel()
        await asyncio.gather(self._reader_task, return_exceptions=True)

    def half_close(self) -> None:
        """End our direction only; reading continues."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def half_open(self) -> bool:
        """Return whether the other end, which has ended its sending, still reads."""
        for _ in range(20):
            try:
                self._writer.write(b"\n")
                await self._writer.drain()
            except (OSError, RuntimeError):
                return False
            if self._writer.transport.is_closing():
                return False
            await asyncio.sleep(0.05)
        return True

    # ---------------------------------------------------------------- reading

    def too_many_faults(self) -> bool:
        """Return whether more bad lines came within a minute than an end must tolerate. Call it once for each."""
        now = asyncio.get_running_loop().time()
        self._fault_times = [one for one in self._fault_times if now - one < 60] + [now]
        return len(self._fault_times) > MAX_BAD_LINES

    async def _read(self) -> None:
        tail = b"\n"
        try:
            while data := await self._reader.read(_PIECE):
                self.last_received = asyncio.get_running_loop().time()
                seen = tail + data
                self.blank_lines += len(_BLANK_LINE.findall(seen))
                tail = b"\n" + seen.rpartition(b"\n")[2][:64]
                for line in self._lines.feed(data):
                    self._handle_line(line)
                if len(self.frames) > MOST_FRAMES:
                    raise FrameTooLarge(f"more than {MOST_FRAMES} frames came")
            self.peer_ended = "eof"
        except FrameTooLarge as error:
            self.faults.append(str(error))
            self.hang_up(str(error))
        except OSError:
            self.peer_ended = "reset"
        finally:
            self._changed.set()

    def _handle_line(self, line: bytes | FrameFault) -> None:
        if self.closed_by_us:
            return
        try:
            if isinstance(line, FrameFault):
                raise line
            frame = decode(line)
            self.frames.append(frame)
            self.on_frame(frame)
        except FrameFault as fault:
            shown = b"" if isinstance(line, FrameFault) else line[:80]
            self.faults.append(f"{fault} in {shown!r}")
            self.on_fault(fault)
        self._changed.set()


@asynccontextmanager
async def accept_peers(
    endpoint: Endpoint, on_peer: Callable[[PeerConnection], None], new_lines: Callable[[], Lines] | None = None
) -> AsyncGenerator[Endpoint]:
    """Listen within the block and call `on_peer` with each connection. Yield the endpoint with its port. Raises
    OSError."""
    loop = asyncio.get_running_loop()
    count = 0

    async def accept(bound: socket.socket) -> None:
        nonlocal count
        while True:
            opened, _ = await loop.sock_accept(bound)
            opener = asyncio.open_unix_connection if opened.family == socket.AF_UNIX else asyncio.open_connection
            count += 1
            streams = await opener(sock=opened)
            on_peer(PeerConnection(*streams, f"connection {count}", new_lines() if new_lines else None))

    with listen_at(endpoint) as listening:
        listening.sock.setblocking(False)
        task = asyncio.create_task(accept(listening.sock), name="accept peers")
        try:
            yield listening.endpoint
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
