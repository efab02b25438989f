"""More load: long streams heard again, very many sessions, and very long ones."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from agent_testing import Hang, Say, step_to_json

from .client import Client, Exchange
from .load import Samples, new_session, provider_work
from .stored import Contents
from .targets import Live

CHUNKS = 2000
WORD = b"word "
STORED = Contents(sessions=10_000, long=12, messages=1000)
_PAGES = 20  # that are measured at either place


async def replay(live: Live, provider: str, readers: int = 10) -> Samples:
    """A turn stands still after 2000 chunks; readers come one after another and hear them all."""
    samples: list[float] = []
    control, speaker, session = await Client.connect(provider), await Client.connect(live.url), new_session()
    await _script_long_reply(control)
    body = {"message": "go on", "session_id": session}
    turn = asyncio.create_task(speaker.post("/chat/stream", body, mark=WORD, times=CHUNKS))
    async with asyncio.timeout(30):
        await speaker.heard.wait()
    for _ in range(readers):
        reader = await Client.connect(live.url)
        heard = await reader.exchange("GET", f"/chat/{session}/stream", mark=WORD, times=CHUNKS, leave=True)
        samples.append(_whole(heard).first * 1000)
        reader.close()
    await control.post("/_release", {})
    _whole(await turn)
    for client in (control, speaker):
        client.close()
    return {"replay": samples}


async def recorded(live: Live, _provider: str, readers: int = 10) -> Samples:
    """The same from the record of a turn that has ended: the message is sent again. Its text comes as one chunk."""
    client = await Client.connect(live.url)
    body = {"message": f"stream:{CHUNKS}:0", "session_id": new_session(), "message_id": "the-same"}
    _whole(await client.post("/chat/stream", body))
    again = [_whole(await client.post("/chat/stream", body, mark=WORD, times=CHUNKS)) for _ in range(readers)]
    client.close()
    return {"replay": [heard.first * 1000 for heard in again]}


async def _script_long_reply(control: Client) -> None:
    """The next model call gets 2000 pieces at once, and then nothing until it is released."""
    step = step_to_json(Hang(after=CHUNKS, reply=Say(pieces=(WORD.decode(),) * CHUNKS)))
    told = await control.post("/_script", {"append": True, "steps": [step]})
    if told.status != 200:
        raise RuntimeError(f"the provider answered {told.status}: {told.body[:500]!r}")


def _whole(reply: Exchange) -> Exchange:
    got = reply.body.count(WORD)
    if reply.status != 200 or got != CHUNKS:
        raise RuntimeError(f"{got} of {CHUNKS} chunks arrived with status {reply.status}")
    return reply


async def listing(live: Live, _provider: str) -> Samples:
    """The first page again and again, then page after page to the last; those in the middle count as well."""
    client = await Client.connect(live.url)
    first = [(await _page(client, "")).wall * 1000 for _ in range(_PAGES)]
    walls: list[float] = []
    seen: set[str] = set()
    after: str | None = ""
    while after is not None:
        page = await _page(client, after)
        found = page.json()
        seen.update(row["id"] for row in found["sessions"])
        walls.append(page.wall * 1000)
        after = found.get("next")
    client.close()
    if len(seen) < STORED.sessions:
        raise RuntimeError(f"{len(seen)} of {STORED.sessions} sessions were listed")
    place = (len(walls) - _PAGES) // 2
    middle = walls[place : place + _PAGES]
    depth = statistics.median(middle) / statistics.median(first)
    return {"first": first, "middle": middle, "depth": [depth], "status": await _status_while_listing(live)}


async def _status_while_listing(live: Live, readers: int = 4, seconds: float = 0.7) -> list[float]:
    """What `/status` takes while several clients go through the pages."""
    stop = time.perf_counter() + seconds

    async def go_through() -> None:
        client, after = await Client.connect(live.url), ""
        while time.perf_counter() < stop:
            after = (await _page(client, after)).json().get("next") or ""
        client.close()

    async def watch() -> list[float]:
        client, seen = await Client.connect(live.url), list[float]()
        while time.perf_counter() < stop:
            seen.append((await client.get("/status")).wall * 1000)
            await asyncio.sleep(0.005)
        client.close()
        return seen

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(go_through() for _ in range(readers)))
    return await watching


async def _page(client: Client, after: str) -> Exchange:
    reply = await client.get(f"/sessions?after={after}" if after else "/sessions")
    if reply.status != 200:
        raise RuntimeError(f"/sessions answered {reply.status}: {reply.body[:500]!r}")
    return reply


async def resume(live: Live, provider: str, sessions: int = 3) -> Samples:
    """To the first token of the next turn in sessions of 1000 messages that were not spoken in since the start, of one
    more turn in the same, and of the first turn in new ones. The provider's own time is taken off."""
    client = await Client.connect(live.url)
    samples: Samples = {"cold": [], "warm": [], "new": []}
    for _ in range(sessions):
        name = next(live.unread)
        for kind, session in (("cold", name), ("warm", name), ("new", new_session())):
            samples[kind].append(await _first_token(client, provider, session))
    client.close()
    return samples


async def _first_token(client: Client, provider: str, session: str) -> float:
    body: dict[str, Any] = {"message": "stream:5:0", "session_id": session}
    _, before = await provider_work(provider)
    reply = await client.post("/chat/stream", body, mark=WORD)
    _, after = await provider_work(provider)
    if reply.body.count(WORD) != 5:
        raise RuntimeError(f"/chat/stream answered {reply.status}: {reply.body[:500]!r}")
    return (reply.first - (after - before)) * 1000
