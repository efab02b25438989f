"""Watches over what a running command uses up in all: each returns when it is too much, with a sentence that says what.

The kernel bounds single processes and files, and does not need us for that. What many of them use together it bounds
by cgroups and by quotas of the file system only, which are not there everywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..kernel import process_tree
from ..spec.spec import SandboxLimits
from .quota import Allowance, DeletedFileUsage

FOLDER_INTERVAL = 0.05
"""Seconds between looks at the room left."""
TREE_INTERVAL = 0.1
"""Seconds between looks at the processes. They are cheap; `MEASURE_SHARE` stretches it where there are many."""
MEASURE_SHARE = 10
OWN_PROCESSES = 8
"""Processes and threads of a command that the runtime itself brings in: boxes, watchers, the relay to a proxy."""
GiB = 1024**3


async def watch_tree(root: int, limits: SandboxLimits) -> str:
    """Of the processes of a command: how many they are, the memory that they use together, the sessions they open."""
    pause = TREE_INTERVAL
    while True:
        await asyncio.sleep(pause)
        began = time.monotonic()
        fault = await asyncio.to_thread(_tree_fault, root, limits)
        if fault:
            return fault
        pause = max(TREE_INTERVAL, MEASURE_SHARE * (time.monotonic() - began))


def _tree_fault(root: int, limits: SandboxLimits) -> str | None:
    seen = process_tree.measure_tree(root, limits.processes + OWN_PROCESSES)
    if seen.threads > limits.processes + OWN_PROCESSES:
        return f"it started more than {limits.processes} processes and threads"
    if seen.sessions > limits.sessions + 2:  # two are ours
        return f"it opened more than {limits.sessions} sessions of processes"
    # What processes share was counted often: only when that is too much it is worth the time to be exact.
    if seen.memory > limits.total_memory and process_tree.proportional_memory(seen.pids) > limits.total_memory:
        return f"its processes used more than {limits.total_memory / GiB:.2g} GiB of memory together"
    return None


async def watch_folders(root: int, allowances: Sequence[Allowance]) -> str:
    """Of the folders that a command writes to, and of what it writes and puts into none."""
    hoard = DeletedFileUsage(allowances)
    while True:
        await asyncio.sleep(FOLDER_INTERVAL)
        if fault := await _folder_fault(allowances):
            return fault
        if hoard.exceeds_limit():  # unless others took it, or a folder holds it that has grown since it was measured
            for allowance in allowances:
                await allowance.refresh()
            if fault := await _folder_fault(allowances):
                return fault
            if hoard.exceeds_limit(await asyncio.to_thread(process_tree.written_bytes, root)):
                return hoard.message


async def _folder_fault(allowances: Sequence[Allowance]) -> str | None:
    for allowance in allowances:
        if await allowance.is_overdrawn():
            return allowance.message
    return None
