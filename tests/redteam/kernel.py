"""The few system calls of Linux that a disposable container is made of. Every one raises OSError."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

RDONLY, NOSUID, NODEV, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PDEATHSIG, DUMPABLE, DROP_BOUND = 1, 4, 24

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    texts = (str(source), str(target), kind)
    result = _libc.mount(*(text.encode() for text in texts), ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {kind} {source} at {target}")


def bind(source: Path, target: Path, *, writable: bool = False) -> None:
    """Shows a file or folder at another place, which is made first."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount(source, target, flags=BIND | REC)
    if not writable:
        mount("none", target, flags=BIND | REMOUNT | RDONLY)


def pivot(root: Path) -> None:
    """Makes a mount the root, and lets go of the old one."""
    os.chdir(root)
    _check(_libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", DETACH), "umount2")
    os.chdir("/")


def die_with_parent() -> None:
    _check(_libc.prctl(PDEATHSIG, 9, 0, 0, 0), "prctl")


def be_dumpable() -> None:
    """A process that changed its user owns its own /proc again."""
    _check(_libc.prctl(DUMPABLE, 1, 0, 0, 0), "prctl")


def drop_bound(capability: int) -> None:
    """Never again, neither here nor in what is started from here. One that this kernel does not have is not missed."""
    _libc.prctl(DROP_BOUND, capability, 0, 0, 0)


def set_host_name(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def loopback(*addresses: str) -> None:
    """Raises the loopback device and gives it more addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for number, address in enumerate(("127.0.0.1", *addresses)):
            name = (f"lo:{number}" if number else "lo").encode()
            if number:
                _interface(control, SIOCSIFADDR, name, _address(address))
                _interface(control, SIOCSIFNETMASK, name, _address("255.255.255.255"))
            else:
                _interface(control, SIOCSIFFLAGS, name, struct.pack("=h14x", UP))


def _interface(control: socket.socket, request: int, name: bytes, value: bytes) -> None:
    fcntl.ioctl(control, request, struct.pack("16s16s8x", name, value))


def _address(text: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
