"""Run runtimes in microVMs of microagent: its command-line program does everything and answers with JSON.

Written to its documented commands and tested against a stand-in, not against the program itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from agent_common.json_reader import JsonLimits, JsonRefused, read_json
from agent_common.protocol import is_object

from ..driver import CONSOLE_BYTES, EXEC_SECONDS, CommandOutcome, LaunchRequest, NotOffered, P, StartFailed, Status
from .container import run_engine

_POLL_SECONDS = 1.0
_QUICK = 30.0
_ANSWER = JsonLimits(8 << 20, max_values=10_000)
"""Limits of what the program prints, which holds output of the guest."""


class MicroagentDriver:
    """Starts workspaces that the operator has created with microagent from `images/microagent.yaml`, under the agent's
    id. Mediation is declared in that file."""

    passes_settings = False
    sees_host_files = False

    def __init__(self, program: tuple[str, ...], start_timeout: float, poll: float = _POLL_SECONDS) -> None:
        self._program = program
        self._start_timeout = start_timeout
        self._poll = poll

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return None

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        await run_json(self._program, "inspect", workspace_id)

    async def remove(self, workspace_id: str) -> Path | None:
        return None

    async def start(self, launch: LaunchRequest) -> MicroagentRuntime:
        runtime = MicroagentRuntime(self._program, launch.id, self._poll)
        await run_json(self._program, "start", launch.id, seconds=self._start_timeout)
        try:
            await runtime.wait_until_ready(self._start_timeout)
        except BaseException:
            await asyncio.shield(runtime.stop(at_once=True))
            raise
        return runtime


def _ignore_pause(_paused: bool) -> None:
    return


class MicroagentRuntime:
    url = ""

    def __init__(self, program: tuple[str, ...], name: str, poll: float) -> None:
        self._program = program
        self._name = name
        self._poll = poll
        self._paused = False
        self.on_paused: Callable[[bool], None] = _ignore_pause

    async def wait_until_ready(self, seconds: float) -> None:
        """Wait until microagent reports a running machine with a reachable mediation target. Raises StartFailed if it
        does not in time."""
        try:
            async with asyncio.timeout(seconds):
                while not _ready(seen := await run_json(self._program, "inspect", self._name)):
                    if seen.get("state") == "failed":
                        raise StartFailed(f"microagent: {seen.get('error') or 'the workspace failed'}")
                    await asyncio.sleep(self._poll)
        except TimeoutError:
            raise StartFailed(f"microagent: the workspace was not ready within {seconds:g} s") from None

    async def wait(self) -> str:
        try:
            while (status := await self.status()).running:
                self._set_paused(status.detail == "paused")
                await asyncio.sleep(self._poll)
            return f"ended: {status.detail}"
        except StartFailed as error:
            return f"cannot be watched: {error}"
        finally:
            self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self.on_paused(paused)

    async def stop(self, *, at_once: bool = False) -> None:
        try:
            await run_json(self._program, "halt" if at_once else "stop", self._name)
        except StartFailed:
            if (await self.status()).running:
                raise

    async def status(self) -> Status:
        """Return the status. A paused machine counts as running, because it keeps its state and continues."""
        seen = await run_json(self._program, "inspect", self._name)
        state = str(seen.get("state", "unknown"))
        return Status(state in ("running", "paused", "starting"), state)

    async def connect(self, protocol: Callable[[], P]) -> P:
        raise NotOffered("microagent offers no way to the agent's own API")

    async def console(self) -> str:
        output = await run_engine(self._program, "logs", self._name, seconds=_QUICK, check=False)
        return output.stdout[-CONSOLE_BYTES:]

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        try:
            reply = await run_json(self._program, "exec", self._name, "--", *argv, seconds=timeout)
        except StartFailed as error:
            raise OSError(str(error)) from error
        code = reply.get("exit_code")
        return CommandOutcome(
            code if isinstance(code, int) else None, str(reply.get("stdout", "")), str(reply.get("stderr", ""))
        )

    async def quarantine(self) -> None:
        """Use microagent's own quarantine, which stores a fence, cuts all connections, and stops the machine."""
        await run_json(self._program, "quarantine", self._name)


def _ready(seen: dict[str, Any]) -> bool:
    mediation = seen.get("mediationReady")
    if not isinstance(mediation, dict):
        return False
    return seen.get("state") == "running" and cast("dict[str, Any]", mediation).get("ready") is True


async def run_json(program: tuple[str, ...], verb: str, *arguments: str, seconds: float = _QUICK) -> dict[str, Any]:
    """Run a command of the program, and return the JSON object that it prints. Raises StartFailed if it fails."""
    # `--json` comes first, because the arguments may contain a command for the guest.
    output = await run_engine(program, verb, "--json", *arguments, seconds=seconds)
    if output.code is None:
        raise StartFailed(output.stderr)
    try:
        found: Any = read_json(output.stdout.encode(), _ANSWER)
    except JsonRefused as refusal:
        raise StartFailed(f"{program[0]} {verb} answers no JSON ({refusal}): {output.stdout[:200]!r}") from refusal
    if not is_object(found):
        raise StartFailed(f"{program[0]} {verb} answers no object")
    return found
