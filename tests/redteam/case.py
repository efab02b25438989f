"""What a case is: tool calls that a model asks for, and a criterion, measured from outside, that tells a breach."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_testing import Call
from tests.pulse import Pulse

Category = Literal["read", "write", "network", "socket", "outlive", "exhaust", "raise"]
CATEGORIES: dict[Category, str] = {
    "read": "read what belongs to the server or to others",
    "write": "write outside of workspace and scratch",
    "network": "reach a port, an address or the server itself",
    "socket": "open AF_VSOCK or other families, take over sockets",
    "outlive": "live longer than allowed",
    "exhaust": "use up the machine",
    "raise": "raise permissions",
}
PARALLEL = 3
"""Calls of one answer that the server runs at the same time."""
Apart = Literal["", "quiet", "room", "own", "alone", "restart", "crash"]
"""On which server: one where many cases play at once; one where they play one after another; one with little room,
which is cleared after each; one of the case's own; the same while no other case plays; one that is started again, or
killed, afterwards."""


class Scene(Protocol):
    """What a criterion may look at when the model's turn is over."""

    @property
    def output(self) -> str:
        """All that the tools answered."""
        ...

    @property
    def seconds(self) -> float:
        """How long the turn took."""
        ...

    @property
    def ended_at(self) -> float:
        """By the monotonic clock."""
        ...

    @property
    def pulse(self) -> Pulse | None:
        """How long /status took meanwhile; None unless the case asks for it."""
        ...

    @property
    def prompts(self) -> str:
        """What the model was told as its instructions in a session that was opened afterwards."""
        ...

    @property
    def data(self) -> Path: ...
    @property
    def secrets(self) -> Mapping[str, str]: ...
    @property
    def server_uid(self) -> int: ...
    def heard(self, listener: str) -> str: ...
    def asked(self, text: str) -> str: ...
    def alive(self) -> list[int]: ...
    def server_works(self) -> bool: ...


Criterion = Callable[[Scene], str]
"""The evidence of a breach; empty when it was held."""


@dataclass(frozen=True, slots=True)
class Case:
    """In arguments @DATA@, @WORKSPACE@, @SCRATCHES@, @PID@, @PORT@, @MODEL@ and @MARK@ stand for what insiders know."""

    name: str
    category: Category
    tries: str
    """What is attempted, in one line."""
    steps: tuple[tuple[Call, ...], ...]
    """The model's answers one after the other; calls of one answer run side by side."""
    breach: Criterion
    attempted: str = "tried"
    """A pattern in the output that shows that the attempt was made."""
    held_bare: str = ""
    """Why it is held without confinement as well, at least in the container; empty: bare it must succeed."""
    apart: Apart = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the server, which then is one of its own."""
    on_disk: bool = False
    """Whether the data lie on the machine's own file system, which takes room in other ways than memory does."""
    pulse: bool = False
    """Whether /status is asked without pause meanwhile; such a case plays on the quiet server."""
    agent: str = ""
    """Who is asked; empty: the default agent."""
    afterwards: Literal["", "session", "delete"] = ""
    """Open another session, or delete this one, before the criterion is asked."""


def bash(command: str, *, ms: int = 15_000) -> Call:
    """A command that says when it has come to its end."""
    return Call("bash", {"command": f"{textwrap.dedent(command).strip()}\necho tried", "timeout_ms": ms})


def python(*code: str, ms: int = 15_000) -> Call:
    """A program of one or more pieces that begins with a few helpers and, at its end, says that it got there."""
    program = "\n".join((HELPERS, *(textwrap.dedent(piece).strip() for piece in code), "print('tried')"))
    command = f"python3 -I -S - @MARK@ <<'END_OF_PROGRAM' 2>&1\n{program}\nEND_OF_PROGRAM"
    return Call("bash", {"command": command, "timeout_ms": ms})


def skill(*code: str, name: str = "evil") -> Call:
    """A plugin's function that runs the code in its worker; `evil_brief` has 0.7 s for it."""
    return Call(name, {"code": "\n".join((HELPERS, *(textwrap.dedent(one).strip() for one in code), "print('tried')"))})


def tool(name: str, **arguments: Any) -> Call:
    return Call(name, arguments)


HELPERS = r"""
import ctypes, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    return result if result >= 0 else -ctypes.get_errno()
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        print(type(error).__name__, error)
def pids():
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return [str(number) for number in range(1, 500)]
def content(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).replace(b"\0", b"\n").decode(errors="replace")
    except OSError as error:
        return f"{path}: {error.strerror}\n"
""".strip()
