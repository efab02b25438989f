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
from pathlib import Path

from agent_common.protocol.hub import (
    EV_SESSION_INVITE,
    EV_SESSION_INVITE_ACK,
    EV_TEXT,
    AcceptFrame,
    Envelope,
    ErrorFrame,
    Frame,
    NotifyFrame,
    ReceiptFrame,
    RequestFrame,
    ResponseFrame,
    SendFrame,
)
from agent_host.hub import Hub

from .load import Samples
from .targets import Live

TEXT = {"text": "x" * 100}
QUARTERS = 4


class BareLink:
    """One agent on a link of its own. Invitations are accepted, everything is acknowledged."""

    def __init__(self, hub: Hub) -> None:
        self._link = hub.connect(self._take)
        self._answer: asyncio.Future[object] | None = None
        self.agent_id = ""
        self.on_text: Callable[[Envelope], None] = lambda _envelope: None
        self.on_accepted: Callable[[], None] = lambda: None

    def _take(self, frame: Frame) -> None:
        match frame:
            case NotifyFrame():
                envelope = frame.envelope
                if envelope.event_type == EV_SESSION_INVITE:
                    self.post(envelope.session_id, EV_SESSION_INVITE_ACK)
                self._link.receive(
                    ReceiptFrame(
                        envelope_id=envelope.envelope_id, session_id=envelope.session_id, recipient_id=self.agent_id
                    )
                )
                if envelope.event_type == EV_TEXT:
                    self.on_text(envelope)
            case AcceptFrame():
                self.on_accepted()
            case ResponseFrame() if self._answer is not None:
                self._answer.set_result(frame.result)
            case ErrorFrame():
                raise frame.to_error()
            case _:
                pass

    def post(self, session_id: str, event_type: str = EV_TEXT, causation_id: str | None = None) -> None:
        data = TEXT if event_type == EV_TEXT else {}
        envelope = Envelope(
            session_id=session_id,
            sender_id=self.agent_id,
            event_type=event_type,
            event_data=data,
            causation_id=causation_id,
        )
        self._link.receive(SendFrame(request_id="1", envelope=envelope))

    async def ask(self, op: str, **params: object) -> dict[str, str]:
        self._answer = asyncio.get_running_loop().create_future()
        self._link.receive(RequestFrame(request_id="1", op=op, params=params))
        found = await self._answer
        assert isinstance(found, dict)
        return found

    async def register(self, name: str) -> BareLink:
        self.agent_id = (await self.ask("register", passport={"name": name}))["agent_id"]
        return self

    async def open(self, target: str) -> str:
        params = {"agent_id": self.agent_id, "type": "conversation", "targets": [target]}
        return (await self.ask("open", **params))["session_id"]


async def talking(
    _live: Live, _provider: str, envelopes: int = 10_000, pairs: int = 32, opened: int = 10_000, rounds: int = 3
) -> Samples:
    """Figures of one hub in memory and one on SQLite with `synchronous=FULL`."""
    samples: Samples = {}
    measured = [await _ping_pong(await Hub.open(), 1, envelopes) for _ in range(rounds)]
    samples["memory"], samples["memory flat"] = [rate for rate, _ in measured], [ratio for _, ratio in measured]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'hub.db'}"
        rate, _ = await _ping_pong(await Hub.open(url), pairs, max(envelopes // pairs, QUARTERS))
        samples["sqlite"] = [rate]
        samples["sqlite flat"] = []
        for number in range(rounds):
            url = f"sqlite:///{Path(folder) / f'long{number}.db'}"
            samples["sqlite flat"].append(await _stream(await Hub.open(url), envelopes))
        hub = await Hub.open(url)
        await BareLink(hub).register("a0")
        async with asyncio.timeout(60):
            while hub.owned_tasks._tasks:  # what it reads for the agent
                await asyncio.sleep(0.01)
        samples["restart"] = [hub.store.envelopes_read]
        await hub.close()
    samples["open"] = [await _openings(opened)]
    samples["idle"] = [await _idle(300)]
    return samples


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
                if count % (each // QUARTERS) == 0:
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
        if accepted % (envelopes // QUARTERS) == 0:
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
    """The rate of the last quarter by that of the first."""
    return (marks[1] - marks[0]) / (marks[QUARTERS] - marks[QUARTERS - 1])


async def _openings(most: int, few: int = 10, tried: int = 50) -> float:
    """How long an opening takes among many open sessions, by how long among few."""
    hub = await Hub.open()
    one, _ = await BareLink(hub).register("a0"), await BareLink(hub).register("b0")

    async def median(count: int) -> float:
        while len(hub.table.live) < count:
            await one.open("b0")
        times: list[float] = []
        for _ in range(tried):
            began = time.perf_counter()
            await one.open("b0")
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    among_few = await median(few)
    among_most = await median(most)
    await hub.close()
    return among_most / among_few


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
