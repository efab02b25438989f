"""Who a machine's processes are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agent_host.fleet.machine import Jail, MonitorProcess, SocketDir, jail_of, with_device

ROOT = os.geteuid() == 0
TELL = "id -u; id -g; id -G; cat <&{file}"


@pytest.mark.skipif(not ROOT, reason="only root makes others of its processes")
async def test_a_child_is_nobody_else_and_has_the_files_that_it_was_given(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine!")
    secret.chmod(0o600)
    jail = Jail(0x70123456)
    assert jail_of(SocketDir(tmp_path / "0123456789ab")) == jail
    handle = os.open(secret, os.O_RDONLY)
    command = ("/bin/bash", "-c", TELL.format(file=handle))
    child = await MonitorProcess.spawn(
        "it", command, output=asyncio.subprocess.PIPE, jail=Jail(jail.uid, (4242,)), files=(handle,)
    )
    os.close(handle)
    said = await child.output.read()
    await child.kill()
    assert said.decode().splitlines() == [f"{jail.uid}", f"{jail.uid}", f"{jail.uid} 4242", "mine!"]


def test_a_device_is_used_by_its_group_or_by_root_alone(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch()
    found: list[Jail | None] = []
    for mode in (0o666, 0o660, 0o600):
        device.chmod(mode)
        found.append(with_device(Jail(7), device))
    assert found == [Jail(7), Jail(7, (device.stat().st_gid,)), None]
