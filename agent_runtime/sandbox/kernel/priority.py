"""Give the server precedence over its commands when the processor is busy."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RAISED_NICE = -10


def raise_priority() -> None:
    """Raise the priority of this process, if allowed. Commands lower their own in any case.

    Kernels with autogroups compare the priorities of sessions first, and a command can open more sessions than there
    are processors. So the priority of the session and of every thread of the process is raised.
    """
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(RAISED_NICE))
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), RAISED_NICE)
