"""A running microVM, for all drivers: its processes, its console, and its init, which answers the host."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from ..driver import CONSOLE_BYTES, EXEC_SECONDS, CommandOutcome, StartFailed, Status
from .child import MonitorProcess
from .console import Console
from .control import ask_guest, guest_exec
from .host_sockets import HostSockets
from .socket_dir import SocketDir

ASK_SECONDS = 5.0
_POLL_SECONDS = 0.05
_TAIL = 2000


class MachineRuntime:
    """The processes of one machine. When one of them ends, the machine has ended."""

    url = ""

    def __init__(self, socket_dir: SocketDir, host_sockets: HostSockets, console: Console, grace: float) -> None:
        self.socket_dir, self._host_sockets, self._console, self._grace = socket_dir, host_sockets, console, grace
        self._children: list[MonitorProcess] = []

    def add(self, child: MonitorProcess) -> MonitorProcess:
        """Add a process. The first one carries the vsock and is killed first. The one with output is the machine
        itself, and its output is the console."""
        self._children.append(child)
        if child.has_output:
            self._console.start(child.output)
        return child

    async def wait_until_ready(self, seconds: float) -> None:
        """Wait until the guest's init answers. Raises StartFailed with the end of the console if it does not."""
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

    @property
    def running(self) -> bool:
        return bool(self._children) and all(child.running for child in self._children)

    async def wait(self) -> str:
        waits = {asyncio.create_task(child.wait()): child for child in self._children}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        first = done.pop()
        await self._console.close()
        return f"{first.result()} ({waits[first].name}); {self._last_init_line()}"

    async def stop(self, *, at_once: bool = False) -> None:
        if not at_once and self.running:
            with contextlib.suppress(OSError):  # it stops even if its answer is lost
                await ask_guest(self.socket_dir.uds, {"do": "stop"}, ASK_SECONDS)
            with contextlib.suppress(TimeoutError):  # data is on its disk only after it has ended
                async with asyncio.timeout(self._grace + ASK_SECONDS):
                    await self.wait()
        async with AsyncExitStack() as stack:  # runs all steps, even if one fails
            stack.callback(self.socket_dir.clear)
            stack.push_async_callback(self._console.close)
            for child in self._children:
                stack.push_async_callback(child.kill)
            await self._close_sockets(abruptly=at_once)

    async def status(self) -> Status:
        detail = "runs" if self.running else self._last_init_line()
        return Status(self.running, detail, self._children[-1].pid if self._children else None)

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
            if self._children:
                await self._children[0].kill()

    def _last_init_line(self) -> str:
        lines = [line for line in self._console.read_tail(_TAIL).splitlines() if "agent-init:" in line]
        return lines[-1].strip() if lines else "its init has printed nothing"
