"""A running microVM, for all drivers: its processes, its console, and its init, which answers the host."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from ..console import Console
from ..driver import CONSOLE_BYTES, EXEC_SECONDS, CommandOutcome, P, StartFailed, Status
from .control import ask_guest, connect_guest, guest_exec
from .host_sockets import HostSockets
from .jail import Jail
from .processes import AdoptedProcess, MachineRecord, MonitorProcess, ProcessRecord, delete_record, write_record
from .settings import MachineSettings
from .socket_dir import SocketDir

ASK_SECONDS = 5.0
_POLL_SECONDS = 0.05
_LAST_SECONDS = 1.0
"""Time for the machine to end after another of its processes has: that one often ends because the machine does."""
_TAIL = 2000
AGENT_PORT = 8400
"""The guest's port of the agent's HTTP server."""


class MachineRuntime:
    """The processes of one machine. When one of them ends, the machine has ended."""

    url = ""

    def __init__(
        self,
        settings: MachineSettings,
        socket_dir: SocketDir,
        host_sockets: HostSockets,
        console: Console,
        record: MachineRecord,
    ) -> None:
        self.socket_dir = socket_dir
        self._host_sockets = host_sockets
        self._console = console
        self._settings = settings
        self._record = record
        self._processes: list[MonitorProcess | AdoptedProcess] = []

    # ---------------------------------------------------------------- start and adoption

    async def spawn(
        self, name: str, command: Sequence[str], *, output: int, jail: Jail | None = None, files: Sequence[int] = ()
    ) -> MonitorProcess:
        """Start a process of the machine. Raises StartFailed.

        The first one carries the vsock and is killed first. The last one is the machine itself. Output goes to the
        console. A process that outlives the host runs only once it is on record.
        """
        if not self._processes:
            self._console.begin()
        held = self._settings.outlives_host
        process = await MonitorProcess.spawn(name, command, output=output, jail=jail, files=files, held=held)
        self._processes.append(process)
        if process.has_output:
            self._console.follow(process.output)
        if held:
            await self._save(self._record.with_process(ProcessRecord.of(name, process.pid)))
            process.release()
        return process

    async def wait_until_booted(self) -> None:
        """Wait until the guest answers, and record that the machine can be adopted from now on. Raises StartFailed."""
        await self.wait_until_ready()
        if self._settings.outlives_host:
            await self._save(self._record.with_guest())

    def adopt_processes(self) -> bool:
        """Take over the processes on record. Returns False if the machine is not complete; then it must be stopped."""
        found = [AdoptedProcess.find(one) for one in self._record.processes]
        self._processes = [process for process in found if process is not None]
        return self._record.booted and None not in found

    async def follow_console(self) -> None:
        """Write the console of an adopted machine too, if its monitor has a socket for it. Raises OSError."""
        if await asyncio.to_thread(self.socket_dir.console.is_socket):
            await self._console.connect(self.socket_dir.console)

    async def wait_until_ready(self) -> None:
        """Wait until the guest's init answers. Raises StartFailed with the end of the console if it does not."""
        seconds = self._settings.start_timeout
        deadline = time.monotonic() + seconds
        why = "nothing yet"
        while time.monotonic() < deadline and self.running:
            try:
                await ask_guest(self.socket_dir.uds, {"do": "ping"}, min(ASK_SECONDS, seconds))
            except OSError as error:
                why = str(error) or type(error).__name__
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return
        if self.running:
            why = f"the guest did not answer within {seconds:g} s (MESH_START_TIMEOUT): {why}"
        else:
            why = "the machine ended before its guest answered"
        raise StartFailed(f"{why}; the end of its console: {self._console.read_tail(_TAIL).strip()}")

    async def _save(self, record: MachineRecord) -> None:
        self._record = record
        await asyncio.to_thread(write_record, self.socket_dir.folder, record)

    # ---------------------------------------------------------------- its end

    @property
    def running(self) -> bool:
        return bool(self._processes) and all(process.running for process in self._processes)

    async def wait(self) -> str:
        waits = [asyncio.create_task(process.wait()) for process in self._processes]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(waits[-1:], timeout=_LAST_SECONDS)
        finally:
            for task in waits:
                task.cancel()
        first = waits[-1] if waits[-1].done() else done.pop()
        await self._console.close()
        return f"{first.result()} ({self._processes[waits.index(first)].name}); {self._last_init_line()}"

    async def stop(self, *, at_once: bool = False) -> None:
        try:
            if not at_once and self.running:
                await self._ask_to_stop()
        finally:  # whatever the guest does, and also when the caller has given up
            await self._kill(abruptly=at_once)

    async def _ask_to_stop(self) -> None:
        with contextlib.suppress(OSError):  # it stops even if its answer is lost
            await ask_guest(self.socket_dir.uds, {"do": "stop"}, ASK_SECONDS)
        with contextlib.suppress(TimeoutError):  # data is on its disk only after it has ended
            async with asyncio.timeout(self._settings.stop_grace + ASK_SECONDS):
                await self.wait()

    async def _kill(self, *, abruptly: bool) -> None:
        async with AsyncExitStack() as stack:  # runs all steps, even if one fails
            stack.callback(self.socket_dir.clear)
            stack.push_async_callback(self._console.close)
            for process in self._processes:
                stack.push_async_callback(process.kill)
            await self._close_sockets(abruptly=abruptly)
        await asyncio.to_thread(delete_record, self.socket_dir.folder)  # only once all processes have ended

    async def status(self) -> Status:
        detail = "runs" if self.running else self._last_init_line()
        return Status(self.running, detail, self._processes[-1].pid if self._processes else None)

    async def connect(self, protocol: Callable[[], P]) -> P:
        return await connect_guest(self.socket_dir.uds, AGENT_PORT, protocol)

    async def console(self) -> str:
        return await asyncio.to_thread(self._console.read_tail, CONSOLE_BYTES)

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        return await guest_exec(self.socket_dir.uds, argv, timeout)

    async def quarantine(self) -> None:
        await self.stop(at_once=True)

    async def _close_sockets(self, *, abruptly: bool) -> None:
        """Cut the guest off from the host: kill the process that carries the vsock, then close the sockets."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._host_sockets.close, self.socket_dir, abruptly=abruptly)
            stack.callback(self.socket_dir.uds.unlink, missing_ok=True)
            if self._processes:
                await self._processes[0].kill()

    def _last_init_line(self) -> str:
        lines = [line for line in self._console.read_tail(_TAIL).splitlines() if "agent-init:" in line]
        return lines[-1].strip() if lines else "its init has printed nothing"
