"""The filter, run by an interpreter of the few instructions that it is made of."""

from __future__ import annotations

import errno
import os
import struct
from typing import Any

import pytest

from agent_runtime.sandbox.errors import BackendUnavailable
from agent_runtime.sandbox.kernel import bpf, seccomp

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
EVERYTHING = {"x86_64": X86_64, "aarch64": AARCH64}


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None, **variant: Any) -> int:
    """What the kernel would do with a system call."""
    words = [word for value in (*arguments, *6 * [0])[:6] for word in (value & 0xFFFFFFFF, value >> 32)]
    data = struct.pack("=IIQ", number, arch or EVERYTHING[machine], 0) + struct.pack("=12I", *words)
    lines = list(struct.iter_unpack("=HBBI", seccomp.build_filter(machine, **variant)))
    at, accumulator = 0, 0
    while True:
        code, yes, no, k = lines[at]
        at += 1
        if code == bpf.LOAD_WORD:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == bpf.RETURN:
            return k
        else:
            holds = {
                bpf.JUMP_EQUAL: accumulator == k,
                bpf.JUMP_AT_LEAST: accumulator >= k,
                bpf.JUMP_ANY_BIT: bool(accumulator & k),
            }[code]
            at += yes if holds else no


def refused(number: int) -> int:
    return bpf.ERRNO | number


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_what_is_on_the_list_is_refused(machine: str, column: int) -> None:
    for name, numbers in seccomp.DENIED.items():
        number = numbers[column]
        if number is not None:
            assert verdict(machine, number) == refused(errno.EPERM), name


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_only_known_families_of_sockets(machine: str, column: int) -> None:
    for call in (seccomp.SOCKET[column], seccomp.SOCKETPAIR[column]):
        for family in range(64):
            wanted = bpf.ALLOW if family in (1, 2, 10, 16) else refused(errno.EAFNOSUPPORT)
            assert verdict(machine, call, family) == wanted, family
        assert verdict(machine, call, 40 | 1 << 32) == refused(errno.EAFNOSUPPORT), "the kernel drops the high word"
        assert verdict(machine, call, 1 | 40 << 32) == bpf.ALLOW


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_processes_but_no_namespaces(machine: str, column: int) -> None:
    thread, child, user, time = 0x3D0F00, 17, 0x10000000, 0x80
    clone, unshare = seccomp.CLONE[column], seccomp.UNSHARE[column]
    assert verdict(machine, clone, thread) == verdict(machine, clone, child) == bpf.ALLOW
    for flags in (user, user | child, 0x20000, 0x40000000, time):
        assert verdict(machine, clone, flags) == verdict(machine, unshare, flags) == refused(errno.EPERM)


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_calls_whose_wishes_lie_in_memory_are_not_there(machine: str, column: int) -> None:
    for name in ("clone3", "openat2"):
        number = seccomp.UNIMPLEMENTED[name][column]
        assert number is not None
        assert verdict(machine, number) == refused(errno.ENOSYS), "libraries fall back to clone and openat"


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_room_is_not_reserved_without_writing(machine: str, column: int) -> None:
    assert verdict(machine, seccomp.FALLOCATE[column], 3, 0, 0, 4096) == refused(errno.EOPNOTSUPP)
    assert verdict(machine, seccomp.FILE_SETATTR[column], 3) == refused(errno.EOPNOTSUPP)
    for what in seccomp.PREALLOCATING.values():
        assert verdict(machine, seccomp.IOCTL[column], 3, what) == refused(errno.EOPNOTSUPP)
        assert verdict(machine, seccomp.IOCTL[column], 3, what | 1 << 32) == refused(errno.EOPNOTSUPP), "the low word"
    assert verdict(machine, seccomp.IOCTL[column], 1, 0x5401) == bpf.ALLOW, "is it a terminal?"


MODES = {
    "x86_64": {90: 1, 91: 1, 268: 2, 452: 2, 133: 1, 259: 2, 85: 1},
    "aarch64": {52: 1, 53: 2, 452: 2, 33: 2},
}


@pytest.mark.parametrize("machine", MODES)
@pytest.mark.parametrize("modes", [True, False])
def test_no_program_runs_as_its_owner_for_everybody(machine: str, modes: bool) -> None:
    for number, at in MODES[machine].items():
        for mode in (0o4755, 0o2755, 0o106644):
            arguments = [*[0] * at, mode]
            assert verdict(machine, number, *arguments, modes=modes) == refused(errno.EPERM), number
        by_path = number in ((90, 268, 452) if machine == "x86_64" else (53, 452))
        plain = verdict(machine, number, *[0o7777] * at, 0o101777, modes=modes)
        assert plain == (refused(0) if by_path and not modes else bpf.ALLOW), number


@pytest.mark.parametrize("machine", MODES)
def test_a_mode_counts_where_a_file_may_be_made(machine: str) -> None:
    for number, at in {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}[machine].items():

        def says(flags: int, mode: int, number: int = number, at: int = at) -> int:
            return verdict(machine, number, *[0] * at, flags, mode)

        for flags in (os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_RDWR):
            assert says(flags, 0o4755) == says(flags, 0o2755) == refused(errno.EPERM)
            assert says(flags, 0o755) == bpf.ALLOW
        assert says(os.O_RDONLY, 0xFFFF) == bpf.ALLOW, "what lies in the register then means nothing"
        assert says(os.O_RDONLY | os.O_DIRECTORY, 0o6000) == bpf.ALLOW


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_limits_are_one_s_own(machine: str, column: int) -> None:
    assert verdict(machine, seccomp.PRLIMIT[column], 0) == bpf.ALLOW
    assert verdict(machine, seccomp.PRLIMIT[column], 1) == refused(errno.EPERM)


def test_other_ways_into_the_kernel_are_closed() -> None:
    assert verdict("x86_64", 41, arch=0x40000003) == bpf.KILL_PROCESS, "the 32 bit calls"
    assert verdict("x86_64", seccomp.X32 | 41, 40) == refused(errno.ENOSYS), "the x32 calls"
    assert verdict("aarch64", 198, arch=X86_64) == bpf.KILL_PROCESS


def test_everyday_calls_pass() -> None:
    for number in (0, 1, 2, 9, 39, 59, 61, 157, 202, 231, 257, 302, 317, 318, 332):
        assert verdict("x86_64", number) == bpf.ALLOW


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_shared_memory_that_outlives_processes_is_small(machine: str, column: int) -> None:
    for size, wanted in ((1, bpf.ALLOW), (65536, bpf.ALLOW), (65537, refused(errno.ENOSPC))):
        assert verdict(machine, seccomp.SHMGET[column], 0, size) == wanted
    assert verdict(machine, seccomp.SHMGET[column], 0, 1 << 32) == refused(errno.ENOSPC)


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_without_namespaces_no_socket_and_no_other_process(machine: str, column: int) -> None:
    def says(number: int | None, *arguments: int) -> int:
        assert number is not None
        return verdict(machine, number, *arguments, namespaces=False)

    for family in range(64):
        assert says(seccomp.SOCKET[column], family) == refused(errno.EAFNOSUPPORT)
    assert says(seccomp.SOCKETPAIR[column], 1) == bpf.ALLOW
    for pair in seccomp.ON_PROCESSES.values():
        assert (says(pair[column], 0), says(pair[column], 4711)) == (bpf.ALLOW, refused(errno.EPERM))
    for pair, user in seccomp.ON_PROCESSES_OR_USERS.values():
        assert (says(pair[column], 1, 0), says(pair[column], 0, 4711)) == (bpf.ALLOW, refused(errno.EPERM))
        assert says(pair[column], user, 0) == refused(errno.EPERM), "all of its user"
    for name in ("shmget", "inotify_init1", "process_madvise"):
        assert says(seccomp.SHARED_NAMESPACE_CALLS[name][column]) == refused(errno.EPERM), name


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_what_landlock_does_not_look_at_is_asked_about_or_refused(machine: str, column: int) -> None:
    def says(number: int | None, *arguments: int, landlock: int = 5) -> int:
        assert number is not None
        return verdict(machine, number, *arguments, namespaces=False, landlock=landlock)

    signals = [pair[column] for pair in seccomp.SIGNALLING.values()]
    assert {says(number, 4711) for number in signals} == {bpf.ASK}
    assert {says(number, 4711, landlock=6) for number in signals} == {bpf.ALLOW}
    assert says(seccomp.PIDFD_SEND_SIGNAL[column]) == refused(errno.ENOSYS)
    for call, kinds in ((seccomp.FCNTL, seccomp.OWNED_BY), (seccomp.IOCTL, seccomp.OWNED_BY_IOCTL)):
        assert {says(call[column], 3, kind) for kind in kinds.values()} == {refused(errno.EPERM)}
        assert says(call[column], 3, 1) == bpf.ALLOW
    assert says(seccomp.IOCTL[column], 3, seccomp.PREALLOCATING["FS_IOC_RESVSP"]) == refused(errno.EOPNOTSUPP)
    assert [says(seccomp.TRUNCATE[column], landlock=version) for version in (2, 3)] == [refused(errno.EPERM), bpf.ALLOW]


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_what_goes_by_path_does_nothing_where_only_paths_tell_whose_it_is(machine: str, column: int) -> None:
    for calls, wanted in ((seccomp.CHOWN_BY_PATH, refused(0)), (seccomp.XATTR_BY_PATH, refused(errno.EOPNOTSUPP))):
        for pair in calls.values():
            if (number := pair[column]) is not None:
                assert verdict(machine, number) == bpf.ALLOW
                assert verdict(machine, number, namespaces=False, modes=False) == wanted


def test_the_program_is_within_the_bounds_of_the_kernel() -> None:
    lines = list(struct.iter_unpack("=HBBI", seccomp.build_filter("x86_64")))
    assert len(lines) < 4096
    for variant in ({}, {"namespaces": False, "landlock": 1}, {"namespaces": False, "modes": False}):
        assert verdict("x86_64", 39, **variant) == bpf.ALLOW


def test_an_unknown_processor_has_no_filter() -> None:
    with pytest.raises(BackendUnavailable, match="there is no system call filter for riscv64"):
        seccomp.build_filter("riscv64")
