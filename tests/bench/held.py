"""What it costs to hold a command: one that does nothing, confined, in bubblewrap alone, and bare."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_runtime.sandbox import Confinement, SandboxSpec, choose_confinement

from .load import Samples
from .targets import Live

NOTHING = ("bash", "-c", "true")
_BWRAP = ("bwrap", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--")
"""The least that is a box: no files of its own, no user of its own, no limits, nobody who ends it."""


async def holding(_live: Live, _provider: str, commands: int = 25) -> Samples:
    """Milliseconds from the wish to the exit code, one of each kind after the other. The bare ones are started as
    Python starts a program, and waited for in the way that costs least."""
    samples: Samples = {"confined": [], "bubblewrap": [], "bare": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as data:
        confinement = await choose_confinement("required", Path(data))
        work = Path(tempfile.mkdtemp(dir=data))
        if confinement.uid is not None:
            os.chown(work, confinement.uid, confinement.uid)
        box = SandboxSpec(workdir=work, writable=(work,))
        kinds: dict[str, Callable[[], Awaitable[int | None]]] = {
            "confined": lambda: _confined(confinement, box),
            "bubblewrap": lambda: _plain((*_BWRAP, *NOTHING)),
            "bare": lambda: _plain(NOTHING),
        }
        for number in range(commands + 1):
            for kind, start in kinds.items():
                began = time.perf_counter()
                if (code := await start()) != 0:
                    raise RuntimeError(f"a command that does nothing, {kind}, ended with {code}")
                if number:  # the first of each loads what later ones share
                    samples[kind].append((time.perf_counter() - began) * 1000)
    ratio = statistics.median(samples["confined"]) / statistics.median(samples["bubblewrap"])
    return {**samples, "ratio": [ratio]}


async def _confined(confinement: Confinement, box: SandboxSpec) -> int | None:
    return (await confinement.run(NOTHING, box, timeout=10.0)).exit_code


async def _plain(argv: tuple[str, ...]) -> int:
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:  # noqa: ASYNC220
        return await asyncio.to_thread(process.wait, 10.0)
