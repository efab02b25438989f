"""A process with an owner: while its `Child` is open it may live, afterwards it and all that it started are gone.

Two things see to that. Closing a child kills its process group. And a watcher in that group waits for the end of a
pipe that only the server holds: it kills the group when the server dies, in whichever way and at whichever moment.
Signals at the death of a parent alone would not do: a process that is being started has not set them up yet.

Started with `subprocess`, watched with a pidfd: the event loops' own ways to start a process differ, and the faster one
hands down descriptors that the server inherited, and gives sockets where programs expect pipes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from types import TracebackType

from ..errors import ToolFailure
from .rung import Launch, Missing, program

# In bash, because plain shells know descriptors up to 9 only.
LIFELINE = '{{ read -r _; kill -KILL 0; }} <&{fd} >/dev/null 2>&1 & exec {fd}<&-; exec "$@"'
LINE_LIMIT = 64 * 1024
DEATH = 2.0
"""Seconds to wait for a killed process. Only one that hangs inside the kernel takes longer."""


class Child:
    """Use as `async with await Child.start(launch) as child`. Its three streams are pipes."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: int) -> None:
        self._process = process
        self._lifeline: int | None = lifeline
        self._transports: list[asyncio.BaseTransport] = []
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        self.stdin: asyncio.StreamWriter
        self.stdout: asyncio.StreamReader
        self.stderr: asyncio.StreamReader

    @classmethod
    async def start(cls, launch: Launch, *, line_limit: int = LINE_LIMIT) -> Child:
        """Starts the program. Raises ToolFailure when the system cannot; `line_limit` bounds a line read, in bytes."""
        starting = asyncio.create_task(cls._start(launch, line_limit))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The program may be running already: wait to know it, then end it.
            with suppress(ToolFailure):
                await (await starting).close()
            raise

    @classmethod
    async def _start(cls, launch: Launch, line_limit: int) -> Child:
        theirs, ours = _pipes(launch.uid)
        watched, lifeline = os.pipe()
        try:
            shell = program("bash")
            process = subprocess.Popen(  # noqa: ASYNC220 - returns as soon as the program is loaded
                (shell, "-c", LIFELINE.format(fd=watched), shell, *launch.argv),
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                env=dict(launch.env),
                cwd=launch.cwd,
                pass_fds=(watched, *launch.fds),
                start_new_session=True,
            )
        except (OSError, Missing) as error:
            for descriptor in (*ours, lifeline):
                os.close(descriptor)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolFailure(f"the command could not be started: {reason}", kind="unavailable") from error
        finally:
            for descriptor in (*theirs, watched, *launch.fds):
                os.close(descriptor)
        child = cls(process, lifeline)
        await child._connect(ours, line_limit)
        return child

    async def _connect(self, pipes: tuple[int, int, int], line_limit: int) -> None:
        self.stdout = await self._reader(pipes[1], line_limit)
        self.stderr = await self._reader(pipes[2], line_limit)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())  # as a writer's, for its flow control
        transport, _ = await self._loop.connect_write_pipe(lambda: protocol, open(pipes[0], "wb", 0))  # noqa: ASYNC230, SIM115
        self.stdin = asyncio.StreamWriter(transport, protocol, None, self._loop)
        self._transports.append(transport)

    async def _reader(self, pipe: int, line_limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=line_limit)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_read_pipe(lambda: protocol, open(pipe, "rb", 0))  # noqa: ASYNC230, SIM115
        self._transports.append(transport)
        return reader

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._cut_lifeline()  # what it left in the background ends with it
        self._ended.set_result(self._process.wait())

    def _cut_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return not self._ended.done() and self._process.poll() is None

    async def wait(self) -> int:
        """Waits for the end; the exit code, or the negated number of the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> None:
        """Ends the process and all that it started. What it printed before can still be read."""
        if self.running:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._cut_lifeline()
        with suppress(TimeoutError):
            async with asyncio.timeout(DEATH):
                await self.wait()

    async def close(self) -> None:
        """Ends the process and lets go of its pipes."""
        try:
            await self.kill()
        finally:
            for transport in self._transports:
                transport.close()

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _pipes(uid: int | None) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """stdin, stdout and stderr: the ends of the command's user, who may thus also open /dev/stdout, and ours."""
    (stdin_out, stdin_in), (stdout_out, stdout_in), (stderr_out, stderr_in) = os.pipe(), os.pipe(), os.pipe()
    theirs, ours = (stdin_out, stdout_in, stderr_in), (stdin_in, stdout_out, stderr_out)
    if uid is not None:
        for descriptor in theirs:
            os.fchown(descriptor, uid, uid)
    return theirs, ours
