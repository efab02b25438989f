"""Leaves out what libraries load for others than us: some MiB of every runtime, and many may share a machine."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import Server
else:
    # The package loads its command line, with click, multiprocessing and reloaders. A stand-in is there meanwhile.
    _there = "uvicorn" in sys.modules
    if not _there:
        _stand_in = sys.modules["uvicorn.main"] = ModuleType("uvicorn.main")
        _stand_in.Server = _stand_in.main = _stand_in.run = None
    try:
        from uvicorn.config import Config
        from uvicorn.server import Server
    finally:
        if not _there:
            del sys.modules["uvicorn.main"]
            sys.modules["uvicorn"].Server = Server

__all__ = ["Config", "Server", "disable_pydantic_v1", "limit_malloc_arenas"]

_ARENA_MAX = -8
"""Of mallopt(3)."""


def disable_pydantic_v1() -> None:
    """FastAPI asks of every annotation whether it is a model of pydantic's first version, and loads all of that to find
    out. We have none; where that version cannot be loaded it takes the answer for no."""
    sys.modules.setdefault("pydantic.v1", cast(ModuleType, None))


def limit_malloc_arenas() -> None:
    """Threads share one heap, in place of one for each that is never as full. Before any thread is there."""
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
