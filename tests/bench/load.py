"""The load: what one slice of each measurement does to a live server, and the samples it brings home."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine

from .client import Client, Exchange
from .targets import Live

Samples = dict[str, list[float]]
"""Metric -> samples. Times in milliseconds, memory in MiB, rates per second."""
Slice = Callable[[Live, str], Coroutine[None, None, Samples]]
"""Takes a live server and the provider's URL."""

# About one KiB a turn, most of it ours: the reply is short, for what a token costs has a row of its own.
TEXT = "say:All is well here.\n" + "lorem ipsum dolor sit amet " * 36
_READ = 'read:{"path": "bench.txt", "limit": {n}}'
"""The lightest tool, as the provider is told to call it: a line of a small file."""
_BOXED = 'glob:{"pattern": "no-such-file-{n}"}'
"""The lightest of those that work in a confined process of their own."""
_session_numbers = itertools.count(1)
_CONVERSATION_STOPS = (10, 100, 200)
_WINDOW = 5  # turns on either side of a stop
_SETTLED_SECONDS = 2.0


def new_session() -> str:
    return f"bench-{next(_session_numbers)}"


async def chat(client: Client, session: str, message: str) -> Exchange:
    """A turn. Raises RuntimeError when it is not answered."""
    reply = await client.post("/chat", {"message": message, "session_id": session})
    if reply.status != 200:
        raise RuntimeError(f"/chat answered {reply.status}: {reply.body[:500]!r}")
    return reply


async def _stream(client: Client, message: str, mark: bytes = b"") -> Exchange:
    body = {"message": message, "session_id": new_session()}
    reply = await client.post("/chat/stream", body, mark=mark)
    if reply.status != 200:
        raise RuntimeError(f"/chat/stream answered {reply.status}: {reply.body[:500]!r}")
    return reply


async def provider_work(provider: str) -> tuple[int, float]:
    """How many requests the provider has answered so far, and the seconds it took over them."""
    client = await Client.connect(provider)
    stats = (await client.get("/_stats")).json()
    client.close()
    return int(stats["requests"]), float(stats["seconds"])


async def forget(provider: str) -> None:
    """Empties the provider's record of requests, so that it does not fill the memory."""
    client = await Client.connect(provider)
    await client.exchange("DELETE", "/_requests")
    client.close()


async def idle_memory(live: Live, _provider: str) -> Samples:
    """A while after the start, so that what loads behind the open port counts."""
    await asyncio.sleep(_SETTLED_SECONDS)
    return await memory(live, _provider)


async def memory(live: Live, _provider: str) -> Samples:
    return {"memory": [live.memory()]}


async def turns(live: Live, provider: str, count: int = 20) -> Samples:
    """Turns one after another, ten to a session; the provider's own time is taken off."""
    client = await Client.connect(live.url)
    walls: list[float] = []
    (_, before), cpu = await provider_work(provider), live.cpu()
    for session in (new_session() for _ in range(count // 10)):
        walls += [(await chat(client, session, TEXT)).wall for _ in range(10)]
    cpu, (_, after) = live.cpu() - cpu, await provider_work(provider)
    client.close()
    own = (after - before) / count
    return {"turn": [(wall - own) * 1000 for wall in walls], "cpu": [cpu / count * 1000]}


async def tool_rounds(live: Live, provider: str) -> Samples:
    """What one more round of the lightest tool adds to a turn."""
    client = await Client.connect(live.url)
    await chat(client, new_session(), 'tool:write:{"path": "bench.txt", "content": "one line\\n"}')
    client.close()
    return {"round": [await _round(live, provider, _READ, 20)]}


async def boxed_rounds(live: Live, provider: str) -> Samples:
    """The same for a tool that works in a confined process of its own."""
    return {"round": [await _round(live, provider, _BOXED, 4)]}


async def _round(live: Live, provider: str, tool: str, rounds: int) -> float:
    """Milliseconds of a round, the provider's own time taken off."""
    client = await Client.connect(live.url)
    short = min([(await chat(client, new_session(), f"tools:1:{tool}")).wall for _ in range(3)])
    asked_before, before = await provider_work(provider)
    reply = await chat(client, new_session(), f"tools:{rounds + 1}:{tool}")
    asked, after = await provider_work(provider)
    client.close()
    answered = [call["state"] for call in reply.json()["tool_outputs"]]
    if asked - asked_before != rounds + 2 or answered != ["output-available"] * (rounds + 1):
        raise RuntimeError(f"a turn of tool rounds went astray: {asked - asked_before} model calls, tools {answered}")
    return ((reply.wall - short) / rounds - (after - before) / (rounds + 2)) * 1000


async def first_token(live: Live, _provider: str) -> Samples:
    client = await Client.connect(live.url)
    firsts = [(await _stream(client, "stream:5:2", mark=b"word")).first for _ in range(10)]
    client.close()
    return {"first": [first * 1000 for first in firsts]}


async def tokens(live: Live, _provider: str, count: int = 2000) -> Samples:
    client = await Client.connect(live.url)
    rates: list[float] = []
    cpu = live.cpu()
    for _ in range(3):
        reply = await _stream(client, f"stream:{count}:0")
        if (got := reply.body.count(b"word ")) != count:
            raise RuntimeError(f"{got} of {count} tokens arrived")
        rates.append(count / reply.wall)
    cpu = live.cpu() - cpu
    client.close()
    return {"tokens": rates, "cpu": [cpu / (3 * count) * 1e6]}


async def crowd(live: Live, _provider: str, clients: int = 16, seconds: float = 1.0) -> Samples:
    """Sixteen clients in sessions of their own, and one that asks for `/status` all the while."""
    stop = time.perf_counter() + seconds
    walls: list[float] = []

    async def talk() -> None:
        client = await Client.connect(live.url)
        while time.perf_counter() < stop:
            session = new_session()
            walls.extend([(await chat(client, session, TEXT)).wall for _ in range(10)])
        client.close()

    async def watch() -> list[float]:
        client, seen = await Client.connect(live.url), list[float]()
        while time.perf_counter() < stop:
            seen.append((await client.get("/status")).wall * 1000)
            await asyncio.sleep(0.005)
        client.close()
        return seen

    started = time.perf_counter()
    watching = asyncio.create_task(watch())
    await asyncio.gather(*(talk() for _ in range(clients)))
    took = time.perf_counter() - started
    return {"rate": [len(walls) / took], "wall": [wall * 1000 for wall in walls], "status": await watching}


async def conversation(live: Live, _provider: str) -> Samples:
    """One long conversation; CPU per turn around each stop."""
    client, session = await Client.connect(live.url), new_session()
    samples: Samples = defaultdict(list)
    marks: dict[int, float] = {}
    for turn in range(1, _CONVERSATION_STOPS[-1] + _WINDOW + 1):
        await chat(client, session, TEXT)
        marks[turn] = live.cpu()
    client.close()
    for stop in _CONVERSATION_STOPS:
        used = marks[stop + _WINDOW] - marks[stop - _WINDOW]
        samples[f"cpu{stop}"].append(used / (2 * _WINDOW) * 1000)
    return samples
