"""Two guests that woke from one memory: they know the same epoch and the same work, and perhaps have the same sid."""

from __future__ import annotations

import asyncio

import pytest

from .agent import Agent, Frame
from .conftest import Room
from .test_breaks import begun, gone

GREETS, ATTACHES, RESUMES = "greets", "attaches", "resumes"
ORDERS: dict[str, tuple[tuple[int, str], ...]] = {
    "one after the other": tuple((fork, step) for fork in (0, 1) for step in (GREETS, ATTACHES, RESUMES)),
    "both greet, then one": ((0, GREETS), (1, GREETS), (0, ATTACHES), (0, RESUMES), (1, ATTACHES), (1, RESUMES)),
    "both greet, then the other": ((0, GREETS), (1, GREETS), (1, ATTACHES), (1, RESUMES), (0, ATTACHES), (0, RESUMES)),
    "step by step": tuple((fork, step) for step in (GREETS, ATTACHES, RESUMES) for fork in (0, 1)),
    "crosswise": ((0, GREETS), (1, GREETS), (1, ATTACHES), (0, ATTACHES), (0, RESUMES), (1, RESUMES)),
}


async def does(fork: Agent, step: str) -> None:
    if step == GREETS:
        fork.ready(detail=f"med/1 win=4 max=1048576 sid={fork.sid} epoch=1")
        fork.welcome = await fork.expect("welcome")
    elif step == ATTACHES:
        fork.answer(fork.welcome["challenge"])
    else:
        fork.send(ctl="resume", running=["r1"], unacked=[])


async def answer(fork: Agent) -> Frame:
    return await fork.expect(lambda frame: frame.get("ctl") in ("nack", "resume_ok"))


@pytest.mark.parametrize("same_sid", [True, False])
@pytest.mark.parametrize("order", ORDERS)
async def test_of_two_forks_one_goes_on_with_the_work(room: Room, order: str, same_sid: bool) -> None:
    original, request = await begun(room)
    await gone(room, original)
    forks = [await room.connected(), await room.connected()]
    if same_sid:
        forks[1].sid = forks[0].sid
    for which, step in ORDERS[order]:
        await does(forks[which], step)
        await forks[which].writer.drain()
    told = await asyncio.gather(*map(answer, forks))
    codes = [frame.get("code") for frame in told]
    assert sorted(codes, key=str) == [None, "superseded"]
    works, rests = forks[codes.index(None)], forks[codes.index("superseded")]
    assert told[codes.index(None)]["verdicts"] == {"r1": "continue"}
    assert await rests.ended()
    again = await room.connected()  # it is not told where the other one is, and tries once more
    await does(again, GREETS)
    await does(again, ATTACHES)
    assert (await answer(again))["code"] == "superseded"
    works.result(request)
    record = await room.ended()
    assert (record.status, record.attempts, room.listener.attached) == ("resulted", 1, 1)
