"""The system calls that no command needs and many escapes begin with.

A deny list over the kernel's own checks: namespaces already hold the command, this takes away the levers with which a
flaw in the kernel is reached, and the doors that namespaces do not close. AF_VSOCK is such a door: it leads to the host
from every network namespace. io_uring is another: it opens sockets without the system call that is filtered here.
"""

from __future__ import annotations

import errno
import platform

from . import bpf
from .rung import Missing

X86_64, AARCH64 = 0, 1
ARCHITECTURES = {"x86_64": (X86_64, 0xC000003E), "aarch64": (AARCH64, 0xC00000B7), "arm64": (AARCH64, 0xC00000B7)}

NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
X32 = 0x40000000  # the same calls under other numbers, on x86_64

CLONE, CLONE3, UNSHARE, SOCKET, SOCKETPAIR = (56, 220), (435, 435), (272, 97), (41, 198), (53, 199)

DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # the view of the file system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    # namespaces
    "setns": (308, 268),
    # the kernel's keys, programs and queues
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    # the machine
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "_sysctl": (156, None),
    "nfsservctl": (180, 42),
}


def program(machine: str | None = None) -> bytes:
    """The filter for this machine's processor. Raises Missing for one whose numbers are not known here."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise Missing(f"there is no system call filter for {machine}")
    column, arch = ARCHITECTURES[machine]
    refuse = [bpf.fail(errno.EPERM)]
    numbers = [pair[column] for pair in DENIED.values()]
    return bpf.assemble(
        [
            bpf.load_arch(),
            *bpf.unless_equal(arch, [bpf.kill()]),
            bpf.load_number(),
            *(bpf.if_at_least(X32, [bpf.fail(errno.ENOSYS)]) if column == X86_64 else []),
            *(line for number in numbers if number is not None for line in bpf.if_equal(number, refuse)),
            # Its flags lie in memory, where no filter can look; libraries then fall back to clone.
            *bpf.if_equal(CLONE3[column], [bpf.fail(errno.ENOSYS)]),
            *bpf.if_equal(CLONE[column], _no_namespaces()),
            *bpf.if_equal(UNSHARE[column], _no_namespaces()),
            *bpf.if_equal(SOCKET[column], _only_families()),
            *bpf.if_equal(SOCKETPAIR[column], _only_families()),
            bpf.allow(),
        ]
    )


def _no_namespaces() -> bpf.Program:
    return [bpf.load_argument(0), *bpf.if_any_bit(NAMESPACES, [bpf.fail(errno.EPERM)]), bpf.allow()]


def _only_families() -> bpf.Program:
    known = [line for family in FAMILIES for line in bpf.if_equal(family, [bpf.allow()])]
    return [bpf.load_argument(0), *known, bpf.fail(errno.EAFNOSUPPORT)]
