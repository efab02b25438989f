"""The disks that the host creates: one with the boot document, and the data volume that is kept between boots."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from pathlib import Path
from typing import Any

from ..driver import StartFailed

MAGIC = b"AGENTBOOT1"
LONGEST_CONFIG = 1 << 20
_SECTOR = 4096
_MAKE_SECONDS = 60.0


def write_config(path: Path, document: dict[str, Any]) -> None:
    """Write the boot document, readable only by the monitor: it holds tokens. Raises StartFailed if it is too long."""
    body = json.dumps(document).encode()
    if len(body) > LONGEST_CONFIG:
        raise StartFailed(f"the settings for the guest have {len(body)} bytes; at most {LONGEST_CONFIG} are allowed")
    whole = MAGIC + struct.pack("<Q", len(body)) + body
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(whole.ljust(-(-len(whole) // _SECTOR) * _SECTOR, b"\0"))


async def write_volume(path: Path, mebibytes: int, uid: int, gid: int) -> None:
    """Create a sparse, empty ext4 file system of the runtime's user, unless it exists. Raises StartFailed."""
    fresh = await asyncio.to_thread(_make_sparse_file, path, mebibytes)
    if fresh is None:
        return
    options = f"root_owner={uid}:{gid},lazy_itable_init=1,lazy_journal_init=1,nodiscard"
    await _run("mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-L", "data", "-E", options, str(fresh))
    fresh.replace(path)  # atomic: never a partial volume


def _make_sparse_file(path: Path, mebibytes: int) -> Path | None:
    if path.exists():
        return None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with fresh.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(mebibytes << 20)
    return fresh


async def _run(*command: str) -> None:
    try:
        made = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except FileNotFoundError as error:
        raise StartFailed(f"there is no {command[0]}; install e2fsprogs") from error
    try:
        output, _ = await asyncio.wait_for(made.communicate(), _MAKE_SECONDS)
    except BaseException:
        if made.returncode is None:
            made.kill()
        raise
    if made.returncode:
        raise StartFailed(f"{command[0]} failed: {output.decode(errors='replace').strip()[:500]}")
