"""Deadlines, cancelling, draining, quarantine, and readers who do not read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from agent_common.protocol.work import Principal, Progress, WorkBounds
from agent_host.errors import Conflict, InvalidRequest, Unavailable
from agent_host.listener import LedgerRecord, ListenerLimits
from agent_host.listener.ledger.subscriptions import MOST_NEWS

from .agent import PATIENCE
from .conftest import Owner, Room
from .test_breaks import begun, gone


async def test_an_agent_must_accept_in_time(room: Room) -> None:
    agent = await room.attached()
    await room.submit()
    await agent.request()
    await room.until(lambda: room.listener.ledger.active["r1"].timer is not None)
    room.pass_time(10.1)
    assert await agent.ended()
    again = await room.attached()
    room.pass_time(0.1)
    assert (await again.request())["audit_ref"] == "r1;attempt=2"


async def test_work_that_was_accepted_too_late_goes_on(room: Room) -> None:
    agent = await room.attached()
    await room.submit()
    request = await agent.request()
    await room.until(lambda: room.listener.ledger.active["r1"].timer is not None)
    room.pass_time(10.1)
    assert await agent.ended()
    again = await room.attached(running=("r1",))
    assert again.verdicts == {"r1": "continue"}
    again.result(request)
    record = await room.ended()
    assert (record.status, record.attempts) == ("resulted", 1)


async def test_work_that_stops_too_late_is_another_attempt_that_goes_on(room: Room) -> None:
    """The agent answers the same id with what it has done, so asking it to begin again would be of no use."""
    agent, request = await begun(room, bounds=WorkBounds(max_duration_seconds=5))
    for attempt in (2, 3):
        room.pass_time(15.1)
        await agent.expect("cancel")
        room.pass_time(10.1)
        assert await agent.ended()
        agent = await room.attached(running=("r1",))
        assert agent.verdicts == {"r1": "continue"}
        assert (await room.stands("accepted")).attempts == attempt
    agent.result(request, "yielded", "half", error="deadline_exceeded: so far")
    assert (await room.result()).status == "yielded"


async def test_work_that_never_stops_is_dead_after_its_last_attempt(tmp_path: Path) -> None:
    room = Room(tmp_path, ListenerLimits(attempts=1, close_timeout=0.05))
    await room.open()
    try:
        await room.enrol()
        agent, _ = await begun(room)
        room.pass_time(3600.1)
        await agent.expect("cancel")
        room.pass_time(10.1)
        assert await room.error() == "attempts_exhausted: 1 attempts, the last: run_timeout"
        again = await room.attached(running=("r1",))
        assert again.verdicts == {"r1": "cancel"}
    finally:
        await room.close()


async def test_work_that_takes_too_long_is_cancelled_and_then_cut(room: Room) -> None:
    agent = await room.attached()
    await room.submit(bounds=WorkBounds(max_duration_seconds=5))
    request = await agent.request()
    agent.accept(request)
    await room.stands("accepted")
    room.pass_time(15.1)
    assert (await agent.expect("cancel"))["reason"] == "deadline_exceeded"
    room.pass_time(10.1)
    assert await agent.ended()
    await room.until(lambda: room.count("retries") == 1)


async def test_the_time_for_work_that_waits_at_its_agent_begins_when_that_begins_it(room: Room) -> None:
    agent, _ = await begun(room, bounds=WorkBounds(max_duration_seconds=5))
    work = room.listener.ledger.active["r1"]
    agent.send(ctl="progress", request_id="r1", seq=1, kind="queued")
    await room.until(lambda: work.waits_at_agent)
    room.pass_time(3700)
    await room.submit("r2")
    following = await agent.receive() or {}
    assert (following.get("ctl"), following["request_id"]) == (None, "r2"), "no cancel has come before it"
    agent.accept(following)
    agent.send(ctl="progress", request_id="r1", seq=2, kind="started")
    agent.send(ctl="progress", request_id="r1", seq=3, kind="queued")
    agent.send(ctl="progress", request_id="r1", seq=4, kind="text", text="now")
    await room.until(lambda: work.waits_at_agent is False)
    assert work.seconds_at_work(room.clock.now_ms()) < 1
    room.pass_time(15.1)
    assert (await agent.expect("cancel"))["reason"] == "deadline_exceeded"


async def test_work_that_its_agent_does_not_begin_in_time_is_cancelled(room: Room) -> None:
    agent, request = await begun(room, expires_in=700)
    agent.send(ctl="progress", request_id="r1", seq=1, kind="queued")
    await room.until(lambda: room.listener.ledger.active["r1"].waits_at_agent)
    room.pass_time(700.1)
    assert (await agent.expect("cancel"))["reason"] == "deadline_exceeded"
    agent.result(request, "yielded", "", error="deadline_exceeded: not begun")
    assert (await room.ended()).status == "resulted"


async def test_an_agent_that_yields_at_its_deadline_has_a_result(room: Room) -> None:
    agent, request = await begun(room)
    room.pass_time(3600.1)
    await agent.expect("cancel")
    agent.result(request, "yielded", "half", error="deadline_exceeded: so far")
    assert (await room.ended()).status == "resulted"
    assert (await room.result()).status == "yielded"


async def test_work_that_nobody_begins_expires(room: Room) -> None:
    await room.submit(expires_in=5)
    room.pass_time(5.1)
    record = await room.ended()
    assert (record.status, record.error) == ("expired", "expired: no agent could start it in time")


async def test_work_whose_agent_never_comes_back_is_dead(room: Room) -> None:
    agent, _ = await begun(room)
    await gone(room, agent)
    room.pass_time(86_400.1)
    assert (await room.ended()).status == "dead"
    assert (await room.error()).startswith("no_agent: ")


@pytest.mark.parametrize("break_by", ["connection", "restart", "restart in a pause"])
async def test_work_that_was_begun_in_time_does_not_expire(room: Room, break_by: str) -> None:
    agent, request = await begun(room, expires_in=5)
    room.pass_time(60)
    if break_by == "restart in a pause":
        await gone(room, agent)
        await room.attached()
        await room.until(lambda: room.count("retries") == 1)
    if break_by == "connection":
        await gone(room, agent)
    else:
        await room.again()
    room.pass_time(590)
    assert await room.status() == "queued", "its agent may still come back"
    again = await room.attached(running=("r1",))
    assert again.verdicts == {"r1": "continue"}
    again.result(request)
    assert (await room.ended()).status == "resulted"


async def test_a_place_is_free_some_time_after_the_result(room: Room) -> None:
    agent = await room.attached(window=1)
    await room.submit("r1")
    await room.submit("r2")
    request = await agent.request()
    agent.accept(request)
    agent.result(request)
    await agent.expect("ack")
    await room.ended("r1")
    room.pass_time(10.1)
    assert (await agent.request())["request_id"] == "r2"


async def test_unverified_principals_are_refused_at_the_door(room: Room) -> None:
    with pytest.raises(InvalidRequest, match=r"principal\.verified"):
        await room.submit(principal=Principal(name="bob", kind="user", verified=False))


# ---------------------------------------------------------------- cancel


async def test_cancelling_what_waits(room: Room) -> None:
    await room.submit()
    record = await room.listener.cancel("r1", "changed my mind")
    assert (record.status, record.error) == ("cancelled", "cancelled: changed my mind")
    assert (await room.listener.cancel("r1")).error == "cancelled: changed my mind", "again is nothing"


async def test_cancelling_what_runs_asks_the_agent(room: Room) -> None:
    agent, request = await begun(room)
    await room.listener.cancel("r1", "enough")
    frame = await agent.expect("cancel")
    assert (frame["request_id"], frame["reason"]) == ("r1", "enough")
    agent.result(request, "failed", "so far", error="cancelled")
    await agent.expect("ack")
    assert (await room.ended()).status == "cancelled"
    assert (await room.result()).content == "so far"


async def test_a_result_that_was_faster_than_the_cancel_counts(room: Room) -> None:
    agent, request = await begun(room)
    await room.listener.cancel("r1")
    agent.result(request)
    assert (await room.ended()).status == "resulted"


async def test_an_agent_that_does_not_stop_is_cut(room: Room) -> None:
    agent, _ = await begun(room)
    await room.listener.cancel("r1")
    await agent.expect("cancel")
    room.pass_time(10.1)
    assert await agent.ended()
    assert (await room.ended()).status == "cancelled"
    again = await room.attached(running=("r1",))
    assert again.verdicts == {"r1": "cancel"}


async def test_an_agent_that_accepts_what_was_cancelled_and_does_not_stop_is_cut(room: Room) -> None:
    """Its `accepting` crosses the `cancel`."""
    agent = await room.attached()
    await room.submit()
    request = await agent.request()
    await room.listener.cancel("r1")
    await agent.expect("cancel")
    agent.accept(request)
    await room.stands("accepted")
    room.pass_time(10.1)
    await room.until(lambda: room.listener.attached == 0)
    assert await agent.ended()
    assert (await room.ended()).status == "cancelled"


async def test_a_cancel_survives_a_break_and_a_restart(room: Room) -> None:
    agent, _ = await begun(room)
    await room.listener.cancel("r1")
    await agent.expect("cancel")
    await gone(room, agent)
    assert (await room.ended()).status == "cancelled"
    await room.again()
    assert await room.status() == "cancelled"


# ---------------------------------------------------------------- drain


async def test_a_drained_agent_ends_what_it_has_and_gets_no_more(room: Room) -> None:
    agent, request = await begun(room)
    await room.listener.workspaces.drain("a", 30)
    assert (await agent.expect("drain"))["deadline_s"] == 30
    await room.submit("r2")
    agent.result(request)
    await agent.expect("ack")
    agent.complete(request)
    await agent.close()
    await room.until(lambda: room.listener.attached == 0)
    again = await room.attached()
    assert await room.status("r2") == "queued"
    assert await room.closed_by() == "drained"
    await room.again()
    again = await room.attached()
    await room.listener.workspaces.resume("a")
    assert (await again.request())["request_id"] == "r2"


async def test_an_agent_that_is_drained_while_it_resumes_brings_its_results(room: Room) -> None:
    agent, request = await begun(room)
    await gone(room, agent)
    again = await room.connected()
    again.ready()
    again.welcome = await again.expect("welcome")
    again.answer(again.welcome["challenge"])
    await room.until(lambda: room.listener.attached == 1)
    await room.listener.workspaces.drain("a", 600)
    await again.expect("drain")
    again.send(ctl="resume", unacked=("r1",))
    assert (await again.expect("resume_ok"))["verdicts"] == {"r1": "resend"}
    room.pass_time(10.1)
    assert room.listener.attached == 1, "it has the time of the drain"
    again.result(request)
    await again.expect("ack")
    assert (await room.ended()).attempts == 1
    room.pass_time(600)
    assert await again.ended()


async def test_a_drain_has_an_end(room: Room) -> None:
    agent, _ = await begun(room)
    await room.listener.workspaces.drain("a", 5)
    room.pass_time(15.1)
    assert await agent.ended()
    assert await room.status() == "queued"


# ---------------------------------------------------------------- quarantine


async def test_quarantine_of_an_idle_agent(room: Room) -> None:
    agent = await room.attached()
    await room.submit("r1", expires_in=50)
    await agent.request()
    await room.listener.workspaces.quarantine("a", "odd")
    assert await agent.ended()
    assert agent.seen[-1]["request_id"] == "r1", "it is told nothing"
    record = await room.ended()
    assert (record.status, record.error) == ("dead", "quarantined: odd")
    late = await room.connected()
    late.ready()
    assert await late.ended()
    assert room.alarms() == {"attach_while_quarantined": 1}


async def test_quarantine_in_the_middle_and_after_a_restart(room: Room) -> None:
    agent, _ = await begun(room, "running")
    await gone(room, agent)
    await room.listener.workspaces.quarantine("a", "odd")
    assert (await room.ended("running")).error == "quarantined: odd"
    await room.submit("later")
    await room.again()
    late = await room.connected()
    late.ready()
    assert await late.ended()
    with pytest.raises(Conflict, match="unquarantine"):
        await room.listener.workspaces.resume("a")
    await room.listener.workspaces.unquarantine("a")
    again = await room.attached()
    assert (await again.request())["request_id"] == "later"


async def test_quarantine_of_one_that_works_is_the_end_of_its_work_whatever_it_says(room: Room) -> None:
    agent, request = await begun(room)
    await room.listener.workspaces.quarantine("a", "odd")
    agent.result(request, content="too late")
    assert await agent.ended()
    record = await room.ended()
    assert (record.status, record.error) == ("dead", "quarantined: odd")
    late = await room.connected()
    late.ready()
    late.result(request, content="too late")
    assert await late.ended()
    assert not [frame for frame in late.seen if "ctl" in frame], "it is told nothing"
    assert await room.ended() == record
    await room.listener.workspaces.unquarantine("a")
    again = await room.attached(running=("r1",))
    assert again.verdicts == {"r1": "cancel"}
    again.result(request, content="too late")
    await again.expect("ack")
    assert await room.ended() == record


async def test_a_guest_cannot_say_that_it_is_in_quarantine(room: Room) -> None:
    agent = await room.attached()
    agent.signal("quarantined")
    await room.until(lambda: room.alarms() == {"guest_says_quarantined": 1})
    await room.submit()
    assert await agent.request()


# ---------------------------------------------------------------- pausing, reading


async def test_a_paused_workspace_is_not_taken_for_dead(room: Room) -> None:
    agent, request = await begun(room)
    room.listener.workspaces.pause("a")
    agent.answers_pings = False
    for _ in range(20):
        room.pass_time(15)
    assert room.listener.attached == 1
    await room.submit("r2")
    room.listener.workspaces.unpause("a")
    assert (await agent.request())["request_id"] == "r2"
    agent.result(request)
    assert (await room.ended()).attempts == 1


@pytest.mark.parametrize("reads", [True, False])
async def test_what_a_paused_workspace_cannot_read_is_kept_for_it(tmp_path: Path, reads: bool) -> None:
    """Its machine stands still while requests are on their way to it: that is no peer that does not read."""
    room = Room(tmp_path, ListenerLimits(close_timeout=0.05, window=32, stall_timeout=8))
    await room.open()
    try:
        await room.enrol()
        agent = await room.attached(window=32)
        transport = cast(asyncio.Transport, agent.writer.transport)
        transport.pause_reading()
        for number in range(8):
            await room.submit(f"big{number}", content="x" * 1_000_000)
        await room.until(lambda: room.session.connection._outbox)
        room.pass_time(1)
        room.listener.workspaces.pause("a")
        for _ in range(20):
            room.pass_time(15)
            await asyncio.sleep(0)
        room.listener.workspaces.unpause("a")
        room.pass_time(6.9)
        await asyncio.sleep(0)
        assert room.listener.attached == 1, "it has as much time left as it had"
        if reads:
            transport.resume_reading()
            for number in range(8):
                request = await agent.request()
                assert (request["request_id"], request["audit_ref"]) == (f"big{number}", f"big{number}")
        else:
            room.pass_time(0.2)
            await room.until(lambda: room.listener.attached == 0)
    finally:
        await room.close()


async def test_who_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    room = Room(tmp_path, ListenerLimits(close_timeout=0.05, window=1024))
    await room.open()
    try:
        for name in "ab":
            await room.enrol(name)
        slow, quick = await room.attached("a", window=1000), await room.attached("b")
        cast(asyncio.Transport, slow.writer.transport).pause_reading()
        for number in range(40):
            await room.submit(f"big{number}", content="x" * 500_000)
        await room.submit("small", name="b")
        request = await quick.request()
        quick.accept(request)
        quick.result(request)
        assert (await room.ended("small")).status == "resulted"
        await room.until(lambda: room.listener.attached == 1 or room.pass_time(30.1) or False)
        assert (await room.listener.get("big0")).status == "queued"
    finally:
        await room.close()


async def test_progress_reaches_who_watches(room: Room) -> None:
    agent, request = await begun(room)
    seen: list[Any] = []

    async def watch() -> None:
        async for change in room.listener.follow("r1"):
            seen.append(change)  # noqa: PERF401  it is looked at meanwhile

    watching = asyncio.create_task(watch())
    await room.until(lambda: seen)
    agent.send(ctl="progress", request_id="r1", seq=1, kind="text", text="half", usage={"tokens": 5})
    await room.until(lambda: len(seen) == 2)
    agent.result(request)
    await asyncio.wait_for(watching, PATIENCE)
    assert [type(change).__name__ for change in seen] == ["LedgerRecord", "Progress", "LedgerRecord"]
    assert seen[1].usage.tokens == 5
    assert seen[-1].status == "resulted"


async def test_a_reader_who_fell_behind_loses_progress_and_never_the_end(room: Room) -> None:
    agent, request = await begun(room)
    changes = room.listener.follow("r1")
    first = await anext(changes)
    work = room.listener.ledger.active["r1"]
    for seq in range(1, MOST_NEWS + 10):
        work.notify(Progress(request_id="r1", seq=seq, kind="text", text="x"))
    agent.result(request)
    await room.until(lambda: work.recorded)
    seen = [first, *[change async for change in changes]]
    assert isinstance(seen[-1], LedgerRecord)
    assert seen[-1].status == "resulted"
    assert sum(isinstance(change, Progress) for change in seen) < MOST_NEWS


async def test_a_fence_takes_the_tokens_away_in_the_same_transaction(room: Room, owner: Owner) -> None:
    agent, _ = await begun(room)
    owner.fails = True
    with pytest.raises(Unavailable):
        await room.listener.workspaces.quarantine("a", "test")
    assert await agent.ended(), "the fence holds though it is not stored"
    assert room.listener.channels.get("a").fence == "quarantined"
    assert await room.error() == "quarantined: test"
    assert room.alarms() == {"fence_not_written": 1}
    assert set(owner.revoked) == {"a"}
    owner.fails = False
    owner.revoked.clear()
    await room.listener.workspaces.quarantine("a", "test")
    assert owner.revoked[-2:] == ["a", "a"], "in the transaction, and after it"
    await room.again()
    assert room.listener.channels.get("a").fence == "quarantined"
    owner.revoked.clear()
    await room.listener.workspaces.unquarantine("a")
    assert owner.revoked == []
