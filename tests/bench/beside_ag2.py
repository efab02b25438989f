"""The hub beside that of AG2, from the package registry, in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from .load import Samples
from .targets import Live

REQUIREMENT = "ag2==1.2.1"
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("ping_pong.py")
_SECONDS = 600.0


async def beside(_live: Live, _provider: str, envelopes: int = 2000, rounds: int = 3) -> Samples:
    """Envelopes per second of both in turns, each time in a new process. Without AG2 there are ours alone."""
    pythons = {"ours": Path(sys.executable)}
    if (python := await asyncio.to_thread(_installed)) is not None:
        pythons["ag2"] = python
    samples: Samples = {}
    for _ in range(rounds):
        for side, python in pythons.items():
            rate, flat = await asyncio.to_thread(_measured, python, side, envelopes)
            samples.setdefault(side, []).append(rate)
            samples.setdefault(f"{side} flat", []).append(flat)
    return samples


def _measured(python: Path, side: str, envelopes: int) -> tuple[float, float]:
    env = {**os.environ, "PYTHONPATH": str(ROOT) if side == "ours" else ""}
    argv = (python, "-P", PROGRAM, side, str(envelopes))
    rate, flat = json.loads(subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, timeout=_SECONDS).stdout)
    return rate, flat


def _installed() -> Path | None:
    """The interpreter of an environment that has AG2; None: it cannot be installed. Later runs find it in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-bench"
    folder = cache / REQUIREMENT.replace("==", "-")
    python = folder / "bin/python"
    if python.exists() and _succeeds(python, "-c", "import ag2.network"):
        return python
    made = _succeeds(sys.executable, "-m", "venv", "--clear", folder)
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT)
    return python if made and _succeeds(python, *pip) else None


def _succeeds(*argv: str | Path) -> bool:
    """Run a program, whose output goes to stderr."""
    try:
        return subprocess.run(argv, stdout=sys.stderr, timeout=_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
