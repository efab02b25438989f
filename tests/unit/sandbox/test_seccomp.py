"""The filter, run by an interpreter of the few instructions that it is made of."""

from __future__ import annotations

import errno
import struct

import pytest

from agent_runtime.sandbox import bpf, seccomp
from agent_runtime.sandbox.rung import Missing

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
EVERYTHING = {"x86_64": X86_64, "aarch64": AARCH64}


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the kernel would do with a system call."""
    words = [word for value in (*arguments, 0)[:1] for word in (value & 0xFFFFFFFF, value >> 32)]
    data = struct.pack("=IIQ", number, arch or EVERYTHING[machine], 0) + struct.pack("=II", *words)
    lines = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
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
    assert verdict(machine, seccomp.CLONE3[column]) == refused(errno.ENOSYS), "libraries fall back to clone"


def test_other_ways_into_the_kernel_are_closed() -> None:
    assert verdict("x86_64", 41, arch=0x40000003) == bpf.KILL_PROCESS, "the 32 bit calls"
    assert verdict("x86_64", seccomp.X32 | 41, 40) == refused(errno.ENOSYS), "the x32 calls"
    assert verdict("aarch64", 198, arch=X86_64) == bpf.KILL_PROCESS


def test_everyday_calls_pass() -> None:
    for number in (0, 1, 2, 9, 39, 59, 61, 157, 202, 231, 257, 302, 317, 318, 332):
        assert verdict("x86_64", number) == bpf.ALLOW


def test_the_program_is_within_the_bounds_of_the_kernel() -> None:
    lines = list(struct.iter_unpack("=HBBI", seccomp.program("x86_64")))
    assert len(lines) < 4096


def test_an_unknown_processor_has_no_filter() -> None:
    with pytest.raises(Missing, match="there is no system call filter for riscv64"):
        seccomp.program("riscv64")
