"""Whatever a host does, and whenever the guest dies: each accepted id ends in exactly one result, nothing is begun
twice, and what was not acknowledged is sent again."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pytest

from agent_common.protocol.work import Cancel, ResumeOk, Verdict, WorkResult
from agent_runtime.mediation.ledger import ledger as book

from .support import Office, Wire, office, request

IDS = [*(f"req-{number}" for number in range(24)), "ünï / 'code\\' \u2028 ☂", "x" * 200, "..", "'; DROP TABLE work; --"]
VERDICTS: list[Verdict] = ["continue", "resend", "cancel", "forget"]
STEPS = 120


class _Chaos:
    """A host without manners, a network without mercy, and a machine without power."""

    def __init__(self, room: Office, seed: int) -> None:
        self.room, self.random = room, random.Random(seed)
        self.wire: Wire | None = None
        self.unwanted: set[str] = set()
        """Of these the host has said that it does not want to hear."""

    async def step(self) -> None:
        doing = (
            [self._send] * 6
            + [self._finish] * 4
            + [self._attach] * 3
            + [self._break, self._ack, self._ack, self._cancel]
        )
        await self.random.choice([*doing, self._restart])()
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        if self.random.random() < 0.3:
            await self.room.rest()

    async def _send(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 5))):
            content = "ping" if self.random.random() < 0.9 else "other"
            self.room.clerk.submit(request(self.random.choice(IDS), content))

    async def _finish(self) -> None:
        running = [piece for piece in self.room.hands.pieces.values() if not piece.over.is_set()]
        if running:
            piece = self.random.choice(running)
            await piece.finish(content=f"by life {self.random.random()}")

    async def _attach(self) -> None:
        self.wire = self.room.wire()
        if self.random.random() < 0.3:
            self.room.clerk.attach(self.wire, None)
            return
        resume = await self.room.clerk.resume_frame()
        named = [one for one in (*resume.running, *resume.unacked, "unknown") if self.random.random() < 0.7]
        verdicts: dict[str, Verdict] = {one: self.random.choices(VERDICTS, (5, 5, 1, 1))[0] for one in named}
        self.unwanted |= {one for one, verdict in verdicts.items() if verdict in ("cancel", "forget")}
        self.room.clerk.attach(self.wire, ResumeOk(verdicts=verdicts))

    async def _break(self) -> None:
        self.room.clerk.detach()

    async def _ack(self) -> None:
        results = self.wire.results() if self.wire is not None else []
        heard = [one.request_id for one in results if not _refusal(one)]
        acked = self.random.choice([*heard, *IDS[:2]])
        if acked not in heard:  # a lie: it says that it has what it was never sent
            self.unwanted.add(acked)
        await self.room.clerk.acknowledge(acked)

    async def _cancel(self) -> None:
        self.room.clerk.cancel(Cancel(request_id=self.random.choice(IDS)))

    async def _restart(self) -> None:
        await self.room.restart()


@pytest.mark.parametrize("seed", range(24))
async def test_every_accepted_request_ends_in_one_result(tmp_path: Path, seed: int) -> None:
    with office(tmp_path, window=1 + seed % 4) as room:
        chaos = _Chaos(room, seed)
        room.clerk.attach(room.wire(), ResumeOk())
        for _ in range(STEPS):
            await chaos.step()
        await _settled(room)
        accepted = {name for wire in room.wires for name in wire.signals("accepting")}
        outcomes = _outcomes(room)
        assert accepted
        assert sorted(room.begun) == sorted(set(room.begun)), "nothing is begun twice"
        assert accepted <= set(room.begun)
        for request_id in room.begun:
            assert len(outcomes[request_id]) <= 1, "one result, however often it is said"
            assert outcomes[request_id] or request_id in chaos.unwanted, request_id
        assert (await room.clerk.resume_frame()).model_dump() == {"running": (), "unacked": ()}
        await room.clerk.close()


async def _settled(room: Office) -> None:
    """A good host at last: everything ends, everything is told and acknowledged."""
    await room.restart()
    wire = room.wire()
    room.clerk.attach(wire, ResumeOk())
    for piece in list(room.hands.pieces.values()):
        await piece.finish()
    await room.until(lambda: len(room.clerk.active) == 0)
    while waiting := await room.database.read(book.unacknowledged_ids):
        await room.until(lambda waiting=waiting: set(waiting) <= {one.request_id for one in wire.results()})
        for request_id in waiting:
            await room.clerk.acknowledge(request_id)


def _outcomes(room: Office) -> dict[str, set[tuple[str, str | None, str | None]]]:
    """What the host has heard of each request's end; refusals say nothing about the work."""
    found: dict[str, set[tuple[str, str | None, str | None]]] = defaultdict(set)
    for wire in room.wires:
        for result in wire.results():
            if not _refusal(result):
                found[result.request_id].add((result.status, result.content, result.error))
    return found


def _refusal(result: WorkResult) -> bool:
    return (result.error or "").split(":")[0] in ("overloaded", "request_id_conflict", "draining")
