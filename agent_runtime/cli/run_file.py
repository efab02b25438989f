"""`agent-runtime run`: carry out one request from a file, without a port, then end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from agent_common.http import end_if_stalled

from ..errors import StartError
from ..settings import Settings


def run(settings: Settings, source: Path, target: Path) -> bool:
    """Carry out the request in `source` and write its result to `target`. Return whether it was completed. Raises
    StartError."""
    import uvloop

    return uvloop.run(_main(settings, source, target))


async def _main(settings: Settings, source: Path, target: Path) -> bool:
    from ..runtime import Runtime

    if settings.mediation_url is not None:
        raise StartError("AGENT_MEDIATION_URL is set: work comes over that channel (serve), or from a file (run)")
    end_if_stalled("agent-runtime", settings.stall_timeout)
    runtime = Runtime(settings)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        await asyncio.to_thread(runtime.open)
        await runtime.start()
        working = asyncio.create_task(runtime.run_file(source, target))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not working.done():
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            raise StartError("stopped before the work was done: run it again to continue")
        return await working
    finally:
        await runtime.drain()
        await runtime.close()
