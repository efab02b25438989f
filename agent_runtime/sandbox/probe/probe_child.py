"""Try to break out of a confinement backend: `probe_child.py FOLDER PORT SERVER ADDRESS VICTIM NEIGHBOURS`.

A secret comes on stdin. NEIGHBOURS are the process ids of another sandbox, separated by commas. Prints a line for each
fault. Python gets this program as text, because its folder may not be visible. Every start of a runtime waits for it,
so it imports the C modules below `signal` and `socket`: those and `subprocess` would take twice as long as all checks.
"""

import ctypes
import fcntl
import os
import resource
import sys
from _socket import AF_INET, SOCK_STREAM, socket
from collections.abc import Callable

folder, port, server, address, victim = sys.argv[1], *map(int, sys.argv[2:6])
secret = sys.stdin.buffer.read()
libc = ctypes.CDLL(None, use_errno=True)
# In its own namespace a command may have the same process id as one outside.
strangers = [pid for pid in (server, victim) if pid > 9]
neighbours = [pid for pid in map(int, sys.argv[6].split(",")) if pid > 9]
MACHINE = os.uname().machine
SIGKILL = 9
PTRACE_ATTACH = 16
GET_SECCOMP = 21
GET_NO_NEW_PRIVS = 39
NR_CAPGET = 125 if MACHINE == "x86_64" else 90


def can_read(path: str, at: int = 0, whole: bool = False) -> bool:
    """Return whether the secret, or with `whole` anything at all, can be read there."""
    file = os.open(path, os.O_RDONLY)
    found = os.pread(file, len(secret), at)
    return bool(found) if whole else found == secret


def has_capabilities() -> bool:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    libc.syscall(NR_CAPGET, header, data)
    return any(data)


def can_trace() -> bool:
    """Try to trace the victim, never the server, which would stop."""
    return victim in strangers and libc.ptrace(PTRACE_ATTACH, victim, None, None) == 0


def can_connect() -> bool:
    made = socket(AF_INET, SOCK_STREAM)
    made.settimeout(1)
    made.connect(("127.0.0.1", port))
    return True


def can_open_socket(family: int) -> bool:
    socket(family, SOCK_STREAM).close()
    return True


def can_signal() -> bool:
    for pid in strangers:
        os.kill(pid, 0)
    return bool(strangers)


def succeeds(attempt: Callable[[], object]) -> bool:
    """Return whether the attempt is not refused."""
    try:
        attempt()
    except OSError:
        return False
    return True


def any_neighbour(check: Callable[[int], object]) -> bool:
    return any(succeeds(lambda pid=pid: check(pid)) for pid in neighbours)


def kill_by_pipe(pid: int) -> None:
    """Let the kernel send the signal, when a pipe becomes readable."""
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reading, fcntl.F_SETSIG, SIGKILL)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writing, b"x")


def can_set_limits() -> bool:
    """Return whether the limits of other processes can be set."""
    resource.prlimit(victim, resource.RLIMIT_CORE, (0, 0))
    return victim in strangers


def can_leave_setuid_program() -> bool:
    """Return whether a setuid program can be created."""
    with open("program", "w") as file:
        os.fchmod(file.fileno(), 0o4755)
    return True


def can_run_programs() -> bool:
    with open("written", "w") as file:
        file.write("x")
    started = os.posix_spawnp("sleep", ("sleep", "60"), os.environ)
    os.kill(started, SIGKILL)
    return os.WTERMSIG(os.waitpid(started, 0)[1]) == SIGKILL


CHECKS: tuple[tuple[str, Callable[[], bool]], ...] = (
    ("it runs as root", lambda: os.getuid() == 0),
    ("it keeps capabilities", has_capabilities),
    ("it may gain privileges", lambda: libc.prctl(GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1),
    ("no filter is in force", lambda: libc.prctl(GET_SECCOMP, 0, 0, 0, 0) != 2),
    ("it can open AF_VSOCK", lambda: can_open_socket(40)),
    ("it reaches the machine's own network", can_connect),
    ("it sees the data folder", lambda: can_read(f"{folder}/secret")),
    ("it can list the data folder", lambda: "secret" in os.listdir(folder)),
    ("it can read the scratch of other sessions", lambda: can_read(f"{folder}/other/notes")),
    ("it can write outside of its folders", lambda: os.open(f"{folder}/planted", os.O_WRONLY | os.O_CREAT) > 0),
    (
        "it can read the server's environment",
        lambda: server in strangers and can_read(f"/proc/{server}/environ", 0, True),
    ),
    ("it can read the server's memory", lambda: can_read(f"/proc/{server}/mem", address)),
    ("it can signal the server's processes", can_signal),
    ("it can see other commands", lambda: any_neighbour(lambda pid: can_read(f"/proc/{pid}/cmdline"))),
    (
        "it can read the environment of other commands",
        lambda: any_neighbour(lambda pid: can_read(f"/proc/{pid}/environ")),
    ),
    ("it can signal other commands", lambda: any_neighbour(lambda pid: os.kill(pid, 0))),
    ("it can set the limits of the server's processes", can_set_limits),
    ("it can trace other processes", can_trace),
    ("it can leave programs that run as their owner", can_leave_setuid_program),
)

if not can_run_programs():
    sys.exit("it cannot start programs and end them")
for fault, check in CHECKS:
    try:
        if check():
            print(fault)  # noqa: T201 - its answer
    except OSError:
        continue
# Attempts whose success is visible only outside.
succeeds(lambda: os.chmod(f"{folder}/secret", 0o777))  # noqa: S103
for pid in strangers[1:] + neighbours:
    succeeds(lambda pid=pid: os.kill(pid, SIGKILL))
    succeeds(lambda pid=pid: kill_by_pipe(pid))
