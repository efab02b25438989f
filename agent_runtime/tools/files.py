"""What read, write and edit have in common: allowed paths, one bound, one writer per path."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from ..errors import ToolFailure
from ..ports import ToolContext
from ..workspace import Place, Roots

TEXT_LIMIT = 10 * 1024 * 1024
"""Bytes of a file that read, write and edit handle as text. Spilled output is never larger."""

PATH = {"type": "string", "minLength": 1, "description": "A file; a relative path starts in the workspace"}


def place(path: str, context: ToolContext) -> Place:
    return Roots(context.workspace, context.scratch).resolve(path)


def too_large(shown: str, size: int) -> ToolFailure:
    limit = TEXT_LIMIT // 2**20
    advice = f"text is handled up to {limit} MiB. Use grep, or bash with head, tail or sed"
    return ToolFailure(f"{shown} is {size / 2**20:.1f} MiB; {advice}", kind="invalid")


def load(at: Place) -> bytes:
    """The whole file, if it is within the bound."""
    with at.open() as file:
        data = file.read(TEXT_LIMIT + 1)
        if len(data) > TEXT_LIMIT:
            raise too_large(at.shown, file.seek(0, 2))
        return data


class PathLocks:
    """One change at a time per path, within this server. Held in worker threads, so that a call that was cancelled
    keeps its turn until its thread is through."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def hold(self, path: Path) -> Generator[None]:
        with self._guard:
            lock = self._locks.get(path)
            if lock is None:
                lock = self._locks[path] = threading.Lock()
        with lock:
            yield
