"""The hub: envelopes per second, what an opening and an idle agent cost, and how much of a log a restart reads.

In this process, without a model; the links are as bare as a link can be.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from agent_common.protocol.hub import EV_TEXT, Envelope
from agent_host.hub import Hub
from tests.unit.host.postgresql import has_postgresql, new_database, postgresql

from .bare_link import BareLink
from .load import Samples
from .targets import Live

PIECES = 20
"""Of a session; its rate at the beginning and at the end is that of five of them."""


async def talking(
    _live: Live, _provider: str, envelopes: int = 10_000, pairs: int = 32, opened: int = 10_000, rounds: int = 3
) -> Samples:
    """Figures of hubs in memory, on SQLite with `synchronous=FULL`, and on PostgreSQL with `fsync`, if it is there."""
    samples: Samples = {}
    measured = [await _ping_pong(await Hub.open(), 1, envelopes) for _ in range(rounds)]
    samples["memory"], samples["memory flat"] = [rate for rate, _ in measured], [ratio for _, ratio in measured]
    each = max(envelopes // pairs, PIECES)
    with tempfile.TemporaryDirectory() as folder:
        urls = [f"sqlite:///{Path(folder) / f'{number}.db'}" for number in range(rounds + 3)]
        samples["sqlite"] = [(await _ping_pong(await Hub.open(urls.pop()), pairs, each))[0]]
        samples["sqlite open"] = await _openings(await Hub.open(urls.pop()), await Hub.open(urls.pop()), opened, rounds)
        samples["sqlite flat"] = [await _stream(await Hub.open(url), envelopes) for url in urls]
        samples["restart"] = [await _reread(urls[0])]
    if has_postgresql():
        with postgresql(fsync=True) as server:
            urls = [new_database(server, f"hub{number}") for number in range(rounds + 1)]
            samples["postgresql"] = [(await _ping_pong(await Hub.open(urls.pop()), pairs, each))[0]]
            samples["postgresql flat"] = [await _stream(await Hub.open(url), envelopes) for url in urls]
    samples["open"] = await _openings(await Hub.open(), await Hub.open(), opened, rounds)
    samples["idle"] = [await _idle(300)]
    return samples


async def _reread(url: str) -> int:
    """How many envelopes a hub reads that starts anew, with an agent of a long session."""
    hub = await Hub.open(url)
    await BareLink(hub).register("a0")
    async with asyncio.timeout(60):
        while hub.owned_tasks._tasks:  # what it reads for the agent
            await asyncio.sleep(0.01)
    await hub.close()
    return hub.store.envelopes_read


async def _ping_pong(hub: Hub, pairs: int, each: int) -> tuple[float, float]:
    """Envelopes per second of pairs that answer each other, and the last quarter's rate by the first's."""
    marks: list[float] = []
    left = pairs
    done = asyncio.get_running_loop().create_future()

    def start(one: BareLink, other: BareLink, session_id: str) -> None:
        count = 0

        def answer_by(link: BareLink) -> Callable[[Envelope], None]:
            def answer(envelope: Envelope) -> None:
                nonlocal count, left
                count += 1
                if count % (each // PIECES) == 0:
                    marks.append(time.perf_counter())
                if count < each:
                    loop.call_soon(link.post, session_id, EV_TEXT, envelope.envelope_id)
                    return
                left -= 1
                if not left:
                    done.set_result(None)

            return answer

        one.on_text, other.on_text = answer_by(one), answer_by(other)
        one.post(session_id)

    loop = asyncio.get_running_loop()
    links = [
        (await BareLink(hub).register(f"a{number}"), await BareLink(hub).register(f"b{number}"))
        for number in range(pairs)
    ]
    sessions = [await one.open(f"b{number}") for number, (one, _) in enumerate(links)]
    began = time.perf_counter()
    for (one, other), session_id in zip(links, sessions, strict=True):
        start(one, other, session_id)
    await done
    took = time.perf_counter() - began
    await hub.close()
    return pairs * each / took, _flatness([began, *marks]) if pairs == 1 else 1.0


async def _stream(hub: Hub, envelopes: int, at_once: int = 250) -> float:
    """One agent that sends, so many at a time, to one that acknowledges: the last quarter's rate by the first's."""
    one, other = await BareLink(hub).register("a0"), await BareLink(hub).register("b0")
    session_id = await one.open("b0")
    sent, accepted, marks = 0, 0, [time.perf_counter()]
    done = asyncio.get_running_loop().create_future()

    def on_accepted() -> None:
        nonlocal sent, accepted
        accepted += 1
        if accepted % (envelopes // PIECES) == 0:
            marks.append(time.perf_counter())
        if sent < envelopes:
            sent += 1
            one.post(session_id)
        elif accepted == envelopes:
            done.set_result(None)

    one.on_accepted = on_accepted
    for _ in range(min(at_once, envelopes)):
        sent += 1
        one.post(session_id)
    await done
    assert other.agent_id
    await hub.close()
    return _flatness(marks)


def _flatness(marks: list[float]) -> float:
    """The rate of the last quarter by that of the first, each the median of its pieces: PostgreSQL stands still for a
    seventh of a second twice in 10,000 envelopes, wherever in the session that is."""
    took = [after - before for before, after in pairwise(marks[: PIECES + 1])]
    quarter = PIECES // 4
    return statistics.median(took[:quarter]) / statistics.median(took[-quarter:])


async def _openings(many: Hub, few: Hub, most: int, rounds: int, least: int = 10, tried: int = 50) -> list[float]:
    """How long an opening takes among many open sessions, by how long among few. The two hubs take turns, so that a
    noisy moment hits both."""
    openers = [await BareLink(hub).register("a0") for hub in (many, few)]
    for hub, opener, count in zip((many, few), openers, (most, least), strict=True):
        await BareLink(hub).register("b0")
        for begun in range(0, count, 100):
            await asyncio.gather(*(opener.open("b0") for _ in range(min(count - begun, 100))))
    ratios: list[float] = []
    for _ in range(rounds):
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(tried):
            for opener, taken in zip(openers, times, strict=True):
                began = time.perf_counter()
                session_id = await opener.open("b0")
                taken.append(time.perf_counter() - began)
                await opener.ask("close", agent_id=opener.agent_id, session_id=session_id)
        ratios.append(statistics.median(times[0]) / statistics.median(times[1]))
    await many.close()
    await few.close()
    return ratios


async def _idle(agents: int) -> float:
    """KiB of the hub for each agent that is registered and does nothing."""
    hub = await Hub.open()
    await BareLink(hub).register("first")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    links = [await BareLink(hub).register(f"idle{number}") for number in range(agents)]
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(links) == agents
    await hub.close()
    return used / agents / 1024
