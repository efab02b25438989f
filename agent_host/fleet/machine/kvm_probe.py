"""Find out whether this machine can run guests with KVM, by booting a kernel. The device may exist and not work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Literal, cast

import structlog

from . import MonitorProcess

log = structlog.get_logger(__name__)
Accel = Literal["kvm", "tcg"]
PROBE_SECONDS = 10.0
"""Time for the probe. A guest boots in less than a second where KVM works."""
_MARK = b"AGENT_PROBE_OK"


class KvmProbe:
    """Boots only the initrd, and caches the result by host kernel, emulator and guest kernel."""

    def __init__(self, cache: Path, *, device: Path = Path("/dev/kvm"), seconds: float = PROBE_SECONDS) -> None:
        self._cache = cache
        self._device = device
        self._seconds = seconds
        self._lock = asyncio.Lock()

    async def choose_accel(self, qemu: str, kernel: Path, initrd: Path) -> Accel:
        async with self._lock:
            if not os.access(self._device, os.R_OK | os.W_OK):
                return "tcg"
            mark = {"kernel": os.uname().release, "qemu": _file_stamp(Path(qemu)), "guest": _file_stamp(kernel)}
            known = await asyncio.to_thread(self._read)
            if known.get("mark") == mark:
                return "kvm" if known.get("accel") == "kvm" else "tcg"
            accel: Accel = "kvm" if await self._can_boot(qemu, kernel, initrd) else "tcg"
            log.info("kvm_probed", accel=accel)
            await asyncio.to_thread(self._write, {"mark": mark, "accel": accel})
            return accel

    async def _can_boot(self, qemu: str, kernel: Path, initrd: Path) -> bool:
        command = (qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-M")
        machine = ("q35,accel=kvm", "-cpu", "host", "-m", "128", "-kernel", str(kernel), "-initrd", str(initrd))
        line = ("-append", "console=ttyS0 quiet reboot=t panic=-1 agent.probe=1", "-serial", "stdio")
        child = await MonitorProcess.spawn("the KVM probe", (*command, *machine, *line), output=asyncio.subprocess.PIPE)
        output = b""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    while _MARK not in output and (part := await child.output.read(4096)):
                        output = (output + part)[-8192:]
        finally:
            await child.kill()
        return _MARK in output

    def _read(self) -> dict[str, object]:
        try:
            found = json.loads(self._cache.read_text())  # noqa: TID251  our own file
        except (OSError, ValueError):
            return {}
        return cast("dict[str, object]", found) if isinstance(found, dict) else {}

    def _write(self, verdict: dict[str, object]) -> None:
        self._cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._cache.with_name(f"{self._cache.name}.new")
        fresh.write_text(json.dumps(verdict))
        fresh.replace(self._cache)


def _file_stamp(path: Path) -> list[object]:
    """Return values that change when the file does."""
    try:
        found = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), found.st_size, found.st_mtime_ns]
