"""End a server whose event loop stands still: the supervisor that started it then starts it again.

A process that runs out of memory may neither work nor end: the loop, or the interpreter at its exit, waits for a thread
that could not be made. A restart continues the work, as after a crash.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import threading
import time
from typing import NoReturn

CHECKS = 6
"""Checks in a row that must find no step of the loop. However long the whole process is paused, only one does then."""
EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h."""
_REPORT_SECONDS = 5


def end_if_stalled(program: str, seconds: float) -> None:
    """End this process once the running event loop has made no step for `seconds`; 0: never.

    Also once the loop has ended: a process that does not end after that stands still as well.
    """
    if seconds:
        watch = _StallWatch(program, seconds, asyncio.get_running_loop())
        threading.Thread(target=watch.run, name="stall-watch", daemon=True).start()


class _StallWatch:
    """Asks the loop for a step in every part of the time. Memory may be short, so it takes none but what that needs."""

    def __init__(self, program: str, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pause = seconds / CHECKS
        self._line = (
            f"{program}: the event loop has stood still for {seconds:g} s, so this process ends, to be started again. "
            "Its threads:\n"
        ).encode()
        self._stepped = False

    def run(self) -> None:
        missed = 0
        while missed < CHECKS:
            try:
                self._stepped = False
                self._loop.call_soon_threadsafe(self._step)
            except (MemoryError, RuntimeError):
                self._stepped = False  # no memory to ask, or the loop has ended
            time.sleep(self._pause)
            missed = 0 if self._stepped else missed + 1
        self._end()

    def _step(self) -> None:
        self._stepped = True

    def _end(self) -> NoReturn:
        signal.alarm(_REPORT_SECONDS)  # the kernel ends the process then, even if nobody reads stderr
        try:
            os.write(2, self._line)
            faulthandler.dump_traceback(2)
        finally:
            os._exit(EXIT_CODE)
