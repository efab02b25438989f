"""A process of the host's that belongs to one machine. It dies with the host, whatever kills that."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from ..driver import DIE_WITH_PARENT, StartFailed
from .jail import Jail

_KILL_SECONDS = 5.0
_PIECE = 1 << 16
_PASSED = ("PATH", "LANG", "TMPDIR", "HOME")


class MonitorProcess:
    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name, self._process = name, process

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
    ) -> MonitorProcess:
        """`output` is where its standard output goes, `PIPE` or `DEVNULL`; its errors go there too. It is told nothing
        of the host's environment but where things are, and has the open `files`. Raises StartFailed."""
        given = {key: os.environ[key] for key in _PASSED if key in os.environ}
        user = ("--uid=" + ",".join(map(str, (jail.uid, *jail.groups))),) if jail else ()
        try:
            process = await asyncio.create_subprocess_exec(
                *DIE_WITH_PARENT,
                *user,
                str(os.getpid()),
                *command,
                stdin=asyncio.subprocess.DEVNULL,
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
        """What it prints, when that was asked for."""
        if self._process.stdout is None:
            raise RuntimeError(f"{self.name} was started without a pipe")
        return self._process.stdout

    async def wait(self) -> str:
        code = await self._process.wait()
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"

    async def kill(self) -> None:
        """At once, with all that it has started. Again is a no-op."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        async with asyncio.timeout(_KILL_SECONDS):
            await asyncio.gather(self._process.wait(), self._drain_output())

    async def _drain_output(self) -> None:
        """Its end is not noticed while something of it waits to be read."""
        stream = self._process.stdout
        with contextlib.suppress(RuntimeError):  # somebody else reads it
            while stream is not None and await stream.read(_PIECE):
                pass
