"""Run commands confined. The backend is chosen once at start, and no other package starts commands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import ToolFailure
from .backends.backend import SandboxBackend
from .backends.unconfined import UnconfinedBackend
from .errors import BackendUnavailable
from .run import resource_watch
from .run.capture import OUTPUT_LIMIT, Capture, CapturedStream, OpenSpill
from .run.process import LINE_LIMIT, SandboxProcess
from .run.quota import FULL_MESSAGE, Allowance, QuotaTable
from .spec.spec import Quota, SandboxSpec

ConfinementName = Literal["bubblewrap", "uid", "landlock", "off", "none"]

DRAIN_SECONDS = 1.0
"""Seconds to wait for the end of a dead command's output, which only processes of an unconfined one keep open."""
THROTTLE_SECONDS = 0.005
"""Seconds between reads of a command that prints endlessly: the full pipe slows it down and frees the server."""
READ_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command."""

    stdout: str
    stderr: str
    exit_code: int | None
    """None if its deadline or a guard ended it; 128 plus the signal's number if a signal did."""
    timed_out: bool = False
    stopped: str | None = None
    """Why a guard ended it, as a sentence for the model; None if none did."""
    notice: str | None = None
    """A further message for the model: a folder was full before the command began, or there is no file."""
    truncated: bool = False
    output_path: str | None = None
    """The file with the whole output, if it was truncated and a file was provided."""


class Confinement:
    """Runs commands with the backend of this machine. `choose_confinement` makes one."""

    def __init__(self, backend: SandboxBackend | None, reason: str = "") -> None:
        self._backend = backend
        self.reason = reason
        """Why there is no backend."""
        self._quotas = QuotaTable()

    @property
    def name(self) -> ConfinementName:
        return "none" if self._backend is None else self._backend.name

    @property
    def uid(self) -> int | None:
        """The user that must own what commands may write; None: the server's own."""
        return None if self._backend is None else self._backend.uid

    @property
    def by_path(self) -> bool:
        """Whether that user needs access through the data folder to reach its own folders."""
        return self._backend is not None and self._backend.by_path

    async def run(
        self,
        argv: Sequence[str],
        spec: SandboxSpec,
        *,
        timeout: float,  # noqa: ASYNC109 - the deadline is part of the answer, not an error
        stdin: bytes = b"",
        output_limit: int = OUTPUT_LIMIT,
        spill: OpenSpill | None = None,
        helper: bool = False,
    ) -> CommandResult:
        """Run a command to its end or its deadline in seconds; none of its processes is left afterwards.

        `helper` is for programs of the product, of which only the input comes from the model: they run even if there is
        no confinement. Raises ToolFailure if it cannot be started.
        """
        async with await self._start(argv, spec, helper=helper) as child:
            capture = Capture(output_limit, None if child.notice else spill)  # no space for output in a full folder
            try:
                exit_code = await _communicate(child, capture, timeout, stdin)
            finally:
                capture.close()
        stdout, stderr = capture.texts()
        stopped = child.stopped
        notice = child.notice if child.notice or stopped else await self._quotas.overrun_message(spec.quotas)
        return CommandResult(
            stdout=stdout,
            stderr=stderr,
            exit_code=None if stopped else exit_code,
            timed_out=exit_code is None and not stopped,
            stopped=stopped,
            notice="; ".join(one for one in (notice, capture.fault) if one) or None,
            truncated=capture.truncated,
            output_path=capture.output_path,
        )

    async def spawn(
        self, argv: Sequence[str], spec: SandboxSpec, *, line_limit: int = LINE_LIMIT, helper: bool = False
    ) -> SandboxProcess:
        """Start a long-running program, which the caller owns. Raises ToolFailure if it cannot be started."""
        return await self._start(argv, spec, line_limit, helper=helper, long_running=True)

    async def require_space(self, quota: Quota, size: int) -> None:
        """Raise ToolFailure if the folder has no room for `size` more bytes from the server."""
        await self._quotas.require_space(quota, size)

    async def _start(
        self,
        argv: Sequence[str],
        spec: SandboxSpec,
        line_limit: int = LINE_LIMIT,
        *,
        helper: bool = False,
        long_running: bool = False,
    ) -> SandboxProcess:
        backend = self._backend or (UnconfinedBackend() if helper else None)
        if backend is None:
            raise ToolFailure(f"commands cannot be run here: {self.reason}", kind="unavailable")
        allowances = await self._quotas.allowances(spec.quotas)
        full = [one.message for one in allowances if one.is_full]
        try:
            launch = backend.launch(argv, _limit_to_quotas(spec, None if long_running else allowances))
        except (BackendUnavailable, OSError) as error:
            raise ToolFailure(f"commands cannot be run here: {error}", kind="unavailable") from error
        child = await SandboxProcess.start(launch, line_limit=line_limit)
        child.add_guard(resource_watch.watch_tree(child.pid, spec.limits))
        if allowances:
            child.add_guard(resource_watch.watch_folders(child.pid, allowances))
        if full:
            child.notice = f"{'; '.join(full)}. {FULL_MESSAGE}"
        return child


def _limit_to_quotas(spec: SandboxSpec, allowances: Sequence[Allowance] | None) -> SandboxSpec:
    """Return the spec with the maximum file size bound to its quotas.

    `allowances` None: a long-running program, for which the present free space means little. Otherwise no single file
    may fill the disk before the guard notices, and in a full folder the command can only delete.
    """
    if not spec.quotas:
        return spec
    if allowances is None:
        bytes_left = max(quota.bytes for quota in spec.quotas)
    else:
        bytes_left = 0 if any(one.is_full for one in allowances) else max(one.bytes for one in allowances)
    return replace(spec, limits=replace(spec.limits, file_size=min(spec.limits.file_size, bytes_left)))


async def _communicate(child: SandboxProcess, capture: Capture, deadline: float, stdin: bytes) -> int | None:
    """Send the input and collect the output until the command ends. Returns its exit code, or None after the
    deadline."""
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
        await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    return exit_code


async def _feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(ConnectionError):  # a command may ignore its input
        stdin.write(data)
        await stdin.drain()
    stdin.close()


async def _pump(source: asyncio.StreamReader, capture: Capture, stream: CapturedStream) -> None:
    while chunk := await source.read(READ_SIZE):
        capture.feed(stream, chunk)
        if capture.full:
            await asyncio.sleep(THROTTLE_SECONDS)
