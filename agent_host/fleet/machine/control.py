"""Talk to the guest's init over the machine's socket: `CONNECT <port>`, then one line of JSON in each direction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async
from agent_common.net import Unix, connect
from agent_common.protocol import is_object

from ..driver import CommandOutcome, P
from .boot import CONTROL_PORT

SHORT_ANSWER = JsonLimits(64 << 10, max_values=1000, max_depth=8)
"""Limits of an answer to `ping` and `stop`. A guest that was taken over answers what it likes."""
LONG_ANSWER = JsonLimits(8 << 20, max_values=1000, max_depth=8)
"""Limits of an answer with the output of a command."""
_STREAM_LIMIT = 1 << 16
_CONNECT_SECONDS = 10.0
_LONGEST_GREETING = 64


async def ask_guest(
    uds: Path, question: dict[str, Any], seconds: float, *, limits: JsonLimits = SHORT_ANSWER
) -> dict[str, Any]:
    """Send a question and return the answer, a JSON object with unchecked content. Raises OSError, or TimeoutError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_unix_connection(str(uds), limit=_STREAM_LIMIT)
        try:
            writer.write(b"CONNECT %d\n" % CONTROL_PORT)
            if not (await _line(reader, _STREAM_LIMIT)).startswith(b"OK "):
                raise ConnectionRefusedError(f"no program answers on port {CONTROL_PORT} of the guest")
            writer.write(json.dumps(question).encode() + b"\n")
            answer = await _line(reader, limits.max_bytes)
        finally:
            writer.close()
    try:
        found: Any = await read_json_async(answer, limits)
    except JsonRefused as refusal:
        raise ConnectionError(f"the guest's init answers {answer[:100]!r}: {refusal}") from refusal
    if not is_object(found):
        raise ConnectionError("the guest's init did not answer with a JSON object")
    return found


async def guest_exec(uds: Path, argv: Sequence[str], seconds: float) -> CommandOutcome:
    """Run a command in the guest as the runtime's user. Raises OSError if the guest does not answer."""
    question = {"do": "exec", "argv": list(argv), "timeout": seconds}
    reply = await ask_guest(uds, question, seconds + 5, limits=LONG_ANSWER)
    code = reply.get("code")
    return CommandOutcome(
        code if isinstance(code, int) else None, str(reply.get("stdout", "")), str(reply.get("stderr", ""))
    )


async def _line(reader: asyncio.StreamReader, most: int) -> bytes:
    found = bytearray()
    while not found.endswith(b"\n"):
        part = await reader.read(_STREAM_LIMIT)
        if not part:
            raise ConnectionResetError("the guest closed the connection")
        found += part
        if len(found) > most:
            raise ConnectionError(f"the guest's answer is longer than {most} bytes")
    return bytes(found)


async def connect_guest(uds: Path, port: int, protocol: Callable[[], P]) -> P:
    """Open a connection to a port of the guest, and return its protocol. Raises OSError, or TimeoutError."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        transport, greeting = await connect(lambda: _Greeting(port), Unix(str(uds)), _CONNECT_SECONDS)
        try:
            await greeting.accepted
        except BaseException:
            transport.close()
            raise
    made = protocol()
    greeting.transport.set_protocol(made)
    made.connection_made(greeting.transport)
    return made


class _Greeting(asyncio.Protocol):
    """Asks for a port of the guest, before the connection belongs to the protocol of the caller."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._answer = b""
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(b"CONNECT %d\n" % self._port)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self.accepted.done() or not (self._answer.endswith(b"\n") or len(self._answer) > _LONGEST_GREETING):
            return
        if self._answer.startswith(b"OK "):
            self.accepted.set_result(None)
        else:
            self._refuse()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.accepted.done():
            self._refuse()

    def _refuse(self) -> None:
        self.accepted.set_exception(ConnectionRefusedError(f"no program answers on port {self._port} of the guest"))
