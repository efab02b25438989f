"""Run commands of the engine, with bounds on their output and their time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from ...driver import CommandOutcome, StartFailed

COMMAND_SECONDS = 60.0
MOST_QUOTED = 500
"""Characters of the engine's messages that an error quotes."""
_MOST_OUTPUT = 1 << 20
_PIECE = 1 << 16
_OUTPUT_SECONDS = 0.5
"""Time to read the rest of a program's output after it has ended."""


async def run_engine(
    program: Sequence[str],
    *arguments: str,
    seconds: float | None = COMMAND_SECONDS,
    check: bool = True,
    env: Mapping[str, str] | None = None,
) -> CommandOutcome:
    """Run a command of the engine, with `env` added to its environment. Raises StartFailed if it does not start, or if
    `check` and it fails."""
    async with _Pipe() as out, _Pipe() as err:
        try:
            made = await asyncio.create_subprocess_exec(
                *program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out.child_end(),
                stderr=err.child_end(),
                env={**os.environ, **(env or {})},
            )
        except OSError as error:
            raise StartFailed(f"{program[0]} does not start: {error}") from error
        finally:
            out.close_child_end()
            err.close_child_end()
        try:
            async with asyncio.timeout(seconds):
                await made.wait()
                ended = CommandOutcome(made.returncode, *await asyncio.gather(out.output(), err.output()))
        except TimeoutError:
            ended = CommandOutcome(None, "", f"it took longer than {seconds:g} s")
        finally:
            if made.returncode is None:
                made.kill()
                await made.wait()
    if check and ended.code != 0:
        raise StartFailed(f"{program[0]} {arguments[0]} failed: {ended.stderr.strip()[-MOST_QUOTED:]}")
    return ended


class _Pipe:
    """A context manager with a pipe that keeps the last output of a program.

    It does not wait for end of file: uvloop leaves the write end open in every child of the program, and the process
    that watches a container runs as long as the container.
    """

    async def __aenter__(self) -> Self:
        mine, self._child_end = os.pipe()
        reader = asyncio.StreamReader()
        self._tail = b""
        protocol = asyncio.StreamReaderProtocol(reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(mine, "rb"))
        self._reading = asyncio.create_task(self._read(reader), name="engine-output")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._transport.close()

    def child_end(self) -> int:
        """The write end, for the program."""
        return self._child_end

    def close_child_end(self) -> None:
        """Close our copy of the write end, once the program has it or has failed to start."""
        os.close(self._child_end)

    async def output(self) -> str:
        """Return the last output. Call once the program has ended. Earlier output of a talkative guest is dropped."""
        await asyncio.wait([self._reading], timeout=_OUTPUT_SECONDS)
        return self._tail.decode("utf-8", "replace")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(_PIECE):
            self._tail = (self._tail + part)[-_MOST_OUTPUT:]
