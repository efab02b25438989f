"""Watch the total resources of a running command. Each watch returns when a limit is exceeded, with a sentence about
it.

The kernel limits single processes and files. It limits their total only with cgroups and file system quotas, which are
not available everywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..kernel import process_tree
from ..spec.spec import SandboxLimits
from .quota import Allowance, DeletedFileUsage

FOLDER_INTERVAL = 0.05
"""Seconds between checks of the free space."""
TREE_INTERVAL = 0.1
"""Seconds between checks of the processes. They are cheap, but `MEASURE_SHARE` lengthens this for large trees."""
MEASURE_SHARE = 10
OWN_PROCESSES = 8
"""Processes and threads that the runtime itself adds to a command: sandboxes, watchers, the relay to a proxy."""
GiB = 1024**3


async def watch_tree(root: int, limits: SandboxLimits) -> str:
    """Watch a command's processes: their number, their memory in total, and the sessions that they open."""
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
    # Shared memory was counted several times; the exact figure is slow, and needed only if this one is too high.
    if seen.memory > limits.total_memory and process_tree.proportional_memory(seen.pids) > limits.total_memory:
        return f"its processes used more than {limits.total_memory / GiB:.2g} GiB of memory together"
    return None


async def watch_folders(root: int, allowances: Sequence[Allowance]) -> str:
    """Watch the folders that a command writes to, and its deleted but open files."""
    deleted_files = DeletedFileUsage(allowances)
    while True:
        await asyncio.sleep(FOLDER_INTERVAL)
        if fault := await _folder_fault(allowances):
            return fault
        if deleted_files.exceeds_limit():  # or others wrote it, or a folder has grown
            for allowance in allowances:
                await allowance.refresh()
            if fault := await _folder_fault(allowances):
                return fault
            if deleted_files.exceeds_limit(await asyncio.to_thread(process_tree.written_bytes, root)):
                return deleted_files.message


async def _folder_fault(allowances: Sequence[Allowance]) -> str | None:
    for allowance in allowances:
        if await allowance.is_overdrawn():
            return allowance.message
    return None
