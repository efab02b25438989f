"""What is measured of the channel. All of it takes place in processes that these functions start themselves."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from agent_testing import LiveProcess

from ..load import Samples
from ..targets import Live
from .programs import Program, program

FLIGHT = 32
TRIPS, SLICES = 1000, 6
AGENTS, FIRST = 1000, 16
BREAKS = 40
_BEATS_SECONDS = 3.5
_WAVE = 100


@asynccontextmanager
async def _folder() -> AsyncGenerator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield Path(folder)


async def round_trips(_live: Live, _provider: str, trips: int = TRIPS, slices: int = SLICES) -> Samples:
    """Ours and the echo's take turns, and each slice begins with another one. The first one of each warms up."""
    samples: Samples = {name: [] for name in ("rate", "p50", "p99", "first50", "first99", "cpu", "guest", "frames")}
    samples |= {name: [] for name in ("echo rate", "echo p50", "echo p99", "echo cpu", "x rate", "x p99")}
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(_folder())
        host = await stack.enter_async_context(program("host", folder))
        guest = await stack.enter_async_context(program("guest", folder))
        echo = await stack.enter_async_context(program("echo", folder))
        stack.enter_context(LiveProcess([sys.executable, "-m", "tests.bench.mediated.echo", str(folder), "echo"]))
        await host.ask("attached", 1)
        await echo.ask("attached")
        for one in (host, echo):
            await one.ask("trips", trips // 2, FLIGHT)
        for number in range(slices):
            order = ("ours", "echo") if number % 2 else ("echo", "ours")
            taken = {name: await _slice(host if name == "ours" else echo, guest, trips) for name in order}
            _add(samples, taken["ours"], taken["echo"], trips)
    return samples


async def _slice(asked: Program, guest: Program, trips: int) -> dict[str, Any]:
    before = await guest.ask("cpu")
    found = await asked.ask("trips", trips, FLIGHT)
    found["guest"] = await guest.ask("cpu") - before
    return found


def _add(samples: Samples, ours: dict[str, Any], echo: dict[str, Any], trips: int) -> None:
    rate, floor = trips / ours["seconds"], trips / echo["seconds"]
    last, floor_last = p99(ours["took"]), p99(echo["took"])
    figures = {
        "rate": rate,
        "p50": statistics.median(ours["took"]),
        "p99": last,
        "first50": statistics.median(ours["accepted"]),
        "first99": p99(ours["accepted"]),
        "cpu": ours["cpu"] / trips * 1e6,
        "guest": ours["guest"] / trips * 1e6,
        "frames": ours["frames"] / ours["seconds"],
        "echo rate": floor,
        "echo p50": statistics.median(echo["took"]),
        "echo p99": floor_last,
        "echo cpu": echo["cpu"] / trips * 1e6,
        "x rate": rate / floor,
        "x p99": last / floor_last,
    }
    for name, figure in figures.items():
        samples[name].append(figure)


def p99(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=100, method="inclusive")[-1] if len(samples) > 1 else samples[0]


async def idle_agents(_live: Live, _provider: str, agents: int = AGENTS) -> Samples:
    """KiB of the host's process for each agent that is attached, has proved who it is, acknowledged its constraints,
    and been asked for a few signs of life. All are enrolled before the first figure; the first few agents are not
    counted, for they load what the others share."""
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(_folder())
        host = await stack.enter_async_context(program("host", folder, agents + FIRST, 1))
        crowd = await stack.enter_async_context(program("crowd", folder))
        before = await _attached(host, crowd, FIRST, FIRST)
        after = await _attached(host, crowd, agents, agents + FIRST)
        return {"memory": [(after - before) / agents]}


async def _attached(host: Program, crowd: Program, more: int, together: int) -> float:
    """KiB, once so many more are attached, a few at a time, for a host takes only so many that have proved nothing."""
    for left in range(more, 0, -_WAVE):
        await crowd.ask("attach", min(left, _WAVE))
        await host.ask("attached", together - max(0, left - _WAVE))
    await asyncio.sleep(_BEATS_SECONDS)
    if await host.ask("attached", together) != together:
        raise RuntimeError("an agent has gone")
    return await host.ask("memory")


async def reconnects(_live: Live, _provider: str, breaks: int = BREAKS) -> Samples:
    """Milliseconds from a break until the host may give work again; the guest's clock says that the attachment before
    was a quiet one of eleven seconds."""
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(_folder())
        host = await stack.enter_async_context(program("host", folder))
        await stack.enter_async_context(program("guest", folder))
        await host.ask("attached", 1)
        return {"reconnect": [await host.ask("breaks") for _ in range(breaks)]}
