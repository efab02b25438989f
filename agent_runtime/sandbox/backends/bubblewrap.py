"""The best backend: bubblewrap runs the command in its own namespaces, with its own view of the file system."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..kernel import seccomp
from ..spec import mounts
from ..spec.spec import SandboxSpec
from .backend import (
    CONFINED_ID,
    MAX_CONFINED_PROCESSES,
    BackendName,
    LaunchPlan,
    environment,
    find_program,
    limit_resources,
    lower_priority,
)

READ_ONLY = (Path("/proc"), Path("/dev"), Path("/"))
"""/proc too, because it has settings of the command's own processes, such as which one is killed first when memory runs
out."""
TMP_FOLDERS = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - mount points, not files
NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
OWN_USERS = ("--unshare-user", "--uid", str(CONFINED_ID), "--gid", str(CONFINED_ID))
# To enter the command's folder and then to switch to its user; switching drops them all.
KEPT_CAPABILITIES = ("CAP_DAC_READ_SEARCH", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
TO_DROP = tuple(part for name in KEPT_CAPABILITIES for part in ("--cap-add", name))
PROXY = Path("/run/proxy.sock")
"""Path of the proxy's socket for a command with network access."""
PROXY_PORT = 3128
RELAY_PROGRAM = Path(__file__).parents[1] / "run" / "loopback_proxy.py"
RELAY_ARGV = (sys.executable, "-I", "-S", str(RELAY_PROGRAM), str(PROXY), str(PROXY_PORT))
_PROXY_URL = f"http://127.0.0.1:{PROXY_PORT}"
PROXY_ENVIRONMENT = {
    **{name: _PROXY_URL for stem in ("http_proxy", "https_proxy", "all_proxy") for name in (stem, stem.upper())},
    "no_proxy": "",
    "NO_PROXY": "",
}


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Launches commands with `bwrap`. `for_this_host` makes one that suits the server's user."""

    bwrap_argv: tuple[str, ...]
    """Bubblewrap, with its own launchers in front."""
    user_options: tuple[str, ...]
    """Bubblewrap's options for the user namespace or the capabilities that allow it to mount."""
    inner_argv: tuple[str, ...]
    """The launchers between bubblewrap and the command."""
    filter: bytes
    hidden: tuple[Path, ...]
    """Folders that are never visible, even inside visible ones."""
    uid: int | None = None
    name: BackendName = "bubblewrap"
    by_path: bool = False

    @classmethod
    def for_this_host(cls, hidden: Path) -> Bubblewrap:
        """Return the backend for this server, with `hidden` never visible. Raises BackendUnavailable if a part is
        missing.

        A server that is not root gets its right to mount from a user namespace. A root server does not enter one but
        switches to another user for good: a process without any capability that is still uid 0 for the kernel may write
        most of /proc/sys, and is exempt from the limit on processes.
        """
        first_to_go = (
            find_program("choom"),
            "-n",
            "800",
            "--",
        )  # when memory runs out, the kernel kills commands first
        root = os.geteuid() == 0
        return cls(
            bwrap_argv=(*first_to_go, find_program("bwrap")),
            user_options=TO_DROP if root else OWN_USERS,
            inner_argv=_drop_root(CONFINED_ID) if root else (),
            filter=seccomp.build_filter(),
            hidden=(hidden.resolve(),),
            uid=CONFINED_ID if root else None,
        )

    def prepare_host(self, data_dir: Path) -> None:
        """Do nothing."""

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        plan = mounts.plan_mounts(spec, self.hidden, TMP_FOLDERS)
        if spec.network is not None:
            plan.append(mounts.Mount("read", PROXY, spec.network))
            if self.uid is not None:
                os.chown(spec.network, self.uid, self.uid)
        processes = (
            spec.limits.processes if self.uid is None else MAX_CONFINED_PROCESSES
        )  # a user namespace is counted separately
        inside = (*limit_resources(spec.limits, processes=processes), *self.inner_argv, find_program("setsid"))
        filter_file = _memory_file(self.filter)
        options = (
            # No --new-session: until its namespace is complete, only the process group keeps its processes together.
            # The command itself gets its own session.
            *("--die-with-parent", "--hostname", "agent", "--cap-drop", "ALL"),
            *self.user_options,
            *NAMESPACES,
            *("--proc", "/proc", "--dev", "/dev"),
            *mounts.mask_options(),
            *mounts.mount_options(plan, spec.limits.tmp),
            *(part for path in (*self.hidden, *READ_ONLY) for part in ("--remount-ro", str(path))),
            *("--chdir", str(spec.workdir), "--seccomp", str(filter_file)),
        )
        # Bubblewrap is process 1 inside, where every process can read its command line, and the options reveal the
        # host.
        try:
            options_file = _memory_file(b"".join(part.encode() + b"\0" for part in options))
        except BaseException:
            os.close(filter_file)
            raise
        return LaunchPlan(
            argv=(
                *lower_priority(spec),
                *self.bwrap_argv,
                *("--args", str(options_file), "--"),
                *inside,
                *((*RELAY_ARGV, *argv) if spec.network is not None else argv),
            ),
            # Its environment is readable too, so it gets the command's clean one.
            env={**environment(spec), **(PROXY_ENVIRONMENT if spec.network is not None else {})},
            fds=(filter_file, options_file),
            uid=self.uid,
        )


def _memory_file(content: bytes) -> int:
    """Return the descriptor of a memory file, positioned at its start."""
    file = os.memfd_create("bubblewrap")
    try:
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
    except BaseException:
        os.close(file)
        raise
    return file


def _drop_root(uid: int) -> tuple[str, ...]:
    """Return the launcher that drops root for good."""
    ids = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    return (find_program("setpriv"), *ids, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--")
