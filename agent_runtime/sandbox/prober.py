"""Run inside a rung, to find its faults: `prober.py FOLDER PORT SERVER ADDRESS VICTIM`, with a secret on stdin.

Prints a line for each fault. It is given to Python as text, since the folder it lies in need not be visible.
"""

import ctypes
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable

folder, port, server, address, victim = sys.argv[1], *map(int, sys.argv[2:])
secret = sys.stdin.buffer.read()
libc = ctypes.CDLL(None, use_errno=True)
# In a namespace of its own a command may have the same number as one of those outside.
strangers = [pid for pid in (server, victim) if pid > 9]
MACHINE = os.uname().machine
PTRACE_ATTACH, GET_SECCOMP, GET_NO_NEW_PRIVS = 16, 21, 39
NR_CAPGET = 125 if MACHINE == "x86_64" else 90


def reads(path: str, at: int = 0, whole: bool = False) -> bool:
    """Whether the secret, or anything at all, can be read there."""
    file = os.open(path, os.O_RDONLY)
    found = os.pread(file, len(secret), at)
    return bool(found) if whole else found == secret


def capable() -> bool:
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.syscall(NR_CAPGET, header, data)
    return any(data)


def attaches() -> bool:
    """Never the server, which would stand still."""
    return victim in strangers and libc.ptrace(PTRACE_ATTACH, victim, None, None) == 0


def connects() -> bool:
    with socket.create_connection(("127.0.0.1", port), 1):
        return True


def opens(family: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM):
        return True


def signals() -> bool:
    for pid in strangers:
        os.kill(pid, 0)
    return bool(strangers)


def starves() -> bool:
    """Whether the limits of others can be set."""
    resource.prlimit(victim, resource.RLIMIT_CORE, (0, 0))
    return victim in strangers


def leaves_a_program() -> bool:
    """Whether one can be left that runs as its owner, whoever starts it."""
    with open("program", "w") as file:
        os.fchmod(file.fileno(), 0o4755)
    return True


def works() -> bool:
    with open("written", "w") as file:
        file.write("x")
    return subprocess.run(("true",), check=False).returncode == 0


CHECKS: tuple[tuple[str, Callable[[], bool]], ...] = (
    ("it runs as root", lambda: os.getuid() == 0),
    ("it keeps capabilities", capable),
    ("it may gain privileges", lambda: libc.prctl(GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1),
    ("no filter is in force", lambda: libc.prctl(GET_SECCOMP, 0, 0, 0, 0) != 2),
    ("it can open AF_VSOCK", lambda: opens(40)),
    ("it reaches the machine's own network", connects),
    ("it sees the data folder", lambda: reads(f"{folder}/secret")),
    ("it can list the data folder", lambda: "secret" in os.listdir(folder)),
    ("it can read the scratch of other sessions", lambda: reads(f"{folder}/other/notes")),
    ("it can write outside of its folders", lambda: os.open(f"{folder}/planted", os.O_WRONLY | os.O_CREAT) > 0),
    ("it can read the server's environment", lambda: server in strangers and reads(f"/proc/{server}/environ", 0, True)),
    ("it can read the server's memory", lambda: reads(f"/proc/{server}/mem", address)),
    ("it can signal the server's processes", signals),
    ("it can set the limits of the server's processes", starves),
    ("it can trace other processes", attaches),
    ("it can leave programs that run as their owner", leaves_a_program),
)

if not works():
    sys.exit("it cannot start programs")
for fault, check in CHECKS:
    try:
        if check():
            print(fault)  # noqa: T201 - its answer
    except OSError:
        continue
try:
    os.chmod(f"{folder}/secret", 0o777)  # noqa: S103 - it must not come to pass
    os.kill(victim if victim in strangers else os.getpid(), 9 if victim in strangers else 0)
except OSError:
    sys.exit(0)
