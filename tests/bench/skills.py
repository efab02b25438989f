"""What skills cost: from a save to the moment when a turn would call it, and a call above the function's own time."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from agent_runtime.ports import Mesh
from agent_runtime.sandbox import SandboxLimits, choose_confinement
from agent_runtime.skills import Staging, WorkerSetup
from agent_runtime.skills.sources.source import PluginSource
from agent_runtime.skills.workers.pool import WorkerPool
from agent_runtime.workspace import Home

from .client import Client, Exchange
from .load import Samples, chat, new_session
from .targets import Live

SAVES = 200
TALKERS = 4
CALLED = 10
"""Of so many saves one is called in a chat: what is shown must be what is called."""
LOOK = 0.002
PATIENCE = 20.0
OWN = """
import time
@skill(description="Works for two milliseconds and says how long it took.")
def own():
    began = time.perf_counter()
    time.sleep(0.002)
    return (time.perf_counter() - began) * 1000
"""
STEADY = '@skill(description="Is called all the time.")\ndef steady(): return "on"\n'


async def calls(_live: Live, _provider: str, count: int = 200) -> Samples:
    """Milliseconds of a call above what the function itself took: in this process, with nothing around the pool."""
    with tempfile.TemporaryDirectory(prefix="bench-") as data:
        os.chmod(data, 0o755)  # noqa: S103  the worker's user must come through
        home = Home(Path(data) / "data")
        home.prepare()
        confinement = await choose_confinement("required", home.data_dir)
        home = home.with_owner(confinement.uid)
        setup = WorkerSetup(confinement, cast("Mesh", None), home.workspace, SandboxLimits())  # nobody asks it anything
        pool = WorkerPool(setup, Staging(home.staged).stage(PluginSource("own.py", {"own.py": OWN.encode()})))
        try:
            await pool.load()
            above = [await _above(pool) for _ in range(count)]
        finally:
            await pool.close()
    return {"above": above}


async def _above(pool: WorkerPool) -> float:
    began = time.perf_counter()
    own = (await pool.call("own", {})).value
    return (time.perf_counter() - began) * 1000 - own


async def calls_in_turns(live: Live, _provider: str, turns: int = 5, rounds: int = 20) -> Samples:
    """The same in live turns, from the gate to the envelope, in whole milliseconds as the runtime notes them."""
    above: list[float] = []
    client = await Client.connect(live.url)
    async with _saved(live, client, "own", OWN):
        for _ in range(turns):
            outputs = await _called(client, f"tools:{rounds}:own:{{}}")
            above += [one["metadata"]["duration_ms"] - one["data"] for one in outputs]
    client.close()
    return {"above": above}


async def saves(live: Live, _provider: str, count: int = SAVES) -> Samples:
    """Milliseconds from the end of a save until the model would be offered the new version."""
    client = await Client.connect(live.url)
    async with _saved(live, client, "fresh", _version(0)):
        taken = [await _save(live, client, number) for number in range(1, count + 1)]
    client.close()
    return {"taken": taken}


async def saves_under_load(live: Live, provider: str, count: int = SAVES) -> Samples:
    """The same while four clients chat with tool calls and without a pause; no turn of theirs may fail."""
    client = await Client.connect(live.url)
    async with _saved(live, client, "steady", STEADY):
        over = asyncio.Event()
        talkers = [asyncio.create_task(_talk(live, over)) for _ in range(TALKERS)]
        try:
            samples = await saves(live, provider, count)
        finally:
            over.set()
            turns = await asyncio.gather(*talkers)
    client.close()
    return {**samples, "turns": [float(sum(turns))]}


async def _talk(live: Live, over: asyncio.Event) -> int:
    client, turns = await Client.connect(live.url), 0
    while not over.is_set():
        outputs = await _called(client, "tools:3:steady:{}")
        if [one["data"] for one in outputs] != ["on"] * 3:
            raise RuntimeError(f"a turn went astray: {outputs}")
        turns += 1
    client.close()
    return turns


async def _save(live: Live, client: Client, number: int) -> float:
    path = _path(live, "fresh")
    path.write_text(_version(number))
    began = time.perf_counter()
    await _shows(client, f'"Says {number}."')
    taken = (time.perf_counter() - began) * 1000
    if number % CALLED == 0:
        [output] = await _called(client, "tool:fresh:{}")
        if output["data"] != number:
            raise RuntimeError(f"version {number} was called, and {output} came")
    return taken


def _version(number: int) -> str:
    return f'@skill(description="Says {number}.")\ndef fresh(): return {number}\n'


@asynccontextmanager
async def _saved(live: Live, client: Client, name: str, code: str) -> AsyncGenerator[None]:
    """A plugin for as long as this is open."""
    _path(live, name).write_text(code)
    await _shows(client, f'"file":"{name}.py","version"')
    yield
    _path(live, name).unlink()


def _path(live: Live, name: str) -> Path:
    return Path(live.data, "skills", f"{name}.py")


async def _shows(client: Client, text: str) -> None:
    """Waits until it stands in the card."""
    deadline = time.perf_counter() + PATIENCE
    while text.encode() not in (card := await client.get("/capabilities")).body:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{text} does not show: {card.body[-2000:]!r}")
        await asyncio.sleep(LOOK)


async def _called(client: Client, message: str) -> list[dict[str, Any]]:
    """The envelopes of a turn's tool calls, all of which must have gone well."""
    reply: Exchange = await chat(client, new_session(), message)
    outputs = reply.json()["tool_outputs"]
    if not outputs or any(one["state"] != "output-available" for one in outputs):
        raise RuntimeError(f"{message} was answered {outputs}")
    return [one["output"] for one in outputs]
