"""The best rung: bubblewrap puts the command into namespaces of its own, with a file system made for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import mounts, seccomp
from .box import Box
from .rung import Launch, RungName, environment, limited, program

CONFINED_ID = 61000
"""User and group of a confined command. Below 65536, so that it exists in nested user namespaces, and in a range that
neither Debian nor systemd hands out."""

TMP = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - mount points, not files
NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
OWN_USERS = ("--unshare-user", "--uid", str(CONFINED_ID), "--gid", str(CONFINED_ID))
TO_DROP = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Launches commands through `bwrap`. Three ways to the same end, by what the server may do; see `variants`."""

    bwrap: str
    uid: int | None
    before: tuple[str, ...]
    """Put in front of bubblewrap."""
    users: tuple[str, ...]
    """Options of bubblewrap: how it comes to its own right to mount."""
    inside: tuple[str, ...]
    """Put in front of the command, inside."""
    filter: bytes
    hidden: tuple[Path, ...]
    """Folders never shown, whatever lies around them."""

    name: RungName = "bubblewrap"

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        plan = mounts.plan(box, self.hidden, TMP)
        filter_file = os.memfd_create("filter")
        os.write(filter_file, self.filter)
        os.lseek(filter_file, 0, os.SEEK_SET)
        return Launch(
            argv=(
                *self.before,
                *(self.bwrap, "--die-with-parent", "--new-session", "--hostname", "agent", "--cap-drop", "ALL"),
                *self.users,
                *NAMESPACES,
                *("--proc", "/proc", "--dev", "/dev"),
                *mounts.masked(),
                *mounts.arguments(plan, box.limits.tmp),
                *(part for path in (*self.hidden, Path("/dev"), Path("/")) for part in ("--remount-ro", str(path))),
                *("--chdir", str(box.workdir), "--seccomp", str(filter_file), "--"),
                *limited(box.limits),
                *self.inside,
                *argv,
            ),
            # Bubblewrap itself is process 1 in there, with its environment readable: the clean one is its own too.
            env=environment(box),
            fds=(filter_file,),
            uid=self.uid,
        )


def variants(hidden: Sequence[Path]) -> Iterator[Callable[[], Bubblewrap]]:
    """The ways that may work for this server, best first; each raises Missing when a part of it is not here.

    Root never maps itself into a user namespace: a process without a single capability that is still uid 0 to the
    kernel may write to most of /proc/sys, and is exempt from the limit on processes.
    """
    if os.geteuid() == 0:
        yield lambda: _bubblewrap(hidden, uid=CONFINED_ID, users=TO_DROP, inside=_become(CONFINED_ID))
        yield lambda: _bubblewrap(hidden, uid=CONFINED_ID, users=OWN_USERS, before=_become(CONFINED_ID))
    else:
        yield lambda: _bubblewrap(hidden, uid=None, users=OWN_USERS)


def _bubblewrap(
    hidden: Sequence[Path],
    *,
    uid: int | None,
    users: tuple[str, ...],
    before: tuple[str, ...] = (),
    inside: tuple[str, ...] = (),
) -> Bubblewrap:
    first_to_go = (program("choom"), "-n", "800", "--")  # when memory runs out, the kernel takes commands first
    return Bubblewrap(
        bwrap=program("bwrap"),
        uid=uid,
        before=(*first_to_go, *before),
        users=users,
        inside=inside,
        filter=seccomp.program(),
        hidden=tuple(path.resolve() for path in hidden),
    )


def _become(uid: int) -> tuple[str, ...]:
    """The launcher that gives up root for good."""
    ids = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    return (program("setpriv"), *ids, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--")
