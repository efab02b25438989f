"""How the backend is started."""

from __future__ import annotations

import sys
from pathlib import Path

_MAIN = "import sys; sys.path.append(sys.argv.pop(1)); from vsock.serve import main; main()"


def backend_command(monitor: Path, cid: int, uds: Path, uid: int | None = None) -> tuple[str, ...]:
    """`monitor` is the socket that the machine's monitor connects to, `uds` that of the host's programs. With a `uid`
    it is that user once both are there, and needs the right to pass their folder, but none above it.

    Started beside the packages around it, which would cost each machine a second and 60 MB.
    """
    folder = Path(__file__).resolve().parents[1]
    return (sys.executable, "-I", "-S", "-c", _MAIN, str(folder), str(monitor), str(cid), str(uds), str(uid or ""))
