"""One link of the tester to a hub: it records every frame that comes, and sends any text, a frame or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from pydantic_core import to_json
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agent_common.json_reader import JsonLimits, JsonRefused, read_json
from agent_common.protocol import is_object
from agent_common.protocol.hub import MAX_FRAME, NetworkError, frame_of
from agent_testing.channel import Frame, ReceivedFrames

_LIMITS = JsonLimits(max_bytes=MAX_FRAME, max_values=400_000)
_SHOWN = 6
"""Frames that a description shows."""


class TesterLink(ReceivedFrames):
    """A WebSocket of which each message is a frame."""

    def __init__(self, socket: ClientConnection, name: str) -> None:
        super().__init__()
        self._socket = socket
        self.name = name
        self.faults: list[str] = []
        """What came and is no frame that a hub may send, with the reason."""
        self.on_frame: Callable[[Frame], None] = _ignore
        """Called for each frame that comes."""
        self._reading = asyncio.create_task(self._read(), name=f"link {name}")

    async def send(self, *frames: Frame) -> None:
        """Send frames, or drop them if the link has ended: a caller that waits for an answer sees the end."""
        for frame in frames:
            await self.send_text(to_json(frame).decode())

    async def send_text(self, text: str) -> None:
        """Send a message, whatever it says."""
        with suppress(ConnectionClosed):
            await self._socket.send(text)

    async def send_cut(self, text: str) -> None:
        """Send the first half of a message, and break the connection."""

        async def pieces() -> AsyncGenerator[str]:
            yield text[: len(text) // 2]
            self._socket.transport.close()
            yield text[len(text) // 2 :]

        self.closed_by_us = True
        with suppress(ConnectionClosed):
            await self._socket.send(pieces())
        await self.close()

    async def close(self) -> None:
        """Break the connection without a farewell, as a process does that dies. Idempotent."""
        self.closed_by_us = True
        self._changed.set()
        self._socket.transport.abort()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def describe(self, since: int = 0) -> str:
        """Name the last frames that came."""
        return ", ".join(brief(frame) for frame in self.frames[since:][-_SHOWN:]) or "nothing"

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._socket.recv(decode=False))
                self._changed.set()
        except ConnectionClosed as closed:
            self.peer_ended = f"closed with {closed.rcvd.code}" if closed.rcvd is not None else "broken"
        finally:
            self._changed.set()

    def _take(self, message: bytes) -> None:
        try:
            frame = read_json(message, _LIMITS)
            frame_of(frame)
            assert is_object(frame)  # noqa: S101
        except (JsonRefused, NetworkError) as refusal:
            self.faults.append(f"{refusal} in {message[:80]!r}")
            return
        if frame["kind"] not in _OF_HUB:
            self.faults.append(f"a hub does not send {frame['kind']}")
        self.frames.append(frame)
        self.on_frame(frame)


_OF_HUB = frozenset({"welcome", "ping", "pong", "accept", "notify", "response", "error"})


def brief(frame: Frame) -> str:
    """Describe a frame in a few words."""
    envelope: Frame = frame.get("envelope") or {}
    more: tuple[Any, ...] = (
        frame.get("request_id"),
        frame.get("code"),
        frame.get("message"),
        envelope.get("sequence"),
        envelope.get("event_type"),
    )
    return " ".join([frame["kind"], *(str(one)[:80] for one in more if one)])


def _ignore(_frame: Frame) -> None:
    return
