"""Which rung holds the commands of this server: tried for real, once, at start."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ..errors import AgentRuntimeError, StartError
from ..telemetry import logger
from .bare import Bare
from .box import Box
from .bubblewrap import Bubblewrap
from .confinement import Confinement
from .rung import Missing, Rung

ConfinementMode = Literal["auto", "required", "off"]

Build = Callable[[Path], Rung]

RUNGS: tuple[Build, ...] = (Bubblewrap.here,)
"""Best first."""
PROBE_SECONDS = 10.0
# Run inside the rung: it must be able to do what commands need, and unable to do what they must not.
PROBE = """
import os, socket, sys
hidden, uid = sys.argv[1], os.getuid()
open("written", "w").close()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
try:
    socket.socket(40, socket.SOCK_STREAM)
    vsock = True
except OSError:
    vsock = False
faults = [
    *(["it runs as root"] if uid == 0 else []),
    *(["it keeps capabilities"] if int(status["CapEff"], 16) else []),
    *(["it may gain privileges"] if status["NoNewPrivs"].strip() != "1" else []),
    *(["no filter is in force"] if status["Seccomp"].strip() != "2" else []),
    *(["it can open AF_VSOCK"] if vsock else []),
    *(["it sees the data folder"] if os.path.exists(os.path.join(hidden, "secret")) else []),
    *(["it sees the server's processes"] if os.getpid() > 100 else []),
]
sys.exit("; ".join(faults) or 0)
"""

log = logger(__name__)


async def choose_confinement(mode: ConfinementMode, data_dir: Path) -> Confinement:
    """The best rung that works here. The data folder is never shown to a command, apart from what its box names.

    `auto` takes what there is; with nothing, commands are refused and say so. `required` raises StartError instead.
    `off` runs commands bare.
    """
    if mode == "off":
        log.warning("confinement off", effect="commands and skills run as the server itself and can read its token")
        return Confinement(Bare())
    reasons: list[str] = []
    for build in RUNGS:
        rung, fault = await _try(build, data_dir)
        if rung is not None:
            return Confinement(rung)
        reasons.append(fault)
    reason = f"bubblewrap does not work ({'; '.join(reasons)}). Install it, or set AGENT_CONFINEMENT=off to run bare"
    if mode == "required":
        raise StartError(f"AGENT_CONFINEMENT=required, but {reason}")
    log.warning("confinement unavailable", reason=reason, effect="bash and skills are unavailable")
    return Confinement(None, reason)


async def _try(build: Build, data_dir: Path) -> tuple[Rung | None, str]:
    """The rung when it holds, else why not."""
    try:
        rung = build(data_dir)
        with tempfile.TemporaryDirectory(prefix="probe-", dir=data_dir) as hidden:
            fault = await _probe(rung, Path(hidden))
            return (None, fault) if fault else (rung, "")
    except (Missing, AgentRuntimeError, OSError) as error:
        return None, str(error)


async def _probe(rung: Rung, folder: Path) -> str:
    """Empty when the rung holds; else what it printed."""
    (folder / "secret").touch()
    work = folder / "work"
    work.mkdir()
    if rung.uid is not None:
        os.chown(work, rung.uid, rung.uid)
    argv = (sys.executable, "-I", "-S", "-c", PROBE, str(folder))
    done = await Confinement(rung).run(argv, Box(workdir=work, writable=(work,)), timeout=PROBE_SECONDS)
    if done.timed_out:
        return f"it did not answer within {PROBE_SECONDS:.0f} s"
    return "" if done.exit_code == 0 else done.stderr.strip() or f"it ended with {done.exit_code}"
