"""Run a command in this process, after asking the kernel to kill it when the host dies.

Usage: python die_with_parent.py [--uid=UID[,GROUP...]] [--until-released] HOST_PID COMMAND [ARGUMENT ...]

This is a separate program because little is safe between fork and exec in a process with threads. With `--uid` the
command runs as that user, with a group of the same number and the listed groups. With `--until-released` the command
starts when the host writes to standard input, and from then on outlives the host: the host first records the process,
so that none goes on of which there is no record. Only Linux has the parent-death signal (`PR_SET_PDEATHSIG`); on other
systems the runtimes of a killed host keep running.
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
    released = given[0] != "--until-released"
    if not released:
        given.pop(0)
    _set_death_signal(signal.SIGKILL)  # after setuid, which clears it
    if sys.platform == "linux" and os.getppid() != int(given[0]):  # the host died before the prctl call
        sys.exit(1)
    if not released:
        if not os.read(0, 1):  # the host gives the command up
            sys.exit(1)
        _set_death_signal(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execvp(given[1], given[1:])  # noqa: S606  running the command is the purpose


def _set_death_signal(number: int) -> None:  # pragma: no cover  becomes another program
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


if __name__ == "__main__":  # pragma: no cover
    main(sys.argv[1:])
