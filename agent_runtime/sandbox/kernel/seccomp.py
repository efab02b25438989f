"""Deny the system calls that no command needs and that many escapes begin with.

This deny list adds to the kernel's own checks. Namespaces already confine the command; the list removes calls through
which flaws in the kernel are exploited, and ways out that namespaces leave open: AF_VSOCK reaches the host from every
network namespace, and io_uring opens sockets without the system call that is filtered here.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Mapping

from ..errors import BackendUnavailable
from . import bpf

X86_64 = 0
AARCH64 = 1
ARCHITECTURES = {"x86_64": (X86_64, 0xC000003E), "aarch64": (AARCH64, 0xC00000B7), "arm64": (AARCH64, 0xC00000B7)}

Calls = Mapping[str, tuple[int | None, int | None]]
"""Name -> numbers on x86_64 and on aarch64."""

NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
SETID_BITS = 0o6000  # a program with one of these bits runs as its owner or group
CREATE_FLAGS = 0o20000100  # O_TMPFILE's own bit and O_CREAT: only with one of them open looks at a mode
X32 = 0x40000000  # the same calls under other numbers, on x86_64

MAX_SHARED_SEGMENT = 64 * 1024
"""Maximum bytes of a shared memory segment, which outlives the processes that use it; there may be 4096 of them."""

CLONE = (56, 220)
UNSHARE = (272, 97)
SOCKET = (41, 198)
SOCKETPAIR = (53, 199)
SHMGET = (29, 194)
IOCTL = (16, 29)
PRLIMIT = (302, 261)
FCNTL = (72, 25)

DENIED: Calls = {
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
    # memory that belongs to no process and so escapes the limits
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
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

UNIMPLEMENTED: Calls = {"clone3": (435, 435), "openat2": (437, 437)}
"""Their arguments are in memory, which no filter can read. Programs then fall back to the older calls."""
FALLOCATE = (285, 47)
FILE_SETATTR = (469, 469)
PREALLOCATING = {
    "FS_IOC_RESVSP": 0x40305828,
    "FS_IOC_UNRESVSP": 0x40305829,
    "FS_IOC_RESVSP64": 0x4030582A,
    "FS_IOC_UNRESVSP64": 0x4030582B,
    "FS_IOC_ZERO_RANGE": 0x40305839,
    "FS_IOC_FSSETXATTR": 0x401C5820,
}
"""ioctls that do the same as fallocate, or make a file grow in large steps. Space reserved without writing disappears
faster than a guard can notice; `posix_fallocate` of the C library then writes instead. `file_setattr` is FSSETXATTR as
a system call."""
CALLS_WITH_MODE: Mapping[str, tuple[tuple[int | None, int | None], int]] = {
    "chmod": ((90, None), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
    "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2),
    "creat": ((85, None), 1),
}
"""With the position of the mode among their arguments. mkdir ignores these bits."""
OPEN_CALLS: Mapping[str, tuple[tuple[int | None, int | None], int]] = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
"""With the position of the flags; the mode comes next."""
ON_PROCESSES: dict[str, tuple[int, int]] = {
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
"""Their first argument is a process id; 0 is the caller."""
ON_PROCESSES_OR_USERS: dict[str, tuple[tuple[int, int], int]] = {
    "setpriority": ((141, 140), 2),
    "ioprio_set": ((251, 30), 3),
}
"""Their second argument is a process id, unless the first one has this value: then it is a user id, which means all
processes of that user."""
SHARED_NAMESPACE_CALLS: Calls = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "mq_unlink": (241, 181),
    "inotify_init1": (294, 26),
    "inotify_init": (253, None),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
}
"""Calls that are harmless only in a namespace of its own."""
CHMOD_BY_PATH = ("chmod", "fchmodat", "fchmodat2")
CHOWN_BY_PATH: Calls = {"chown": (92, None), "lchown": (94, None), "fchownat": (260, 54)}
"""These and CHMOD_BY_PATH take paths, which no filter or ruleset can check."""
XATTR_BY_PATH: Calls = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "removexattrat": (466, 466),
}
"""These take paths too."""
SIGNAL_SCOPE_VERSION = 6
TRUNCATE_VERSION = 3
"""The first versions of Landlock that confine signals and check `truncate`."""
SIGNALLING: Calls = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
"""Their first argument is the receiver. Only the launcher can tell whether it belongs to the command."""
PIDFD_SEND_SIGNAL = (424, 424)
TRUNCATE = (76, 45)
OWNED_BY = {"F_SETOWN": 8, "F_SETOWN_EX": 15}
OWNED_BY_IOCTL = {"FIOSETOWN": 0x8901, "SIOCSPGRP": 0x8902}
"""Ways to choose the process that the kernel signals when a descriptor becomes ready."""


def build_filter(
    machine: str | None = None, *, namespaces: bool = True, modes: bool = True, landlock: int = SIGNAL_SCOPE_VERSION
) -> bytes:
    """Return the filter for this machine's processor. Raises BackendUnavailable for an unknown processor.

    Without `namespaces` the command shares network, processes and shared memory with the host: no socket can then be
    created and no other process be affected; calls that the version `landlock` does not check are denied, and signals
    are decided at the filter's listener. Without `modes`, a change of mode or owner by path succeeds without effect,
    because too many programs give up if it is refused.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise BackendUnavailable(f"there is no system call filter for {machine}")
    column, arch = ARCHITECTURES[machine]
    refuse = [bpf.fail(errno.EPERM)]
    return bpf.assemble(
        [
            bpf.load_arch(),
            *bpf.unless_equal(arch, [bpf.kill()]),
            bpf.load_number(),
            *(bpf.if_at_least(X32, [bpf.fail(errno.ENOSYS)]) if column == X86_64 else []),
            *(line for number in _call_numbers(DENIED, column) for line in bpf.if_equal(number, refuse)),
            *(
                line
                for number in _call_numbers(UNIMPLEMENTED, column)
                for line in bpf.if_equal(number, [bpf.fail(errno.ENOSYS)])
            ),
            *bpf.if_equal(CLONE[column], _no_namespaces()),
            *bpf.if_equal(UNSHARE[column], _no_namespaces()),
            *(_shared_namespace_rules(column) if not namespaces else _own_namespace_rules(column)),
            *(_notify_signals(column) if landlock < SIGNAL_SCOPE_VERSION else []),
            *(bpf.if_equal(TRUNCATE[column], refuse) if landlock < TRUNCATE_VERSION else []),
            *_no_preallocation(column),
            *(_ignore_path_changes(column) if not modes else []),
            *_no_set_id(column, modes=modes),
            *bpf.if_equal(PRLIMIT[column], _only_caller(0)),
            *bpf.if_equal(SOCKETPAIR[column], _allowed_families()),
            bpf.allow(),
        ]
    )


def _call_numbers(calls: Calls, column: int) -> list[int]:
    return [number for pair in calls.values() if (number := pair[column]) is not None]


def _no_namespaces() -> bpf.Program:
    return [bpf.load_argument(0), *bpf.if_any_bit(NAMESPACES, [bpf.fail(errno.EPERM)]), bpf.allow()]


def _own_namespace_rules(column: int) -> bpf.Program:
    small = [bpf.load_argument(1), *bpf.if_at_least(MAX_SHARED_SEGMENT + 1, [bpf.fail(errno.ENOSPC)])]
    small += [bpf.load_high(1), *bpf.if_at_least(1, [bpf.fail(errno.ENOSPC)]), bpf.allow()]
    return [*bpf.if_equal(SOCKET[column], _allowed_families()), *bpf.if_equal(SHMGET[column], small)]


def _shared_namespace_rules(column: int) -> bpf.Program:
    refuse = [bpf.fail(errno.EPERM)]
    return [
        *bpf.if_equal(SOCKET[column], [bpf.fail(errno.EAFNOSUPPORT)]),
        *(line for number in _call_numbers(SHARED_NAMESPACE_CALLS, column) for line in bpf.if_equal(number, refuse)),
        *(line for pair in ON_PROCESSES.values() for line in bpf.if_equal(pair[column], _only_caller(0))),
        *(
            line
            for pair, user in ON_PROCESSES_OR_USERS.values()
            for line in bpf.if_equal(
                pair[column], [bpf.load_argument(0), *bpf.if_equal(user, refuse), *_only_caller(1)]
            )
        ),
    ]


def _only_caller(at: int) -> bpf.Program:
    """Allow only the caller as the process in that argument. Process 1 of a sandbox, for example, has no limits."""
    return [bpf.load_argument(at), *bpf.if_equal(0, [bpf.allow()]), bpf.fail(errno.EPERM)]


def _notify_signals(column: int) -> bpf.Program:
    refuse = [bpf.fail(errno.EPERM)]
    by_fcntl = [line for what in OWNED_BY.values() for line in bpf.if_equal(what, refuse)]
    by_ioctl = [line for what in OWNED_BY_IOCTL.values() for line in bpf.if_equal(what, refuse)]
    return [
        *(line for number in _call_numbers(SIGNALLING, column) for line in bpf.if_equal(number, [bpf.ask()])),
        *bpf.if_equal(PIDFD_SEND_SIGNAL[column], [bpf.fail(errno.ENOSYS)]),
        *bpf.if_equal(FCNTL[column], [bpf.load_argument(1), *by_fcntl, bpf.allow()]),
        *bpf.if_equal(IOCTL[column], [bpf.load_argument(1), *by_ioctl, bpf.load_number()]),
    ]


def _no_preallocation(column: int) -> bpf.Program:
    refuse = [bpf.fail(errno.EOPNOTSUPP)]
    by_ioctl = [line for what in PREALLOCATING.values() for line in bpf.if_equal(what, refuse)]
    return [
        *bpf.if_equal(FALLOCATE[column], refuse),
        *bpf.if_equal(FILE_SETATTR[column], refuse),
        *bpf.if_equal(IOCTL[column], [bpf.load_argument(1), *by_ioctl, bpf.allow()]),
    ]


def _no_set_id(column: int, *, modes: bool) -> bpf.Program:
    """Prevent setuid and setgid programs, because their owner may be the server's user."""
    lines: bpf.Program = []
    for name, (pair, at) in CALLS_WITH_MODE.items():
        good = bpf.succeed() if name in CHMOD_BY_PATH and not modes else bpf.allow()
        for number in _call_numbers({name: pair}, column):
            lines += bpf.if_equal(number, [*_refuse_set_id(at), good])
    for name, (pair, at) in OPEN_CALLS.items():
        makes = [*_refuse_set_id(at + 1), bpf.allow()]
        for number in _call_numbers({name: pair}, column):
            lines += bpf.if_equal(number, [bpf.load_argument(at), *bpf.if_any_bit(CREATE_FLAGS, makes), bpf.allow()])
    return lines


def _refuse_set_id(at: int) -> bpf.Program:
    return [bpf.load_argument(at), *bpf.if_any_bit(SETID_BITS, [bpf.fail(errno.EPERM)])]


def _ignore_path_changes(column: int) -> bpf.Program:
    return [
        *(line for number in _call_numbers(CHOWN_BY_PATH, column) for line in bpf.if_equal(number, [bpf.succeed()])),
        *(
            line
            for number in _call_numbers(XATTR_BY_PATH, column)
            for line in bpf.if_equal(number, [bpf.fail(errno.EOPNOTSUPP)])
        ),
    ]


def _allowed_families() -> bpf.Program:
    known = [line for family in FAMILIES for line in bpf.if_equal(family, [bpf.allow()])]
    return [bpf.load_argument(0), *known, bpf.fail(errno.EAFNOSUPPORT)]
