"""Signals to a child of the host together with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
from asyncio.subprocess import Process
from pathlib import Path


def signal_group(leader: Process, number: signal.Signals) -> None:
    """Send a signal to the process group that a child leads, or has led: what it left behind gets it too.

    The number of a child that has ended may be that of a stranger by now, but not while its own group has members."""
    if leader.returncode is None or not Path(f"/proc/{leader.pid}").exists():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)
