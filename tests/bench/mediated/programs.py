"""Programs that the bench starts and asks: one JSON line each way over a unix socket, apart from what is measured."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from agent_common.http import tune_interpreter
from agent_testing import LiveProcess

Command = Callable[..., Awaitable[Any]]
_PATIENCE = 120.0


class Program:
    """One that runs, as the bench sees it."""

    def __init__(self, process: LiveProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process, self._reader, self._writer = process, reader, writer

    async def ask(self, command: str, *arguments: Any) -> Any:
        """Raises RuntimeError with what it has printed when it does not answer."""
        self._writer.write(json.dumps([command, *arguments]).encode() + b"\n")
        line = await asyncio.wait_for(self._reader.readline(), _PATIENCE)
        if not line:
            raise RuntimeError(f"{' '.join(self._process.argv)} failed:\n{self._process.output()[-4000:]}")
        return json.loads(line)


@asynccontextmanager
async def program(module: str, folder: Path, *arguments: object) -> AsyncGenerator[Program]:
    """Runs `tests.bench.mediated.MODULE FOLDER ARGUMENTS...` until it is no longer wanted."""
    control = folder / f"{module}.control"
    argv = [sys.executable, "-m", f"tests.bench.mediated.{module}", str(folder), *map(str, arguments)]
    with LiveProcess(argv, timeout=_PATIENCE) as process:
        await asyncio.to_thread(process.wait_for_output, r"(?m)^ready$")
        reader, writer = await asyncio.open_unix_connection(str(control), limit=1 << 24)
        try:
            yield Program(process, reader, writer)
        finally:
            writer.close()


async def obey(module: str, folder: Path, commands: Mapping[str, Command]) -> None:
    """The other end: answers commands until the bench hangs up."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                name, *arguments = json.loads(line)
                writer.write(json.dumps(await commands[name](*arguments)).encode() + b"\n")
        finally:
            writer.close()
            over.set()

    server = await asyncio.start_unix_server(serve, str(folder / f"{module}.control"))
    tune_interpreter()  # as our servers do, the floor too
    print("ready", flush=True)
    await over.wait()
    server.close()


def run(main: Callable[..., Any], loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop) -> None:
    """With the folder and the other arguments, on the loop that our servers use unless it is another one."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main(Path(sys.argv[1]), *sys.argv[2:]))
