"""The operator's settings for all machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MachineSettings:
    image: Path
    """The image's folder, as `load_image` reads it."""
    run_dir: Path
    """The folder for the machines' sockets. Its path must be short."""
    start_timeout: float
    """Seconds within which the guest's init must answer."""
    stop_grace: float
    """Seconds that the runtime gets to stop."""
    memory: int = 512
    """Mebibytes."""
    volume: int = 2048
    """Size of the data volume in mebibytes. The file is sparse and takes only the space in use."""
    outlives_host: bool = True
    """Whether a machine goes on when the host is killed, so that the next process of the host can adopt it."""
