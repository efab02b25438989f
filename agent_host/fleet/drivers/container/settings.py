"""The operator's settings for all containers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    engine: tuple[str, ...]
    image: str
    run_dir: Path
    start_timeout: float
    stop_grace: float
    memory: int = 512
    """Mebibytes."""
    limits: tuple[str, ...] = ("--pids-limit", "512", "--log-opt", "max-size=1m")
    """Further options of the engine's `run`."""
    options: tuple[str, ...] = ()
    """The operator's options, such as `--ulimit`. They come last and so override all others."""
