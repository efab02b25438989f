"""A process with an owner: when its `SandboxProcess` is closed, it and all processes that it started are killed.

Two mechanisms ensure this. Closing kills the process group. And a watcher in that group waits for the end of a pipe
that only the server holds, and kills the group when the server dies, in any way and at any moment. Signals at the death
of a parent would not suffice, because a process that is just being started has not set them up yet.

Processes are started with `subprocess` and watched with a pidfd: the event loops differ in how they start processes,
and the faster one passes on descriptors that the server inherited, and uses sockets where programs expect pipes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from agent_common.telemetry import logger

from ...errors import ToolFailure
from ..backends.backend import LIFELINE, LaunchPlan, find_program
from ..errors import BackendUnavailable
from ..kernel.process_tree import command_line, descendants, thread_count

# In bash, because simple shells support only descriptors up to 9.
WATCHER_SCRIPT = '{{ read -r _; kill -KILL 0; }} <&{fd} >/dev/null 2>&1 & exec {fd}<&-; exec "$@"'
LINE_LIMIT = 64 * 1024
KILL_SECONDS = 2.0
"""Seconds to wait for a killed process; only one that hangs inside the kernel takes longer."""

log = logger(__name__)


class SandboxProcess:
    """A confined process, used as `async with await SandboxProcess.start(plan) as child`. Its three streams are
    pipes."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: int, ends_by_lifeline: bool) -> None:
        self._process = process
        self._ends_by_lifeline = ends_by_lifeline
        self._lifeline: int | None = lifeline
        self._transports: list[asyncio.BaseTransport] = []
        self._loop = asyncio.get_running_loop()
        self._guards: list[asyncio.Task[str]] = []
        self.stopped: str | None = None
        """Why a guard ended it; None if none did."""
        self.notice: str | None = None
        """A message for the model about the conditions under which it runs."""
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        self.stdin: asyncio.StreamWriter
        self.stdout: asyncio.StreamReader
        self.stderr: asyncio.StreamReader

    @classmethod
    async def start(cls, launch: LaunchPlan, *, line_limit: int = LINE_LIMIT) -> SandboxProcess:
        """Start the program. `line_limit` is the maximum bytes of a line read. Raises ToolFailure if the system
        cannot."""
        starting = asyncio.create_task(cls._start(launch, line_limit))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The program may be running already: wait for the start, then end it.
            with suppress(ToolFailure):
                await (await starting).close()
            raise

    @classmethod
    async def _start(cls, launch: LaunchPlan, line_limit: int) -> SandboxProcess:
        theirs = [*launch.fds]
        ours = list[int]()
        try:
            streams = [_pipe(theirs, ours, to_them=one, owner=launch.uid) for one in (True, False, False)]
            watched = _pipe(theirs, ours, to_them=True)
            process = subprocess.Popen(  # noqa: ASYNC220 - returns as soon as the program is loaded
                _guarded_argv(launch, watched),
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=dict(launch.env),
                cwd=launch.cwd,
                pass_fds=(watched, *launch.fds),
                start_new_session=True,
            )
        except (OSError, BackendUnavailable) as error:
            for descriptor in ours:
                os.close(descriptor)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolFailure(f"the command could not be started: {reason}", kind="unavailable") from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        *pipes, lifeline = ours
        child = cls(process, lifeline, launch.ends_by_lifeline)
        await child._connect(pipes, line_limit)
        return child

    def add_guard(self, watch: Coroutine[Any, Any, str]) -> None:
        """Watch the process with a coroutine. If that returns a reason, the process is killed."""
        guard = asyncio.create_task(watch)  # itself, so that one which is cancelled before it begins is closed too
        guard.add_done_callback(self._guard_ended)
        self._guards.append(guard)

    def _guard_ended(self, guard: asyncio.Task[str]) -> None:
        if guard.cancelled():
            return
        if error := guard.exception():
            log.error("a guard failed", exc_info=error)
        if self.stopped is None and self.running:
            self.stopped = "it could not be watched any more" if error else guard.result()
            self._send_kill()

    async def _connect(self, pipes: Sequence[int], line_limit: int) -> None:
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
        self._close_lifeline()  # this kills the processes that it left in the background
        for guard in self._guards:
            guard.cancel()
        self._ended.set_result(self._process.wait())

    def _close_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def processes(self) -> dict[int, str]:
        """Return the ids of its processes, each with its command line."""
        return {pid: command_line(pid) for pid in descendants(self.pid)}

    def threads(self) -> int:
        """Return the number of threads of all its processes."""
        return sum(thread_count(pid) for pid in descendants(self.pid))

    @property
    def running(self) -> bool:
        return not self._ended.done() and self._process.poll() is None

    async def wait(self) -> int:
        """Wait for the end. Returns the exit code, or the negative number of the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> None:
        """Kill the process and all that it started. Its output so far can still be read."""
        self._send_kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self.wait()
        if self.running:
            self._ends_by_lifeline = False
            self._send_kill()

    def _send_kill(self) -> None:
        if self.running and not self._ends_by_lifeline:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._close_lifeline()

    async def close(self) -> None:
        """Kill the process and close its pipes."""
        try:
            await self.kill()
        finally:
            if self.stdin.transport.get_write_buffer_size():  # `close` would wait for the write
                self.stdin.transport.abort()
            for transport in self._transports:
                transport.close()
            for guard in self._guards:
                guard.cancel()
            await asyncio.gather(*self._guards, return_exceptions=True)

    async def __aenter__(self) -> SandboxProcess:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _guarded_argv(launch: LaunchPlan, lifeline: int) -> tuple[str, ...]:
    """Return the command to start, guarded so that its whole process group ends with the lifeline."""
    if launch.ends_by_lifeline:
        at = launch.argv.index(LIFELINE)
        return (*launch.argv[:at], str(lifeline), *launch.argv[at + 1 :])
    shell = find_program("bash")
    return (shell, "-c", WATCHER_SCRIPT.format(fd=lifeline), shell, *launch.argv)


def _pipe(theirs: list[int], ours: list[int], *, to_them: bool, owner: int | None = None) -> int:
    """Create a pipe, add its ends to the lists, and return the child's end. `owner` may also open it by name, as
    /dev/stdout."""
    reading, writing = os.pipe()
    their_end, our_end = (reading, writing) if to_them else (writing, reading)
    theirs.append(their_end)
    ours.append(our_end)
    if owner is not None:
        os.fchown(their_end, owner, owner)
    return their_end
