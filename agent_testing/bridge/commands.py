"""Faults by hand while a bridge runs as a process: one command a line on its standard input, one JSON line back."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from .fake import FakeBridge
from .sockets import How

HELP = "cut [rst|fin], stall, release, reorder, let, snapshot, refuse, sever, restore, down, up, counts, probe"


async def run_commands(bridge: FakeBridge, write: Callable[[dict[str, Any]], None]) -> None:
    """Carries out commands until the input ends; without a pipe or a terminal there are none."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        return
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while line := await reader.readline():
            write(await _run_command(bridge, line.decode("utf-8", "replace").split()))
    except ValueError:
        write({"error": "that line is too long"})
    finally:
        transport.close()


async def _run_command(bridge: FakeBridge, words: list[str]) -> dict[str, Any]:
    simple: dict[str, Callable[[], Any]] = {
        "stall": bridge.stall,
        "release": bridge.release,
        "reorder": bridge.reorder,
        "let": bridge.release_eof,
        "snapshot": bridge.snapshot,
        "refuse": bridge.refuse,
        "sever": bridge.sever,
        "restore": bridge.restore,
        "down": lambda: setattr(bridge, "host_is_down", True),
        "up": lambda: setattr(bridge, "host_is_down", False),
        "counts": lambda: None,
    }
    match words:
        case ["probe"]:
            return {"mediationReady": (await bridge.probe()).to_json()}
        case ["cut"] | ["cut", "rst" | "fin"]:
            how: How = "fin" if words[-1] == "fin" else "rst"
            bridge.cut(how=how)
        case [name] if name in simple:
            try:
                simple[name]()
            except OSError as error:
                return {"error": str(error)}
        case _:
            return {"error": f"no such command; there are {HELP}"}
    return {"done": words[0], "counts": dataclasses.asdict(bridge.counts)}
