"""What an operator has set for all machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MachineSettings:
    image: Path
    """A folder that `load_image` understands."""
    run_dir: Path
    """Where the machines' sockets are; a short path."""
    start_timeout: float
    """Seconds until the guest's init must answer."""
    stop_grace: float
    """Seconds that the runtime gets to stop."""
    memory: int = 512
    """Mebibytes."""
    volume: int = 2048
    """Mebibytes of the data volume; on the disk it takes what is used of them."""
