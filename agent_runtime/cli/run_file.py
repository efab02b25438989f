"""`agent-runtime run`: one request from a file, without a port. The workspace ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from ..errors import StartError
from ..settings import Settings


def run(settings: Settings, source: Path, target: Path) -> bool:
    """Whether the work was completed; the result is in `target`. Raises StartError."""
    import uvloop

    return uvloop.run(_main(settings, source, target))


async def _main(settings: Settings, source: Path, target: Path) -> bool:
    from ..runtime import Runtime

    if settings.mediation_url is not None:
        raise StartError("AGENT_MEDIATION_URL is set: work comes over that channel (serve), or from a file (run)")
    runtime = Runtime(settings)
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    try:
        runtime.open()
        await runtime.start()
        working = asyncio.create_task(runtime.run_file(source, target))
        stopping = asyncio.create_task(stop_requested.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            raise StartError("stopped before the work was done: run it again to go on")
        return await working
    finally:
        await runtime.drain()
        await runtime.close()
