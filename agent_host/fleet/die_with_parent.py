"""Run a command in this process, after asking the kernel to kill it when the host dies.

Usage: python die_with_parent.py [--uid=UID[,GROUP...]] HOST_PID COMMAND [ARGUMENT ...]

This is a separate program because little is safe between fork and exec in a process with threads. With `--uid` the
command runs as that user, with a group of the same number and the listed groups. Only Linux has the parent-death signal
(`PR_SET_PDEATHSIG`); on other systems the runtimes of a killed host keep running.
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
    if sys.platform == "linux":  # after setuid, which clears the parent-death signal
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(given[0]):  # the host died before the prctl call
            sys.exit(1)
    os.execvp(given[1], given[1:])  # noqa: S606  running the command is the purpose


if __name__ == "__main__":  # pragma: no cover
    main(sys.argv[1:])
