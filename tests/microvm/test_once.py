"""`agent-host run`: one agent for one task, from the boot to the power-off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from .house import MONITOR
from .machine import IMAGE, PATIENCE

pytestmark = pytest.mark.timeout(600)


def test_one_task_from_boot_to_power_off(tmp_path: Path) -> None:
    """By whatever this machine has: KVM where a kernel really runs with it."""
    command = (sys.executable, "-m", "agent_host", "run", "Say hello to the walnut.", "--driver", "qemu")
    options = ("--image", IMAGE, "--data-dir", tmp_path / "kept", "--timeout", f"{PATIENCE:g}")
    done = subprocess.run((*command, *options), check=False, capture_output=True, text=True, timeout=4 * PATIENCE)
    print(f"\n{done.stderr}{done.stdout}")
    assert done.returncode == 0
    assert "walnut" in done.stdout
    steps = [line.split("s  ")[1] for line in done.stderr.splitlines()]
    assert steps == ["it runs", "it is attached and can be given work", "it has answered", "it is off"]
    assert "the runtime ended with exit code 0" in (tmp_path / "kept/workspaces/agent/console.log").read_text()
    assert not [one for one in psutil.process_iter(["name", "cmdline"]) if ours(one, tmp_path)]
    if os.access("/dev/kvm", os.R_OK | os.W_OK):
        verdict = json.loads((tmp_path / "kept/vm/kvm.json").read_text())["accel"]
        print(f"the probe of KVM says: {verdict}")
        assert verdict in ("kvm", "tcg")


def ours(process: psutil.Process, folder: Path) -> bool:
    return process.info["name"] == MONITOR and any(str(folder) in part for part in process.info["cmdline"] or ())
