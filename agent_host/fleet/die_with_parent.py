"""Becomes the given command, after asking the kernel to kill it when the host dies.

Usage: python die_with_parent.py [--uid=UID[,GROUP...]] HOST_PID COMMAND [ARGUMENT ...]

A program of its own because little may be done safely between fork and exec in a process with threads. With `--uid` it
is that user from then on, of a group of its own and those that are named. Only Linux knows the leash; elsewhere a
killed host leaves its runtimes behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(given: list[str]) -> None:  # pragma: no cover  becomes another program
    if given[0].startswith("--uid="):
        uid, *groups = (int(part) for part in given.pop(0).removeprefix("--uid=").split(","))
        os.setgroups(groups)
        os.setgid(uid)
        os.setuid(uid)
    if sys.platform == "linux":  # after the change of the user, which takes the leash off
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(given[0]):  # the host died in between
            sys.exit(1)
    os.execvp(given[1], given[1:])  # noqa: S606  the point of it


if __name__ == "__main__":  # pragma: no cover
    main(sys.argv[1:])
