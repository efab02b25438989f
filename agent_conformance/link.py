"""One connection as the tester sees it: everything that comes is kept, and nothing is forgiven silently."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from agent_common.protocol.work import FrameFault, decode, encode

from .rules import RuleBroken

Frame = dict[str, Any]
FrameTest = Callable[[Frame], bool]
MOST_LINE = 64 << 20
MOST_FRAMES = 100_000
_PIECE = 1 << 18
_RESET = struct.pack("ii", 1, 0)


class TesterConnection:
    """A connection. Frames that came stand in `frames`, in order; a mark is a place among them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        self._reader, self._writer, self.name = reader, writer, name
        self.frames: list[Frame] = []
        self.faults: list[str] = []
        """What came and was no frame."""
        self.blank_lines = 0
        self.ctl_allowed = False
        self.peer_ended: str | None = None
        """How the other side ended it: `eof` or `reset`."""
        self.closed_by_us = False
        """We have ended it."""
        self.bad_lines_sent = 0
        self.on_frame: Callable[[Frame], None] = _ignore_frame
        """Called for each frame that comes."""
        self._send_lock = asyncio.Lock()
        """Whoever sends; answers of the tester's own must not fall into a frame that dribbles."""
        self._changed = asyncio.Event()
        self._reader_task = asyncio.create_task(self._read(), name=f"conformance {name}")

    @property
    def closed(self) -> bool:
        return self.peer_ended is not None or self.closed_by_us

    def mark(self) -> int:
        """The place behind what has come so far."""
        return len(self.frames)

    async def send(self, *frames: BaseModel | Frame) -> None:
        await self.send_bytes(b"".join(encode(frame) for frame in frames))

    async def send_bytes(self, data: bytes) -> None:
        """What cannot be sent any more is dropped: that the other side is gone shows where it is waited for."""
        async with self._send_lock:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        if self.closed:
            return
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(data)
            await self._writer.drain()

    async def send_bad_lines(self, *lines: bytes) -> None:
        """Sends lines that are no frames."""
        self.bad_lines_sent += len(lines)
        await self.send_bytes(b"".join(line + b"\n" for line in lines))

    async def send_byte_by_byte(self, data: bytes, pause: float = 0.001) -> None:
        """Byte by byte."""
        async with self._send_lock:
            for at in range(len(data)):
                await self._write(data[at : at + 1])
                await asyncio.sleep(pause)

    async def wait_for(self, test: FrameTest, seconds: float, since: int = 0) -> Frame | None:
        """The first frame from the mark on that the test is true of; none when there is none in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        at = since
        while True:
            for at in range(at, len(self.frames)):  # noqa: B020  goes on where it stopped
                if test(self.frames[at]):
                    return self.frames[at]
            at = len(self.frames)
            left = until - loop.time()
            if self.closed or left <= 0:
                return None
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    async def expect(self, what: str, test: FrameTest, seconds: float, since: int = 0) -> Frame:
        """The same; raises RuleBroken when there is none."""
        found = await self.wait_for(test, seconds, since)
        if found is None:
            how = (
                f"the connection ended ({self.peer_ended or 'closed by the tester'})"
                if self.closed
                else f"none in {seconds:g} s"
            )
            raise RuleBroken(f"expected {what}: {how}; came instead: {self.describe(since)}")
        return found

    async def wait_for_end(self, seconds: float) -> str | None:
        """How the other side has ended the connection; none when it has not in time."""
        await self.wait_for(lambda _: False, seconds, self.mark())
        return self.peer_ended

    def describe(self, since: int = 0) -> str:
        """What has come, in short."""
        return ", ".join(brief(frame) for frame in self.frames[since:][-6:]) or "nothing"

    async def close(self, *, reset: bool = False) -> None:
        """Ends the connection, with RST if wished. Again is a no-op."""
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

    async def half_open(self) -> bool:
        """Whether the other side, which has ended its sending, still reads."""
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

    async def _read(self) -> None:
        kept = bytearray()
        try:
            while data := await self._reader.read(_PIECE):
                *whole, rest = data.split(b"\n")
                for line in whole:
                    self._handle_line(bytes(kept) + line)
                    kept.clear()
                kept += rest
                if len(kept) > MOST_LINE or len(self.frames) > MOST_FRAMES:
                    self.faults.append(f"more than {MOST_FRAMES} frames, or a line of more than {MOST_LINE} bytes")
                    break
            self.peer_ended = "eof"
        except OSError:
            self.peer_ended = "reset"
        finally:
            self._changed.set()

    def _handle_line(self, line: bytes) -> None:
        if not line.strip():
            self.blank_lines += 1
            return
        try:
            frame = decode(line)
        except FrameFault as fault:
            self.faults.append(f"{fault} in {line[:80]!r}")
            return
        self.frames.append(frame)
        self.on_frame(frame)
        self._changed.set()


def _ignore_frame(_: Frame) -> None:
    """Until somebody answers."""


def brief(frame: Frame) -> str:
    """A frame in a few words."""
    kind = frame.get("ctl") or frame.get("signal") or ("result" if is_result(frame) else None)
    if kind is None:
        return json.dumps(frame, ensure_ascii=True)[:60]
    more = [frame.get("request_id"), frame.get("status"), frame.get("error")]
    return " ".join([str(kind), *(str(one)[:40] for one in more if one is not None)])


def is_result(frame: Frame, request_id: str | None = None) -> bool:
    """Whether it is a result, of that request."""
    fits = "request_id" in frame and ("status" in frame or "ok" in frame) and "ctl" not in frame
    return fits and request_id in (None, frame["request_id"])


def is_request(frame: Frame, request_id: str | None = None) -> bool:
    return "principal" in frame and request_id in (None, frame.get("request_id"))


def is_signal(frame: Frame, name: str, request_id: str | None = None) -> bool:
    return frame.get("signal") == name and (request_id is None or frame.get("request_id") == request_id)


def is_ack(frame: Frame) -> bool:
    """Whether it is a ConstraintAck."""
    return "hash" in frame and "observed_at" in frame and "signal" not in frame


def is_ctl(frame: Frame, name: str) -> bool:
    return frame.get("ctl") == name
