"""Where secrets come from: the host's own store, a file, or a command such as a keyring's or a secret manager's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_common.clock import Clock
from agent_common.telemetry import Seldom

from ..errors import InvalidRequest, RequestError
from .kept import KeptSecret, KeptSecrets
from .store import SecretStore, checked_value

log = structlog.get_logger(__name__)
COMMAND_SECONDS = 15.0
"""Time that a command has."""
KEPT_SECONDS = 300.0
"""How long what a command has printed is used again."""
_MOST_OUTPUT = 64 * 1024


class SecretUnavailable(RequestError):
    """The secret of this service cannot be read; the operator finds the reason in the host's log."""

    status = 503
    code = "secret_unavailable"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file that something else writes. It is read for each use."""

    path: Path


@dataclass(frozen=True, slots=True)
class CommandSource:
    """A program that prints the secret."""

    argv: Sequence[str]


SecretSource = FileSource | CommandSource


class Secrets:
    """Reads secrets by name. What is never found out here is what they are: no error and no log line quotes one."""

    def __init__(
        self,
        store: SecretStore,
        sources: Mapping[str, SecretSource],
        clock: Clock,
        command_seconds: float = COMMAND_SECONDS,
    ) -> None:
        self._store = store
        self._sources = sources
        self._clock = clock
        self._command_seconds = command_seconds
        self._printed = KeptSecrets(clock)
        self._lines = Seldom(now=clock.monotonic)

    async def get(self, name: str) -> str:
        """Return a secret. Raises SecretUnavailable."""
        source = self._sources.get(name)
        try:
            if isinstance(source, CommandSource):
                return await self._printed.get(name, lambda: self._print(source))
            text = await asyncio.to_thread(self._read, name, source)
            if text is None:
                raise OSError(f"it is not set; use `agent-host secret set {name}`")
            return checked_value(text)
        except (OSError, UnicodeDecodeError, InvalidRequest) as error:
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)  # which quotes the bytes
            more = self._lines.facts_of_event(f"{name} {why}")
            if more is not None:
                log.error("secret_unavailable", secret=name, why=why, **more)
            raise SecretUnavailable from None

    def _read(self, name: str, source: FileSource | None) -> str | None:
        return self._store.read(name) if source is None else source.path.read_text("utf-8")

    async def _print(self, source: CommandSource) -> KeptSecret:
        value = checked_value((await _run(source.argv, self._command_seconds)).decode("utf-8"))
        return KeptSecret(value, self._clock.monotonic() + KEPT_SECONDS)


async def _run(argv: Sequence[str], seconds: float) -> bytes:
    """Run a command and return what it prints. Raises OSError. What it says on stderr is discarded: it may quote."""
    nowhere = asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(
        *argv, stdin=nowhere, stdout=asyncio.subprocess.PIPE, stderr=nowhere, start_new_session=True
    )
    assert child.stdout is not None  # noqa: S101  a pipe
    try:
        async with asyncio.timeout(seconds):
            printed = b""
            while (piece := await child.stdout.read(_MOST_OUTPUT)) and len(printed) <= _MOST_OUTPUT:
                printed += piece
            code = await child.wait() if len(printed) <= _MOST_OUTPUT else None
    except TimeoutError:
        raise OSError(f"{argv[0]} has not ended within {seconds:g} s") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # what it has started holds its output open, and so the wait
            await child.wait()
    if code is None:
        raise OSError(f"{argv[0]} printed more than {_MOST_OUTPUT} bytes")
    if code:
        raise OSError(f"{argv[0]} ended with the exit code {code}")
    return printed
