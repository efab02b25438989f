"""The command that starts the backend."""

from __future__ import annotations

import sys
from pathlib import Path

_MAIN = "import sys; sys.path.append(sys.argv.pop(1)); from vsock.serve import main; main()"


def backend_command(monitor: Path, cid: int, uds: Path, uid: int | None = None) -> tuple[str, ...]:
    """Return the command. `monitor`: the socket for the machine's monitor. `uds`: the socket for programs of the host.
    `uid`: the user that the backend becomes once both exist; it needs access to their folder, not to the parents.

    The backend is imported without the packages around it, which would cost each machine a second and 60 MB.
    """
    folder = Path(__file__).resolve().parents[1]
    return (sys.executable, "-I", "-S", "-c", _MAIN, str(folder), str(monitor), str(cid), str(uds), str(uid or ""))
