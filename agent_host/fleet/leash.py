"""Becomes the given command, after asking the kernel to kill it when the host dies.

Usage: python leash.py HOST_PID COMMAND [ARGUMENT ...]

A program of its own because little may be done safely between fork and exec in a process with threads. Only Linux knows
the leash; elsewhere a killed host leaves its runtimes behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(host_pid: int, command: list[str]) -> None:  # pragma: no cover  becomes another program
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != host_pid:  # the host died in between
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  the point of it


if __name__ == "__main__":  # pragma: no cover
    main(int(sys.argv[1]), sys.argv[2:])
