"""Choose the confinement backend of this server: tested once, at start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from agent_common.confinement_cures import PAGE, confinement_cures
from agent_common.telemetry import logger

from ...errors import AgentRuntimeError, StartError
from ..backends.backend import SandboxBackend
from ..backends.bubblewrap import Bubblewrap
from ..backends.landlock import other_user, same_user
from ..backends.unconfined import UnconfinedBackend
from ..confinement import Confinement
from ..errors import BackendUnavailable
from .probe import probe

ConfinementMode = Literal["auto", "required", "off"]

BuildBackend = Callable[[Path], SandboxBackend]
"""Makes a backend for this machine, given the data folder. Raises BackendUnavailable."""

BACKENDS: dict[str, BuildBackend] = {
    "bubblewrap": Bubblewrap.for_this_host,
    "another user": other_user,
    "the same user under Landlock": same_user,
}
"""Best first, with the names used in messages."""

log = logger(__name__)


async def choose_confinement(
    mode: ConfinementMode, data_dir: Path, backends: Sequence[tuple[str, BuildBackend]] = tuple(BACKENDS.items())
) -> Confinement:
    """Return a Confinement with the best backend that works here. Commands never see the data folder, except for the
    folders in their spec.

    A backend with any fault is skipped. If none is left, `auto` refuses commands with the reason, and `required` raises
    StartError. `off` runs commands without confinement.
    """
    if mode == "off":
        log.warning("confinement off", effect="commands and skills run as the server itself and can read its token")
        return Confinement(UnconfinedBackend())
    reasons: list[str] = []
    for title, build in backends:
        backend, fault = await _try_backend(build, data_dir)
        if backend is not None:
            return Confinement(backend)
        reasons.append(f"{title}: {fault}")
    cures = "; ".join(confinement_cures())
    reason = f"no confinement works here ({'; '.join(reasons)}). What helps: {cures} ({PAGE})"
    if mode == "required":
        raise StartError(f"AGENT_CONFINEMENT=required, but {reason}")
    log.warning("confinement unavailable", reason=reason, effect="bash and skills are unavailable")
    return Confinement(None, reason)


async def _try_backend(build: BuildBackend, data_dir: Path) -> tuple[SandboxBackend | None, str]:
    """Return the backend if it passes its test, or else the reason why not."""
    try:
        backend = build(data_dir)
        faults = await probe(backend, data_dir)
    except (BackendUnavailable, AgentRuntimeError, OSError) as error:
        return None, str(error)
    return (None, "; ".join(faults)) if faults else (backend, "")
