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
from agent_common.net import ShareCounter
from agent_common.protocol import is_object
from agent_common.protocol.hub import MAX_FRAME, Frame, ProtocolError, error_frame, frame_of

from .caller import LinkRights
from .connection import Flow, HubConnection
from .outbox import Outbox

log = structlog.get_logger(__name__)
LIMITS = JsonLimits(max_bytes=MAX_FRAME, max_values=50_000)
"""What a frame of a client may cost."""
SEND_SECONDS = 30.0
"""Seconds that a client has to make space for a frame before its link is cut."""
_MOST_ID = 1000
"""Most characters of an id that the answer to a wrong frame repeats."""
_REQUEST_ID = re.compile(rb'\s*\{[^{\[]{0,200}?"request_id"\s*:\s*"([ !#-\[\]-~]{1,200})"')
"""The id in a frame whose JSON is not read: at the beginning, before anything that could have one of its own."""


class _Refused(Exception):
    """What has come is not a frame."""

    def __init__(self, error: ProtocolError, request_id: str) -> None:
        super().__init__(str(error))
        self.answer = error_frame(error, request_id)


class Linkable(Protocol):
    """A hub that takes links."""

    def connect(self, send: Any, rights: LinkRights | None = None, flow: Flow | None = None) -> HubConnection: ...


class SocketLink:
    """One link. `run` serves it until it ends."""

    def __init__(
        self, hub: Linkable, socket: WebSocket, rights: LinkRights, held: ShareCounter | None = None, holder: str = ""
    ) -> None:
        """`held`: counts the bytes that wait to be read, by the holders of links."""
        self._socket = socket
        self._outbox = Outbox(held, holder)
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
            await self._connection.readable()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data: bytes = message.get("bytes") or (message.get("text") or "").encode()
            try:
                frame = await run_by_size(len(data), partial(_read, data))
            except _Refused as refused:
                self._outbox.put(refused.answer)
                continue
            self._connection.receive(frame, len(data))

    async def _send(self) -> None:
        while True:
            data = await self._outbox.take()
            if data is None:
                log.warning(
                    "hub_link_cut", link=self._who, why="it, or another link of its caller, asks more than it reads"
                )
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
        value = read_json(data, LIMITS)
    except JsonRefused as refusal:
        found = _REQUEST_ID.match(data)
        raise _Refused(ProtocolError(f"not a frame: {refusal}"), found[1].decode() if found else "") from None
    try:
        return frame_of(value)
    except ProtocolError as error:
        raise _Refused(error, _id_of(value)) from error


def _id_of(value: object) -> str:
    """The id under which the client of a wrong frame waits for its answer; empty: it has none."""
    if not is_object(value):
        return ""
    found = value.get("subscription_id" if value.get("kind") == "subscribe" else "request_id")
    return found if isinstance(found, str) and len(found) <= _MOST_ID else ""
