"""The server before its commands, on a machine where they want all of the processor."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RAISED_NICE = -10


def raise_priority() -> None:
    """Puts this process ahead of others, where it may. Commands put themselves behind either way.

    Kernels that schedule by session look at the priority of a session first, and a command can open more of those than
    there are processors. So both are raised: the session's, and that of every thread of the process.
    """
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(RAISED_NICE))
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), RAISED_NICE)
