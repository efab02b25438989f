"""A small assembler for the part of classic BPF that seccomp needs.

A program is a list of instructions. A condition takes the instructions to run if it holds, so that jumps are counted
only here. Offsets are those of `struct seccomp_data`: nr, arch, instruction pointer, six 64-bit arguments.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
JUMP_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
ASK = 0x7FC00000  # SECCOMP_RET_USER_NOTIF
ERRNO = 0x00050000


@dataclass(frozen=True, slots=True)
class Instruction:
    code: int
    k: int
    yes: int = 0
    no: int = 0


Program = list[Instruction]


def load_number() -> Instruction:
    return Instruction(LOAD_WORD, 0)


def load_arch() -> Instruction:
    return Instruction(LOAD_WORD, 4)


def succeed() -> Instruction:
    """Let the system call return 0 without doing anything."""
    return fail(0)


def load_argument(index: int) -> Instruction:
    """Load the low word of an argument (little-endian), which is all that the kernel reads of an int."""
    return Instruction(LOAD_WORD, 16 + 8 * index)


def load_high(index: int) -> Instruction:
    """Load the high word of an argument, for a long."""
    return Instruction(LOAD_WORD, 20 + 8 * index)


def allow() -> Instruction:
    return Instruction(RETURN, ALLOW)


def ask() -> Instruction:
    """Let the process that holds the filter's listener decide about the system call."""
    return Instruction(RETURN, ASK)


def kill() -> Instruction:
    return Instruction(RETURN, KILL_PROCESS)


def fail(number: int) -> Instruction:
    """Let the system call fail with this errno."""
    return Instruction(RETURN, ERRNO | number)


def if_equal(value: int, then: Program) -> Program:
    return [Instruction(JUMP_EQUAL, value, 0, len(then)), *then]


def unless_equal(value: int, then: Program) -> Program:
    return [Instruction(JUMP_EQUAL, value, len(then), 0), *then]


def if_at_least(value: int, then: Program) -> Program:
    return [Instruction(JUMP_AT_LEAST, value, 0, len(then)), *then]


def if_any_bit(mask: int, then: Program) -> Program:
    return [Instruction(JUMP_ANY_BIT, mask, 0, len(then)), *then]


def assemble(program: Program) -> bytes:
    """Return the program as `struct sock_filter[]`, as bubblewrap and the kernel expect it."""
    return b"".join(struct.pack("=HBBI", one.code, one.yes, one.no, one.k) for one in program)
