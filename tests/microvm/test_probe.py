"""The probe of KVM with a real emulator, kernel and initrd: what it takes for a boot, and one that never comes."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from agent_host.fleet.machine.kvm_probe import KvmProbe

from .machine import IMAGE

pytestmark = pytest.mark.timeout(120)
EMULATED = """#!/bin/bash
for part; do part=${part/accel=kvm/accel=tcg}; [ "$part" != host ] || part=max; parts+=("$part"); done
exec qemu-system-x86_64 -name of-the-probe "${parts[@]}" %s
"""


@pytest.mark.parametrize(("more", "seconds", "verdict"), [("", 60, "kvm"), ("-S", 3, "tcg")])
async def test_what_boots_in_time_is_believed(tmp_path: Path, more: str, seconds: float, verdict: str) -> None:
    """Emulated, for not every machine has KVM; `-S` is a machine that stands still."""
    qemu = tmp_path / "qemu"
    qemu.write_text(EMULATED % more)
    qemu.chmod(0o755)
    prober = KvmProbe(tmp_path / "kvm.json", device=Path("/dev/null"), seconds=seconds)
    began = time.monotonic()
    assert await prober.choose_accel(str(qemu), IMAGE / "vmlinuz", IMAGE / "initrd.gz") == verdict
    print(f"\n{verdict} after {time.monotonic() - began:.2f} s")
    assert verdict == "kvm" or 3 <= time.monotonic() - began < 10
    assert not [
        one for one in psutil.process_iter(["name", "cmdline"]) if "of-the-probe" in (one.info["cmdline"] or ())
    ]
