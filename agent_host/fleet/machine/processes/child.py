"""A process on the host that belongs to one machine, as a child of this process of the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from ...driver import DIE_WITH_PARENT, StartFailed
from ...process_group import signal_group
from ..jail import Jail

KILL_SECONDS = 5.0
_PIECE = 1 << 16
_PASSED = ("PATH", "LANG", "TMPDIR", "HOME")


class MonitorProcess:
    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process

    @classmethod
    async def spawn(
        cls,
        name: str,
        command: Sequence[str],
        *,
        output: int,
        env: Mapping[str, str] | None = None,
        jail: Jail | None = None,
        files: Sequence[int] = (),
        held: bool = False,
    ) -> MonitorProcess:
        """Start the process, which is killed when the host dies. Raises StartFailed if it cannot be started.

        `name` is for messages. `output`: `PIPE` or `DEVNULL`, for standard output and standard error. `env` is added to
        the few variables that are inherited. `files`: descriptors that the process keeps. `held`: the command does not
        run before `release`, and then outlives the host.
        """
        given = {key: os.environ[key] for key in _PASSED if key in os.environ}
        user = ("--uid=" + ",".join(map(str, (jail.uid, *jail.groups))),) if jail else ()
        hold = ("--until-released",) if held else ()
        try:
            process = await asyncio.create_subprocess_exec(
                *DIE_WITH_PARENT,
                *user,
                *hold,
                str(os.getpid()),
                *command,
                stdin=asyncio.subprocess.PIPE if held else asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**given, **(env or {})},
                start_new_session=True,
                pass_fds=files,
            )
        except OSError as error:
            raise StartFailed(f"{name} does not start: {error}") from error
        return cls(name, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def has_output(self) -> bool:
        return self._process.stdout is not None

    @property
    def output(self) -> asyncio.StreamReader:
        """The process's output. Raises RuntimeError if it was not started with `PIPE`."""
        if self._process.stdout is None:
            raise RuntimeError(f"{self.name} was started without a pipe")
        return self._process.stdout

    def release(self) -> None:
        """Let a process that was started `held` run its command."""
        if self._process.stdin is not None:
            self._process.stdin.write(b"\n")
            self._process.stdin.close()

    async def wait(self) -> str:
        code = await self._process.wait()
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"

    async def kill(self) -> None:
        """Kill the process and all processes that it has started. Idempotent."""
        signal_group(self._process, signal.SIGKILL)
        async with asyncio.timeout(KILL_SECONDS):
            await asyncio.gather(self._process.wait(), self._drain_output())

    async def _drain_output(self) -> None:
        """Read the rest of the output, because the process's end is not reported before that."""
        stream = self._process.stdout
        with contextlib.suppress(RuntimeError):  # another task reads it
            while stream is not None and await stream.read(_PIECE):
                pass
