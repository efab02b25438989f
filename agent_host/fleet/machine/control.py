"""Talk to the guest's init over the machine's socket: `CONNECT <port>`, then one line of JSON in each direction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..driver import CommandOutcome
from .boot import CONTROL_PORT

LONGEST_ANSWER = 8 << 20
_STREAM_LIMIT = 1 << 16


async def ask_guest(uds: Path, question: dict[str, Any], seconds: float, port: int = CONTROL_PORT) -> dict[str, Any]:
    """Send a question and return the answer, a JSON object with unchecked content. Raises OSError, or TimeoutError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_unix_connection(str(uds), limit=_STREAM_LIMIT)
        try:
            writer.write(b"CONNECT %d\n" % port)
            if not (await _line(reader, _STREAM_LIMIT)).startswith(b"OK "):
                raise ConnectionRefusedError(f"no program answers on port {port} of the guest")
            writer.write(json.dumps(question).encode() + b"\n")
            answer = await _line(reader, LONGEST_ANSWER)
        finally:
            writer.close()
    try:
        found = json.loads(answer)
    except ValueError as error:
        raise ConnectionError(f"the guest's init answers {answer[:100]!r}") from error
    if not isinstance(found, dict):
        raise ConnectionError("the guest's init did not answer with a JSON object")
    return found  # pyright: ignore[reportUnknownVariableType]


async def guest_exec(uds: Path, argv: Sequence[str], seconds: float) -> CommandOutcome:
    """Run a command in the guest as the runtime's user. Raises OSError if the guest does not answer."""
    question = {"do": "exec", "argv": list(argv), "timeout": seconds}
    reply = await ask_guest(uds, question, seconds + 5)
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
