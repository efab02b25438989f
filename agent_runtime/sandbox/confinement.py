"""The face of confinement: chosen once at start, it runs commands and nothing else in the house starts one."""

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
"""Seconds to wait for the end of a dead command's output; only what escaped an unconfined one keeps it open."""
THROTTLE_SECONDS = 0.005
"""Seconds between reads of a command that prints without end. The full pipe slows it down, and the server breathes."""
READ_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended."""

    stdout: str
    stderr: str
    exit_code: int | None
    """None when its deadline or a guard ended it; 128 and the signal's number when a signal did."""
    timed_out: bool = False
    stopped: str | None = None
    """What a guard ended it for, as a sentence for the model."""
    notice: str | None = None
    """What the model should know besides: a folder was full before the command began."""
    truncated: bool = False
    output_path: str | None = None
    """The file with the output, when it was truncated and a place for it was given."""


class Confinement:
    """How commands are held on this machine. `choose_confinement` makes one."""

    def __init__(self, backend: SandboxBackend | None, reason: str = "") -> None:
        self._backend = backend
        self.reason = reason
        """Why there is no rung."""
        self._quotas = QuotaTable()

    @property
    def name(self) -> ConfinementName:
        return "none" if self._backend is None else self._backend.name

    @property
    def uid(self) -> int | None:
        """The user that must own what commands may write; none: the server's own."""
        return None if self._backend is None else self._backend.uid

    @property
    def by_path(self) -> bool:
        """Whether that user must be let through the data folder, to what is its own there."""
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
        """Runs a command to its end or its deadline, in seconds; nothing of it is alive afterwards.

        `helper` is for programs of the product itself, whose input alone comes from the model: they run without
        confinement where there is none. Raises ToolFailure when it cannot be started.
        """
        async with await self._start(argv, spec, helper=helper) as child:
            capture = Capture(output_limit, None if child.notice else spill)  # a full folder takes no output either
            try:
                exit_code = await _communicate(child, capture, timeout, stdin)
            finally:
                capture.close()
        stdout, stderr = capture.texts()
        stopped = child.stopped
        return CommandResult(
            stdout=stdout,
            stderr=stderr,
            exit_code=None if stopped else exit_code,
            timed_out=exit_code is None and not stopped,
            stopped=stopped,
            notice=child.notice if child.notice or stopped else await self._quotas.overrun_message(spec.quotas),
            truncated=capture.truncated,
            output_path=capture.output_path,
        )

    async def spawn(
        self, argv: Sequence[str], spec: SandboxSpec, *, line_limit: int = LINE_LIMIT, helper: bool = False
    ) -> SandboxProcess:
        """Starts a program that goes on running; the caller owns it. Raises ToolFailure when it cannot be started."""
        return await self._start(argv, spec, line_limit, helper=helper, long_running=True)

    async def require_space(self, quota: Quota, size: int) -> None:
        """Lets the server itself write so many bytes there. Raises ToolFailure when the folder has no room for them."""
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
        rung = self._backend or (UnconfinedBackend() if helper else None)
        if rung is None:
            raise ToolFailure(f"commands cannot be run here: {self.reason}", kind="unavailable")
        allowances = await self._quotas.allowances(spec.quotas)
        full = [one.message for one in allowances if one.is_full]
        try:
            launch = rung.launch(argv, _limit_to_quotas(spec, None if long_running else allowances))
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
    """The box with the size of its files bound to its quotas. None: it lives on, and what the disk has room for now
    says nothing about later. Else no single file may fill the disk before the guard looks, and in a full folder
    deleting is all that is left."""
    if not spec.quotas:
        return spec
    if allowances is None:
        room = max(quota.bytes for quota in spec.quotas)
    else:
        room = 0 if any(one.is_full for one in allowances) else max(one.bytes for one in allowances)
    return replace(spec, limits=replace(spec.limits, file_size=min(spec.limits.file_size, room)))


async def _communicate(child: SandboxProcess, capture: Capture, deadline: float, stdin: bytes) -> int | None:
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
        await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
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


async def _pump(source: asyncio.StreamReader, capture: Capture, stream: CapturedStream) -> None:
    while chunk := await source.read(READ_SIZE):
        capture.feed(stream, chunk)
        if capture.full:
            await asyncio.sleep(THROTTLE_SECONDS)
