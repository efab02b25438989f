"""The face of confinement: chosen once at start, it runs commands and nothing else in the house starts one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ..errors import ToolFailure
from .bare import Bare
from .box import Box
from .capture import OUTPUT_LIMIT, Capture, OpenSpill, Stream
from .child import LINE_LIMIT, Child
from .rung import Missing, Rung

ConfinementName = Literal["bubblewrap", "off", "none"]

DRAIN = 1.0
"""Seconds to wait for the end of a dead command's output; only what escaped an unconfined one keeps it open."""
THROTTLE = 0.005
"""Seconds between reads of a command that prints without end. The full pipe slows it down, and the server breathes."""
PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    stdout: str
    stderr: str
    exit_code: int | None
    """None when its deadline ended it; 128 and the signal's number when a signal did."""
    timed_out: bool = False
    truncated: bool = False
    output_path: str | None = None
    """The file with the output, when it was truncated and a place for it was given."""


class Confinement:
    """How commands are held on this machine. `choose_confinement` makes one."""

    def __init__(self, rung: Rung | None, reason: str = "") -> None:
        self._rung = rung
        self.reason = reason
        """Why there is no rung."""

    @property
    def name(self) -> ConfinementName:
        return "none" if self._rung is None else self._rung.name

    @property
    def uid(self) -> int | None:
        """The user that must own what commands may write; none: the server's own."""
        return None if self._rung is None else self._rung.uid

    async def run(
        self,
        argv: Sequence[str],
        box: Box,
        *,
        timeout: float,  # noqa: ASYNC109 - the deadline is part of the answer, not an error
        stdin: bytes = b"",
        output_limit: int = OUTPUT_LIMIT,
        spill: OpenSpill | None = None,
        helper: bool = False,
    ) -> Finished:
        """Runs a command to its end or its deadline, in seconds; nothing of it is alive afterwards.

        `helper` is for programs of the product itself, whose input alone comes from the model: they run without
        confinement where there is none. Raises ToolFailure when it cannot be started.
        """
        capture = Capture(output_limit, spill)
        try:
            async with await self.spawn(argv, box, helper=helper) as child:
                exit_code = await _attend(child, capture, timeout, stdin)
        finally:
            capture.close()
        stdout, stderr = capture.texts()
        return Finished(
            stdout=stdout,
            stderr=stderr,
            exit_code=exit_code,
            timed_out=exit_code is None,
            truncated=capture.truncated,
            output_path=capture.output_path,
        )

    async def spawn(
        self, argv: Sequence[str], box: Box, *, line_limit: int = LINE_LIMIT, helper: bool = False
    ) -> Child:
        """Starts a program that goes on running; the caller owns it. Raises ToolFailure when it cannot be started."""
        rung = self._rung or (Bare() if helper else None)
        if rung is None:
            raise ToolFailure(f"commands cannot be run here: {self.reason}", kind="unavailable")
        try:
            launch = rung.launch(argv, box)
        except Missing as missing:
            raise ToolFailure(f"commands cannot be run here: {missing}", kind="unavailable") from missing
        return await Child.start(launch, line_limit=line_limit)


async def _attend(child: Child, capture: Capture, deadline: float, stdin: bytes) -> int | None:
    """Feeds a command and reads what it prints until it ends; its exit code, or none when the deadline came first."""
    exit_code: int | None = None
    streams = ((child.stdout, capture.stdout), (child.stderr, capture.stderr))
    pumps = [asyncio.create_task(_pump(source, capture, stream)) for source, stream in streams]
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                await _feed(child.stdin, stdin)
                code = await child.wait()
                exit_code = code if code >= 0 else 128 - code
        await child.kill()
        await asyncio.wait(pumps, timeout=DRAIN)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    return exit_code


async def _feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(ConnectionError):  # a command need not read what it is given
        stdin.write(data)
        await stdin.drain()
    stdin.close()


async def _pump(source: asyncio.StreamReader, capture: Capture, stream: Stream) -> None:
    while chunk := await source.read(PIECE):
        capture.feed(stream, chunk)
        if capture.full:
            await asyncio.sleep(THROTTLE)
