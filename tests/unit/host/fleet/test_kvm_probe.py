"""Whether KVM can be used is found out by a boot, with stand-ins for the emulator."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from agent_host.fleet.machine.kvm_probe import KvmProbe

SAYS = "print('SeaBIOS'); print('AGENT_PROBE_OK', flush=True)"
HANGS = "print('Probing EDD (edd=off to disable)... ok', flush=True); time.sleep(600)"
ENDS = "sys.exit('no KVM here')"
FLOODS = "\nwhile True: print('x' * 65536)"


def emulator(folder: Path, does: str) -> str:
    path = folder / f"qemu-{len(list(folder.iterdir()))}"
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n")
    with path.open("a") as file:
        file.write(f"open({str(folder / 'runs')!r}, 'a').write(str(os.getpid()) + '\\n')\n{does}\n")
    path.chmod(0o755)
    return str(path)


def runs(folder: Path) -> list[int]:
    path = folder / "runs"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def choose(folder: Path, does: str, seconds: float = 20) -> str:
    kernel = folder / "vmlinuz"
    kernel.touch()
    prober = KvmProbe(folder / "vm/kvm.json", device=Path("/dev/null"), seconds=seconds)
    return await prober.choose_accel(emulator(folder, does), kernel, folder / "initrd.gz")


@pytest.mark.parametrize(("does", "accel"), [(SAYS, "kvm"), (ENDS, "tcg")])
async def test_what_the_boot_says_counts_and_is_remembered(tmp_path: Path, does: str, accel: str) -> None:
    kernel = tmp_path / "vmlinuz"
    kernel.touch()
    qemu = emulator(tmp_path, does)
    for _ in range(2):
        prober = KvmProbe(tmp_path / "vm/kvm.json", device=Path("/dev/null"))
        assert await prober.choose_accel(qemu, kernel, tmp_path / "initrd.gz") == accel
    assert len(runs(tmp_path)) == 1
    kernel.write_text("another kernel")
    assert (
        await KvmProbe(tmp_path / "vm/kvm.json", device=Path("/dev/null")).choose_accel(qemu, kernel, kernel) == accel
    )
    assert len(runs(tmp_path)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("does", [HANGS, FLOODS])
async def test_a_boot_that_does_not_get_there_ends_with_its_time(tmp_path: Path, does: str) -> None:
    began = time.monotonic()
    assert await choose(tmp_path, does, 1.5) == "tcg"
    assert 1.5 <= time.monotonic() - began < 10
    [pid] = runs(tmp_path)
    assert not psutil.pid_exists(pid)
    assert json.loads((tmp_path / "vm/kvm.json").read_text())["accel"] == "tcg"


async def test_without_the_device_nothing_is_tried(tmp_path: Path) -> None:
    prober = KvmProbe(tmp_path / "kvm.json", device=tmp_path / "none")
    assert await prober.choose_accel(emulator(tmp_path, SAYS), tmp_path, tmp_path) == "tcg"
    assert runs(tmp_path) == []
