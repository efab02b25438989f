"""One request to an agent and its answer, both passed on as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from agent_common.http import abort_connection
from agent_common.net import TransportFault

from .connections import AgentConnection
from .headers import answer_headers, has_body, is_chunked

SILENCE_SECONDS = 24 * 3600.0
"""Longest time without a byte of an answer. A turn that is not streamed answers only at its end."""
WRITE_SECONDS = 60.0
"""Longest time in which the agent takes nothing of a body."""
_PIECE = 64 * 1024
"""Bytes of an answer that the server gets at a time. It keeps a copy of each, and waits for a slow reader after it."""
_NO_BODY = frozenset({204, 304})
Watch = Callable[[], Awaitable[None]]
"""Returns once the caller may not go on."""


class RequestBody:
    """The body of a request, in pieces as they are sent to the agent."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._chunked = is_chunked(scope["headers"])
        self.ended = not has_body(scope["headers"])
        self.caller_gone = False

    async def next_piece(self) -> bytes:
        """Wait for the next piece. After the end, and when the caller goes away, it is empty."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.caller_gone = True
            return b""
        piece = message.get("body", b"")
        last = not message.get("more_body", False)
        if self._chunked:
            piece = (b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"") + (b"0\r\n\r\n" if last else b"")
        self.ended = self.ended or last
        return piece


class Exchange:
    """Passes one request on. `fault` says afterwards what failed before the answer began, if anything did."""

    def __init__(
        self, scope: Scope, body: RequestBody, send: Send, connection: AgentConnection, target: bytes, prefix: bytes
    ) -> None:
        self._scope = scope
        self._body = body
        self._send = send
        self._connection = connection
        self._target = target
        self._prefix = prefix
        self._answered = False
        self.fault: TransportFault | None = None
        self.complete = False
        """Whether the agent has the whole request and we its whole answer."""

    async def run(self, head: bytes, watch: Watch | None) -> None:
        """Send the request and pass the answer on, until it ends, the caller goes away, or `watch` returns.
        `head`: also the beginning of the body, so that the agent's server wakes up once for both."""
        self._connection.begin(head)
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._pass_body())]
            if watch is not None:
                beside.append(group.create_task(self._cut_after(watch)))
            await self._pass_answer()
            for task in beside:
                task.cancel()

    async def _pass_body(self) -> None:
        """Pass the rest of the body on, and cut the connection when the caller goes away."""
        body = self._body
        try:
            while not (body.ended or body.caller_gone):
                await self._connection.write(await body.next_piece(), WRITE_SECONDS)
        except TransportFault:
            return  # the answer says more, or its absence
        while not body.caller_gone:
            await body.next_piece()
        if not self._answered:  # uvicorn reports the end of an answer in the same way
            self._connection.close()

    async def _cut_after(self, watch: Watch) -> None:
        await watch()
        self._connection.close()

    async def _pass_answer(self) -> None:
        connection = self._connection
        started = False
        try:
            await connection.read_head(SILENCE_SECONDS)
            if connection.status == 401:
                raise TransportFault("the agent refuses the host's token for it")
            headers = answer_headers(connection.status, connection.raw_headers, self._target, self._prefix)
            await self._send({"type": "http.response.start", "status": connection.status, "headers": headers})
            started = True
            if self._scope["method"] != "HEAD" and connection.status not in _NO_BODY:
                while data := await connection.read(SILENCE_SECONDS):
                    for at in range(0, len(data), _PIECE):
                        piece = data[at : at + _PIECE]
                        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                self.complete = self._body.ended  # else the parser waits for a body that never comes
            self._answered = True
            await self._send({"type": "http.response.body", "body": b""})
        except TransportFault as fault:
            if started:
                abort_connection(self._scope)
            elif not self._body.caller_gone:
                self.fault = fault
