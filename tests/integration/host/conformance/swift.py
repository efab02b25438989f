"""An event loop whose clock goes on by itself as soon as everybody waits: real sockets and real deadlines, without the
wait. It is for parts that live in one process, talk over unix sockets and read the time of their loop; a busy machine
does not move this clock."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
TURN = 0.0001
"""Seconds that a turn of the loop takes on its clock, so that a peer who never rests does not stop it."""


class _Selector(selectors.DefaultSelector):
    """Nothing is under way when nothing can be read: what is sent over a unix socket is there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        with socket.socket(fileno=os.dup(fileobj if isinstance(fileobj, int) else fileobj.fileno())) as same:
            if same.family != socket.AF_UNIX:
                raise RuntimeError("only unix sockets: what others carry takes real time, which this loop skips")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.seconds += TURN
        if timeout is None:
            return super().select(None)
        if not (events := super().select(0)):
            self.seconds += timeout
        return events


class SwiftLoop(asyncio.SelectorEventLoop):
    """Time passes when there is nothing left to do."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.seconds

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise RuntimeError("no threads: they take real time, which this loop skips")


def run_swiftly(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=SwiftLoop) as runner:
        return runner.run(work)
