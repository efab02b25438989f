"""The pipes of a confined program as streams of an MCP session, with one JSON-RPC message on each line.

Imported only when a server is started, because it needs packages that load slowly.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agent_common.json_reader import JsonRefused, run_by_size

from ...sandbox import SandboxProcess
from ..rate_limit import MESSAGE_LIMIT, LimitExceeded, MessageRateLimiter, refusal_error
from .incoming import count_requests
from .long_lines import LongLine, find_stand_in, read_line
from .message_lines import read_messages

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

    from .connection_state import ConnectionState, Streams

TAIL_BYTES = 1000
"""Bytes of a program's last output on stderr that are kept to explain its end."""
READ_SIZE = 16 * 1024
THROTTLE_SECONDS = 0.005
"""Seconds between reads of a program that prints without pause."""
MAX_BUFFERED = 64
"""Most messages that wait to be written."""
CLOSE_SECONDS = 1.0
"""Seconds that a program has to end by itself once its input is closed."""

_DAMAGED_MESSAGE = re.compile(rb'\s*(?:(?:\[\s*)?\{.*)?"jsonrpc"', re.DOTALL)
"""A line with a message that cannot be read, as opposed to a line of a log that quotes one."""
TOO_LARGE = f"it is larger than the limit of {MESSAGE_LIMIT // 2**20} MiB"
LENGTH_HEADER = b"content-length:"
LENGTH_FRAMING = (
    "it puts Content-Length before its messages, as language servers do; an MCP server writes each message on a line"
)


@asynccontextmanager
async def stdio_streams(
    child: SandboxProcess, connection_state: ConnectionState, unread_seconds: float
) -> AsyncGenerator[Streams]:
    """Yield the session's streams over a program, which is ended with the block. `connection_state` receives the reason
    when the program ends, or has not read its input for `unread_seconds`."""
    pipes = _StdioPipes(child, connection_state, unread_seconds)
    send_in, receive_in = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    send_out, receive_out = anyio.create_memory_object_stream["SessionMessage"](MAX_BUFFERED)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.read, send_in)
        tasks.start_soon(pipes.write, receive_out)
        tasks.start_soon(pipes.read_stderr)
        try:
            yield receive_in, send_out
        finally:
            with anyio.CancelScope(shield=True):
                await pipes.close()
            tasks.cancel_scope.cancel()
            for stream in (send_in, receive_in, send_out, receive_out):
                stream.close()


class _StdioPipes:
    """Copies messages between the pipes and the session."""

    def __init__(self, child: SandboxProcess, connection_state: ConnectionState, unread_seconds: float) -> None:
        self._child = child
        self._connection_state = connection_state
        self._unread_seconds = unread_seconds
        self._limiter = MessageRateLimiter()
        self._understood = False
        """Whether it has sent a message."""
        self._printed = b""
        self._leaving = False
        self._stderr_done = asyncio.Event()
        """Set once all output on stderr has been read."""

    async def read(self, session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session has ended
            async with session:
                try:
                    while line := await read_line(self._child.stdout):
                        await self._handle_line(line, session)
                    await self._explain_death()
                except LimitExceeded as overrun:
                    self._end(str(overrun))
                except OSError as error:
                    self._end(f"its output cannot be read: {error.strerror}")

    async def _handle_line(
        self, line: bytes | LongLine, session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        from mcp.shared.message import SessionMessage

        messages = await self._read_messages(line)
        if not messages:
            self._limiter.count_noise()
            return
        self._understood = True
        self._limiter.reset_noise()
        for message in messages:
            count_requests(message, self._limiter)
            await session.send(SessionMessage(message))

    async def _read_messages(self, line: bytes | LongLine) -> Sequence[JSONRPCMessage]:
        """Return the messages on a line, or none if it is a line of a log. Raises LimitExceeded if a message is
        damaged: the call that may wait for it fails with this error."""
        if isinstance(line, LongLine):
            await self._limiter.throttle(MESSAGE_LIMIT)  # to pass over a line costs less than to read one
            return _stand_ins(line, TOO_LARGE)
        await self._limiter.throttle(len(line))
        try:
            return await run_by_size(len(line), partial(read_messages, line))
        except JsonRefused as refusal:
            if refusal.code in ("too_large", "too_many_values", "too_deep"):
                return _stand_ins(LongLine.of(line), str(refusal))
            if _DAMAGED_MESSAGE.match(line):
                raise refusal_error(refusal) from None
            if not self._understood and line[: len(LENGTH_HEADER)].lower() == LENGTH_HEADER:
                raise LimitExceeded(LENGTH_FRAMING) from None
            return []
        except ValueError:
            return []

    async def write(self, session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with session:
            async for item in session:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode(errors="replace")
                try:
                    async with asyncio.timeout(self._unread_seconds):
                        self._child.stdin.write(line + b"\n")
                        await self._child.stdin.drain()
                except TimeoutError:
                    self._end(f"it has not read its input for {self._unread_seconds:g} s")
                    return
                except OSError:
                    await self._explain_death()
                    return

    async def read_stderr(self) -> None:
        """Read stderr, and keep the end of it."""
        with suppress(OSError):
            while piece := await self._child.stderr.read(READ_SIZE):
                self._printed = (self._printed + piece)[-TAIL_BYTES:]
                if len(piece) == READ_SIZE:
                    await asyncio.sleep(THROTTLE_SECONDS)
        self._stderr_done.set()

    async def _explain_death(self) -> None:
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._child.wait()
        if self._child.running:
            self._end("it has closed its pipes")
            return
        code = await self._child.wait()
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._stderr_done.wait()
        printed = " ".join(self._printed.decode(errors="replace").split())
        why = self._child.stopped or _exit_reason(code)
        self._end(f"it ended ({why}){': ' if printed else ''}{printed}")

    def _end(self, reason: str) -> None:
        if not self._leaving:  # else we are ending it ourselves
            self._connection_state.end(reason)

    async def close(self) -> None:
        """Close the program's input and give it time to end by itself, then kill all its processes."""
        self._leaving = True
        with suppress(OSError, RuntimeError):
            self._child.stdin.close()
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._child.wait()
        await self._child.close()


def _stand_ins(line: LongLine, reason: str) -> Sequence[JSONRPCMessage]:
    """Return what takes the place of a message that is too large, or nothing if the line is one of a log. Raises
    LimitExceeded if it is not known whose message it is."""
    if (found := find_stand_in(line, reason)) is not None:
        return [found]
    if _DAMAGED_MESSAGE.match(line.first):
        raise LimitExceeded(f"it sent a message that is refused: {reason}")
    return []


def _exit_reason(code: int) -> str:
    number = -code if code < 0 else code - 128 if code > 128 else 0
    return f"signal {number}" if number else f"exit code {code}"
