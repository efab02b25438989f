"""Reads scripts in a process of its own: the parser is C code, and what it reads may be written to break it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path

from ..errors import ToolFailure
from ..sandbox import Box, Child, Confinement, Limits
from ..telemetry import logger
from .shell import LIMIT, Commands, commands

PROGRAM = Path(__file__).with_name("shell_worker.py")
SECONDS = 3.0
ANSWER = 2 * 1024 * 1024
"""Bytes of an answer: a script may run a command many times."""
REMEMBERED = 64
LIMITS = Limits(memory=256 * 1024 * 1024, processes=256)

ReadScript = Callable[[str], Awaitable[Commands]]
"""What a script runs. Never raises; what cannot be read is opaque."""
UNREADABLE = Commands(opaque=True)

log = logger(__name__)


async def read_here(script: str) -> Commands:
    """In this process, where scripts can be trusted."""
    return await asyncio.to_thread(commands, script)


class ShellReader:
    """Its process starts with the first script and is replaced when it breaks. `close` it."""

    def __init__(self, confinement: Confinement, program: Path = PROGRAM, seconds: float = SECONDS) -> None:
        self._confinement, self._program, self._seconds = confinement, program, seconds
        self._child: Child | None = None
        self._one_at_a_time = asyncio.Lock()
        self._known: OrderedDict[str, Commands] = OrderedDict()
        """Rules and the watchdog look at the same call."""

    async def read(self, script: str) -> Commands:
        if len(script) > LIMIT:
            return UNREADABLE
        async with self._one_at_a_time:
            found = self._known.get(script) or await self._ask(script)
            if found is not UNREADABLE:  # which another time it may not be
                self._known[script] = found
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.close()

    async def _ask(self, script: str) -> Commands:
        answered = False
        try:
            async with asyncio.timeout(self._seconds):
                child = await self._ready()
                child.stdin.write(json.dumps(script).encode() + b"\n")
                await child.stdin.drain()
                answer = json.loads(await child.stdout.readline())
            found = Commands(
                texts=tuple(answer["texts"]),
                opaque=answer["opaque"],
                vague=answer["vague"],
                pipelines=tuple(answer["pipelines"]),
                writes=tuple(answer["writes"]),
            )
            answered = True
            return found
        except (TimeoutError, OSError, ValueError, TypeError, KeyError, ToolFailure) as error:
            log.warning("a script could not be read", error=str(error) or type(error).__name__)
            return UNREADABLE
        finally:
            if not answered:
                await self.close()

    async def _ready(self) -> Child:
        if self._child is None or not self._child.running:
            await self.close()
            folder = self._program.parent
            box = Box(workdir=folder, readable=(folder,), limits=LIMITS)
            argv = (sys.executable, "-I", str(self._program))
            self._child = await self._confinement.spawn(argv, box, line_limit=ANSWER, helper=True)
        return self._child
