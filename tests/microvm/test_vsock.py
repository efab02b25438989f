"""A real guest kernel under our vsock backend: both directions, throughput, commands, quarantine."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from .machine import Machine, booted

pytestmark = pytest.mark.timeout(300)
PROGRAM = Path(__file__).with_name("program.py").read_text()
BLOCK = bytes(range(256)) * 4096


async def test_a_guest_speaks_with_its_host(tmp_path: Path) -> None:
    async with booted(tmp_path, PROGRAM) as machine:
        assert (machine.said["uid"], machine.said["cards"]) == (10001, ["lo"])
        print(f"\nguest to host: {await round_trips(machine.reader, machine.writer):.2f} ms")
        print(f"host to guest: {await round_trips(*await machine.dial(9000)):.2f} ms")
        await throughput(machine)
        await commands(machine)
        assert (await machine.runtime.status()).running
        reader, writer = await machine.dial(9000)
        await machine.runtime.quarantine()
        assert await reader.read() == b""
        writer.close()
        assert [name for name in os.listdir(machine.uds.parent) if name == machine.uds.name] == []
        assert not (await machine.runtime.status()).running


async def round_trips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Milliseconds of one."""
    began = time.monotonic()
    for number in range(100):
        writer.write(b"%d\n" % number)
        assert await reader.readline() == b"%d\n" % number
    writer.close()
    return (time.monotonic() - began) * 10


async def throughput(machine: Machine) -> None:
    reader, writer = await machine.dial(9001)
    began = time.monotonic()
    for _ in range(8):
        writer.write(BLOCK)
        await writer.drain()
    assert await reader.readline() == b"8388608\n"
    print(f"host to guest: {8 / (time.monotonic() - began):.1f} MiB/s")
    writer.close()
    reader, writer = await machine.dial(9002)
    began = time.monotonic()
    assert await reader.read(-1) == BLOCK * 8
    print(f"guest to host: {8 / (time.monotonic() - began):.1f} MiB/s")
    writer.close()


async def commands(machine: Machine) -> None:
    ended = await machine.runtime.exec(["/bin/sh", "-c", "id -u; cat /run/secrets/token; touch /data/kept; touch /x"])
    assert ended.stdout == "10001\nsecret-token"
    assert "Read-only" in ended.stderr
    shown = await machine.runtime.exec(["/bin/cat", "/proc/cmdline"])
    assert "secret" not in shown.stdout
