"""The arena from outside: starts a container on a ground, and gives the outcomes as they come."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .ground import Ground
from .play import Outcome

REPOSITORY = Path(__file__).parents[2]
LONGEST = 400.0
"""Seconds that a run may take."""


@functools.cache
def unavailable() -> str:
    """Why there can be no arena here; empty: there can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the attempts are written for Linux on x86_64"
    if os.geteuid() != 0:
        return "a disposable container is made by root"
    probe = "from tests.redteam import kernel as k; k.unshare(k.NEWNS | k.NEWPID | k.NEWNET | k.NEWIPC | k.NEWUTS)"
    tried = subprocess.run([sys.executable, "-c", probe], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip().splitlines()[-1]}"


def outcomes(ground: Ground) -> Iterator[Outcome]:
    """Plays the cases. Raises RuntimeError, with what was printed, when the run did not come to its end."""
    install = Path(sys.prefix).resolve().parent
    with (
        tempfile.TemporaryDirectory(prefix="redteam-") as root,
        tempfile.TemporaryDirectory(prefix="redteam-disk-") as disk,
        tempfile.TemporaryFile() as complaints,
    ):
        container = [sys.executable, "-m", "tests.redteam.container"]
        argv = [*container, root, disk, str(install), str(REPOSITORY), ground.to_json()]
        with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=complaints, text=True) as process:
            timer = threading.Timer(LONGEST, process.kill)
            timer.start()
            try:
                for line in process.stdout or ():
                    yield Outcome(**json.loads(line))
                code = process.wait()
            finally:
                timer.cancel()
                process.kill()
        if code != 0:
            complaints.seek(0)
            raise RuntimeError(f"the arena ended with {code}:\n{complaints.read().decode(errors='replace')[-4000:]}")
