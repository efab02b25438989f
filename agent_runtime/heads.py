"""HTTP connections with an end to what is read before anybody answers.

uvicorn bounds neither the head of a request nor the time it may take. Whoever reaches the port, without any token,
could fill the server's memory with one header, or hold its files with heads that never end.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES = 64 << 10
"""Of a head, or of what follows the last chunk of a body. One read more may have come by then."""


class BoundedHttp(HttpToolsProtocol):
    """One connection. Bytes that complete neither a head nor a piece of a body are counted and timed."""

    patience = 30.0
    """Seconds for a head to be complete; also the first, from the connection on."""
    _unread = 0
    _moved = False
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._moved = False
        super().data_received(data)
        if self._moved:
            self._unread = 0
            self._rest()
            return
        self._unread += len(data)
        if self._waiting is None:
            self._wait()
        if self._unread > MOST_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head is larger than {MOST_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        self._moved = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._moved = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.patience, self.transport.close)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
