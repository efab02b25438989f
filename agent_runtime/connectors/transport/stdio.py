"""The pipes of a confined program as the streams of an MCP session: one JSON-RPC message a line.

Imported only when a server is to be started: it needs the packages that take long to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from agent_common.json_reader import JsonRefused, by_size, read_json

from ...sandbox import SandboxProcess
from .incoming import take
from .rate_limit import MESSAGE, LimitExceeded, MessageRateLimiter, refused

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from .connection_state import ConnectionState, Streams

TAIL = 1000
"""Bytes of what a program printed last on stderr that are kept, to explain its death."""
PIECE = 16 * 1024
THROTTLE = 0.005
"""Seconds between reads of a program that prints without end."""
BUFFERED = 64
"""Messages that wait to be written."""
LEAVE_SECONDS = 1.0
"""Seconds that a program has to end by itself once its input is closed."""


@asynccontextmanager
async def stdio_streams(child: SandboxProcess, ends: ConnectionState, unread: float) -> AsyncGenerator[Streams]:
    """The session's streams over a program, which is ended with the block. `ends` is told when the program is gone, or
    has left its input unread for so many seconds."""
    talk = _Talk(child, ends, unread)
    send_in, receive_in = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    send_out, receive_out = anyio.create_memory_object_stream["SessionMessage"](BUFFERED)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk.read, send_in)
        tasks.start_soon(talk.write, receive_out)
        tasks.start_soon(talk.listen)
        try:
            yield receive_in, send_out
        finally:
            with anyio.CancelScope(shield=True):
                await talk.leave()
            tasks.cancel_scope.cancel()
            for stream in (send_in, receive_in, send_out, receive_out):
                stream.close()


class _Talk:
    """What goes on over the pipes."""

    def __init__(self, child: SandboxProcess, ends: ConnectionState, unread: float) -> None:
        self._child, self._ends, self._unread = child, ends, unread
        self._pace = MessageRateLimiter()
        self._printed = b""
        self._leaving = False
        self._heard = asyncio.Event()
        """All that it had to say on stderr has been read."""

    async def read(self, session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is over
            async with session:
                try:
                    while line := await self._child.stdout.readline():
                        await self._take(line, session)
                    await self._explain_death()
                except LimitExceeded as overrun:
                    self._end(str(overrun))
                except ValueError:
                    self._end("it sent a message that is too long")
                except OSError as error:
                    self._end(f"its output cannot be read: {error.strerror}")

    async def _take(self, line: bytes, session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

        def understood() -> JSONRPCMessage:
            return jsonrpc_message_adapter.validate_python(read_json(line, MESSAGE), by_name=False)

        await self._pace.spend(len(line))
        try:
            message = await by_size(len(line), understood)
        except JsonRefused as refusal:
            if refusal.code in ("too_many_values", "too_deep") or b'"jsonrpc"' in line:
                raise refused(refusal) from None  # a call that waits for it hears why
            self._pace.noise()
            return
        except ValueError:
            self._pace.noise()
            return
        self._pace.understood()
        take(message, self._pace)
        await session.send(SessionMessage(message))

    async def write(self, session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with session:
            async for item in session:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode(errors="replace")
                try:
                    async with asyncio.timeout(self._unread):
                        self._child.stdin.write(line + b"\n")
                        await self._child.stdin.drain()
                except TimeoutError:
                    self._end(f"it has not read its input for {self._unread:g} s")
                    return
                except OSError:
                    await self._explain_death()
                    return

    async def listen(self) -> None:
        """Keeps the end of what the program prints on stderr."""
        with suppress(OSError):
            while piece := await self._child.stderr.read(PIECE):
                self._printed = (self._printed + piece)[-TAIL:]
                if len(piece) == PIECE:
                    await asyncio.sleep(THROTTLE)
        self._heard.set()

    async def _explain_death(self) -> None:
        with anyio.move_on_after(LEAVE_SECONDS):
            await self._child.wait()
        if self._child.running:
            self._end("it has closed its pipes")
            return
        code = await self._child.wait()
        with anyio.move_on_after(LEAVE_SECONDS):
            await self._heard.wait()
        printed = " ".join(self._printed.decode(errors="replace").split())
        why = self._child.stopped or _cause(code)
        self._end(f"it ended ({why}){': ' if printed else ''}{printed}")

    def _end(self, reason: str) -> None:
        if not self._leaving:  # else it is we who end it
            self._ends.end(reason)

    async def leave(self) -> None:
        """Lets the program go: it may see the end of its input and tidy up, and then it is ended with all its own."""
        self._leaving = True
        with suppress(OSError, RuntimeError):
            self._child.stdin.close()
        with anyio.move_on_after(LEAVE_SECONDS):
            await self._child.wait()
        await self._child.close()


def _cause(code: int) -> str:
    number = -code if code < 0 else code - 128 if code > 128 else 0
    return f"signal {number}" if number else f"exit code {code}"
