"""A random schedule of faults: whatever happens, each request ends with one recorded result or one dead record, and
nothing is recorded that did not run."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_host.listener import ListenerLimits
from agent_host.listener.ledger.states import (
    ACTIVE,
    TRANSITIONS,
    IllegalTransition,
    Status,
    check_transition,
    public_status,
)

from .agent import Agent, Frame
from .conftest import Room

NAMES = ("a", "b", "c")
REQUESTS = 60
LULL = 1.0
"""Seconds after which an agent whose work does not end leaves, and says at its next greeting what it runs."""


class Worker:
    """An agent over all its lives: it may forget, repeat itself, fall silent, or claim what is not its own."""

    def __init__(self, room: Room, name: str, chance: random.Random) -> None:
        self.room, self.name, self.chance = room, name, chance
        self.running: dict[str, Frame] = {}
        self.unacked: dict[str, Frame] = {}
        self.ran: list[str] = []

    async def live(self) -> None:
        """Connection after connection."""
        while True:
            if self.chance.random() < 0.2:
                self.running.clear()  # it was restarted, and its work is lost
            # ValueError: the host has no address between two lives.
            with contextlib.suppress(OSError, AssertionError, TimeoutError, ValueError):
                agent = self.room.agent(self.name, window=4, patience=LULL)
                async with agent:
                    await agent.attach(running=tuple(self.running), unacked=tuple(self.unacked))
                    await self._work(agent)
            await asyncio.sleep(0.01)

    async def _work(self, agent: Agent) -> None:
        for name, verdict in agent.verdicts.items():
            if verdict in ("cancel", "forget"):
                self.running.pop(name, None)
                self.unacked.pop(name, None)
            elif verdict == "resend":
                self._say(agent, self.unacked[name])
        for request in list(self.running.values()):
            self._end(agent, request)
        while (frame := await agent.receive()) is not None:
            if "principal" in frame:
                self._take(agent, frame)
            elif frame.get("ctl") == "ack":
                self.unacked.pop(frame["request_id"], None)
            if self.chance.random() < 0.12:
                self._fail(agent)
                return

    def _take(self, agent: Agent, request: Frame) -> None:
        name = request["request_id"]
        if name in self.unacked:
            self._say(agent, self.unacked[name])
            return
        agent.accept(request)
        self.running[name] = request
        if self.chance.random() < 0.8:
            self._end(agent, request)

    def _end(self, agent: Agent, request: Frame) -> None:
        name = request["request_id"]
        self.ran.append(name)
        self.running.pop(name)
        self.unacked[name] = request
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            self._say(agent, request)

    def _say(self, agent: Agent, request: Frame) -> None:
        agent.result(request, content=f"{self.name} did {request['request_id']}")
        agent.complete(request)

    def _fail(self, agent: Agent) -> None:
        kind = self.chance.choice(("abort", "half", "nonsense", "forge"))
        if kind == "abort":
            agent.abort()
        elif kind == "half":
            agent.raw(b'{"request_id":"')
        elif kind == "nonsense":
            agent.raw(b"{}\n[]\nnull\n")
        else:
            agent.result({"request_id": f"r{self.chance.randrange(REQUESTS)}", "audit_ref": ""}, content="forged")


async def _over(room: Room, names: Iterable[str]) -> None:
    """Returns once all of them are over."""
    left = list(names)
    async with asyncio.timeout(60):
        while left:
            room.pass_time(0.5)
            await asyncio.sleep(0.02)
            left = [name for name in left if not (await room.listener.get(name)).is_finished]


def _check(name: str, record: Any, owner: str, ran: set[str]) -> None:
    assert record.status in ("resulted", "dead"), record
    if record.status == "resulted":
        assert record.result.content in (f"{owner} did {name}", "forged"), record
        assert name in ran or record.result.content == "forged"
    else:
        assert record.error.startswith(("attempts_exhausted", "undeliverable")), record


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(2))
async def test_every_request_ends_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    room = Room(
        tmp_path, ListenerLimits(retry_min=0.0, retry_max=0.01, resend_max=0.01, close_timeout=0.02, attempts=6)
    )
    await room.open()
    for name in NAMES:
        await room.enrol(name)
    workers = [Worker(room, name, chance) for name in NAMES]
    lives = [asyncio.create_task(worker.live()) for worker in workers]
    counts = dict.fromkeys(("breaks", "retries", "duplicates_refused", "foreign_refused", "resends"), 0)
    owners: dict[str, str] = {}

    async def restart() -> None:
        for name in counts:
            counts[name] += room.count(name)
        await room.again()

    for number in range(REQUESTS):
        owners[f"r{number}"] = name = chance.choice(NAMES)
        await room.submit(f"r{number}", name=name, content=f"{number}")
        if chance.random() < 0.1:
            await room.submit(f"r{number}", name=name, content=f"{number}")
        room.pass_time(chance.choice((0.0, 0.1, 1.0)))
        if chance.random() < 0.06:
            await restart()
        await asyncio.sleep(0.01)

    await _over(room, owners)
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    await restart()
    ends: dict[str, Any] = {name: await room.listener.get(name) for name in owners}
    await room.close()
    ran = {name for worker in workers for name in worker.ran}
    for name, record in ends.items():
        _check(name, record, owners[name], ran)
    print(f"seed {seed}: {counts}, dead {sum(record.status == 'dead' for record in ends.values())}")


@given(st.lists(st.sampled_from(sorted(TRANSITIONS)), min_size=1, max_size=12))
def test_what_is_over_stays_over(path: list[Status]) -> None:
    """No walk through the states leaves an end, but to say that it was read."""
    status: Status = "queued"
    over = False
    for after in path:
        try:
            check_transition(status, after)
        except IllegalTransition:
            continue
        assert not over or after == "delivered"
        status, over = after, over or after not in ACTIVE
        assert public_status(status) in ("queued", "dispatched", "accepted", "resulted", "dead", "cancelled", "expired")
