"""The hub's end of a link over a WebSocket: each message is a frame."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from functools import partial
from typing import Any, Protocol

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_common.http import abort_connection
from agent_common.json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from agent_common.protocol.hub import MAX_FRAME, Frame, ProtocolError, error_frame, frame_of

from .caller import LinkRights
from .connection import Flow, HubConnection
from .outbox import Outbox

log = structlog.get_logger(__name__)
LIMITS = JsonLimits(max_bytes=MAX_FRAME, max_values=50_000)
"""What a frame of a client may cost."""
SEND_SECONDS = 30.0
"""Within which a client must have made space for a frame, or its link is cut."""
_REQUEST_ID = re.compile(rb'"request_id"\s*:\s*"([\w.:-]{1,200})"')
_HEAD = 400
"""Bytes at the beginning of a frame in which its request_id stands, if it can be answered although it is wrong."""


class Linkable(Protocol):
    """A hub that takes links."""

    def connect(self, send: Any, rights: LinkRights | None = None, flow: Flow | None = None) -> HubConnection: ...


class SocketLink:
    """One link. `run` serves it until it ends."""

    def __init__(self, hub: Linkable, socket: WebSocket, rights: LinkRights) -> None:
        self._socket, self._outbox = socket, Outbox()
        self._connection = hub.connect(self._outbox.put, rights, self._outbox)
        self._who = rights.identity or "operator"

    async def run(self, *watches: Coroutine[Any, Any, None]) -> None:
        """Serve the link until either end has ended it, or one of `watches` returns."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work) for work in (self._receive(), self._send(), *watches)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._outbox.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._connection.close()
            abort_connection(self._socket.scope)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data: bytes = message.get("bytes") or (message.get("text") or "").encode()
            try:
                frame = await run_by_size(len(data), partial(_read, data))
            except ProtocolError as error:
                found = _REQUEST_ID.search(data[:_HEAD])
                self._outbox.put(error_frame(error, found[1].decode() if found else ""))
                continue
            self._connection.receive(frame, len(data))
            await self._connection.written()

    async def _send(self) -> None:
        while True:
            data = await self._outbox.take()
            if self._outbox.is_given_up:
                log.warning("hub_link_cut", link=self._who, why="it asks more than it reads")
                return
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._socket.send_text(data.decode())
            except TimeoutError:
                log.warning("hub_link_cut", link=self._who, why=f"it has read nothing for {SEND_SECONDS:g} s")
                return
            except (WebSocketDisconnect, RuntimeError):  # the latter: a close is under way
                return
            if self._outbox.sent():
                self._connection.pump()


def _read(data: bytes) -> Frame:
    try:
        return frame_of(read_json(data, LIMITS))
    except JsonRefused as refusal:
        raise ProtocolError(f"not a frame: {refusal}") from None
