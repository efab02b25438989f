"""Detect what a call has changed in its process that the next call would notice."""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

MAX_OPEN_FILES = 64
"""Files that calls may leave open: some libraries keep connections on purpose."""
MAX_LEFT_THREADS = 8
"""Daemon threads that a call may leave running."""
THREAD_GRACE = 0.2
"""Seconds that other threads have to end."""
_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
_SIGNALS = tuple(signal.valid_signals())
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class LeftoverState(Exception):
    """Threads that a call started are still running after it."""


class ProcessSnapshot:
    """The state of the process once its plugin was imported; what the import set up belongs to it."""

    def __init__(self) -> None:
        self._modules = dict(sys.modules)
        self._functions = _stdlib_functions(self._modules)
        self._facts = _process_settings()
        self._threads = set(threading.enumerate())
        self._files = _count_open_files()
        self._data = _private_memory()
        allowed, _ = resource.getrlimit(resource.RLIMIT_DATA)
        self._most_data = (self._data + allowed) // 2 if allowed != resource.RLIM_INFINITY else sys.maxsize

    def check_threads(self) -> None:
        """Raise LeftoverState when threads are running that the call should have ended. A few daemon threads are
        allowed, since libraries start some; they end with the worker."""
        threads = [one for one in threading.enumerate() if one not in self._threads]
        deadline = time.monotonic() + THREAD_GRACE
        for one in threads[:MAX_LEFT_THREADS]:
            if not one.daemon:
                one.join(max(0.0, deadline - time.monotonic()))
        left = [one for one in threads if one.is_alive()]
        if len(left) > MAX_LEFT_THREADS or any(not one.daemon for one in left):
            raise LeftoverState(f"it left {len(left)} threads behind ({left[0].name}); end them before you return")

    def is_unchanged(self) -> bool:
        """Whether the next call finds the process as the first one did."""
        try:
            return (
                self._facts == _process_settings()
                and all(sys.modules.get(name) is module for name, module in self._modules.items())
                and all(names.get(name) is function for names, name, function in self._functions)
                and _count_open_files() <= self._files + MAX_OPEN_FILES
                and _private_memory() <= self._most_data
            )
        except Exception:  # noqa: BLE001 - a check that fails means that something was changed
            return False


def _process_settings() -> tuple[object, ...]:
    mask = os.umask(0)
    os.umask(mask)
    return (
        *(os.getcwd(), mask, os.getpriority(os.PRIO_PROCESS, 0), dict(os.environ)),
        tuple(map(signal.getsignal, _SIGNALS)),
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        tuple(signal.getitimer(timer) == (0.0, 0.0) for timer in _TIMERS),
        tuple(map(resource.getrlimit, _LIMITS)),
        *(sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled()),
        *(sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        *(tuple((id(one), one.closed) for one in (sys.stdin, sys.stdout, sys.stderr))),
        tuple((found.st_dev, found.st_ino) for found in map(os.fstat, range(3))),
    )


def _stdlib_functions(modules: Mapping[str, object]) -> tuple[tuple[dict[str, Any], str, object], ...]:
    """Return the public functions of Python's own modules: the module's names, the name, the function."""
    kinds = (FunctionType, BuiltinFunctionType)
    return tuple(
        (vars(module), name, value)
        for module_name, module in modules.items()
        if type(module) is ModuleType and module_name.partition(".")[0] in sys.stdlib_module_names
        for name, value in list(vars(module).items())
        if not name.startswith("_") and type(value) in kinds
    )


def _count_open_files() -> int:
    """Return how many files are open. Where /proc cannot be read, as under Landlock, every number is tried."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except PermissionError:
        return sum(_is_open(number) for number in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def _is_open(number: int) -> bool:
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _private_memory() -> int:
    """Return the bytes of private memory that are reserved; where /proc cannot be read, the peak of resident memory."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except PermissionError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
