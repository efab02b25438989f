"""Connections break, agents forget, hosts die: what becomes of the work."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_host.errors import Unavailable

from .agent import NOW, Agent
from .conftest import Room

ENDS = "SELECT request_id, type FROM work_audit WHERE direction = 'host' AND type IN ('resulted', 'dead')"


async def begun(room: Room, request_id: str = "r1", **more: Any) -> tuple[Agent, dict]:
    """Work that an agent has accepted."""
    agent = await room.attached()
    await room.submit(request_id, **more)
    request = await agent.request()
    agent.accept(request)
    await room.stands("accepted", request_id)
    return agent, request


async def gone(room: Room, agent: Agent) -> None:
    agent.abort()
    await room.until(lambda: room.listener.attached == 0)


async def test_work_that_goes_on_is_not_begun_again(room: Room) -> None:
    agent, request = await begun(room)
    await gone(room, agent)
    assert await room.status() == "queued", "for its caller it waits"
    again = await room.attached(running=("r1",))
    assert again.verdicts == {"r1": "continue"}
    assert await room.status() == "accepted"
    again.result(request)
    record = await room.ended()
    assert (record.status, record.attempts) == ("resulted", 1)


async def test_a_result_that_was_on_its_way_is_sent_again(room: Room) -> None:
    agent, request = await begun(room)
    await gone(room, agent)
    again = await room.attached(unacked=("r1",))
    assert again.verdicts == {"r1": "resend"}
    again.result(request)
    await again.expect("ack")
    again.complete(request)
    assert (await room.ended()).attempts == 1
    await gone(room, again)
    later = await room.attached(unacked=("r1",), running=())
    assert later.verdicts == {"r1": "forget"}


async def test_a_result_without_its_line_end_is_none(room: Room) -> None:
    """Valid JSON, and cut off: what is missing may be the rest of a longer one."""
    agent, request = await begun(room)
    said = {"request_id": "r1", "status": "completed", "content": "cut", "completed_at": NOW, "audit_ref": "r1"}
    agent.raw(json.dumps(said).encode())
    await agent.writer.drain()
    agent.writer.write_eof()
    await room.until(lambda: room.listener.attached == 0)
    assert await room.status() == "queued"
    again = await room.attached(unacked=("r1",))
    assert again.verdicts == {"r1": "resend"}
    again.result(request, content="whole")
    assert (await room.result()).content == "whole"
    assert room.count("duplicates_refused") == 0


async def test_a_break_between_the_result_and_completed_frees_the_place(room: Room) -> None:
    agent = await room.attached(window=1)
    await room.submit("r1")
    await room.submit("r2")
    request = await agent.request()
    agent.accept(request)
    agent.result(request)
    await agent.expect("ack")
    await gone(room, agent)
    again = await room.attached(window=1)
    following = await again.request()
    assert (following["request_id"], (await room.ended("r1")).attempts) == ("r2", 1)
    again.complete(request)  # late, and of no consequence
    again.accept(following)
    again.complete(request)
    again.result(following)
    assert (await room.ended("r2")).attempts == 1


async def test_a_result_that_was_announced_and_never_came_is_asked_for_again(room: Room) -> None:
    agent, _ = await begun(room)
    await gone(room, agent)
    again = await room.attached(unacked=("r1",))
    room.pass_time(10.1)
    room.pass_time(0.1)
    assert (await again.request())["audit_ref"] == "r1;attempt=2"


async def test_a_result_that_was_announced_is_waited_for_over_another_break(room: Room) -> None:
    agent, request = await begun(room)
    await gone(room, agent)
    for _ in range(2):
        again = await room.attached(unacked=("r1",))
        assert again.verdicts == {"r1": "resend"}
        await gone(room, again)
        room.pass_time(10.1)
        room.pass_time(0.1)
    again = await room.attached(unacked=("r1",))
    assert again.verdicts == {"r1": "resend"}
    again.result(request)
    record = await room.ended()
    assert (record.status, record.attempts, room.count("retries")) == ("resulted", 1, 0)


async def test_a_result_that_was_announced_and_then_lost_is_asked_for_again(room: Room) -> None:
    agent, _ = await begun(room)
    await gone(room, agent)
    await gone(room, await room.attached(unacked=("r1",)))
    room.pass_time(10.1)
    again = await room.attached()
    room.pass_time(0.1)
    assert (await again.request())["audit_ref"] == "r1;attempt=2"


async def test_what_the_agent_has_lost_is_another_attempt(room: Room) -> None:
    agent, _ = await begun(room)
    await gone(room, agent)
    again = await room.attached()
    room.pass_time(0.1)
    request = await again.request()
    assert (request["request_id"], request["audit_ref"]) == ("r1", "r1;attempt=2")
    again.accept(request)
    again.result(request)
    assert (await room.ended()).attempts == 2


async def test_what_was_never_begun_is_the_same_attempt(room: Room) -> None:
    agent = await room.attached()
    await room.submit()
    await agent.request()
    await gone(room, agent)
    again = await room.attached()
    room.pass_time(0.1)
    request = await again.request()
    assert request["audit_ref"] == "r1"
    again.accept(request)
    again.result(request)
    assert (await room.ended()).attempts == 1


async def test_there_is_an_end_of_attempts(room: Room) -> None:
    for _ in range(3):
        agent = await room.attached()
        room.pass_time(0.1)
        if room.listener.ledger.active == {}:
            await room.submit()
        request = await agent.request()
        agent.accept(request)
        await room.stands("accepted")
        await gone(room, agent)
    await room.attached()
    record = await room.ended()
    assert (record.status, record.attempts) == ("dead", 3)
    assert record.error is not None
    assert record.error.startswith("attempts_exhausted: ")
    assert (await room.submit()).status == "dead", "the record stays"


async def test_a_slow_caller_does_not_see_what_is_not_on_the_disk(room: Room) -> None:
    agent, request = await begun(room)
    agent.result(request)
    agent.result(request, content="another")
    await agent.expect("ack")
    await agent.expect("ack")
    record = await room.ended()
    assert record.result is not None
    assert record.result.content == "did ping", "the first one wins"
    assert room.count("duplicates_refused") == 1


async def test_a_result_after_the_end_is_a_duplicate(room: Room) -> None:
    agent, request = await begun(room)
    agent.result(request)
    await agent.expect("ack")
    await room.ended()
    agent.result(request)
    await agent.expect("ack")
    assert room.count("duplicates_refused") == 1


async def test_a_result_for_work_of_another_is_refused(room: Room) -> None:
    await room.enrol("b")
    agent, request = await begun(room)
    thief = await room.attached("b")
    for request_id in ("r1", "never-heard-of"):
        thief.result({**request, "request_id": request_id}, content="forged")
        nack = await thief.expect("nack")
        assert (nack["code"], nack["request_id"]) == ("not_yours", request_id)
    await room.submit("r2")  # never sent to anybody: a's window is open, so wait until it has it
    assert room.alarms() == {"foreign_result": 2}
    agent.result(request)
    assert (await room.result()).content == "did ping"
    thief.result(request, content="forged")
    await room.until(lambda: room.alarms() == {"foreign_result": 3})


async def test_work_that_waits_cannot_be_answered(room: Room) -> None:
    await room.submit()
    await room.listener.workspaces.drain("a")
    agent = await room.attached()
    agent.send(request_id="r1", status="completed", completed_at="2026-11-22T02:19:05Z", audit_ref="r1")
    assert (await agent.expect("nack"))["code"] == "not_yours"
    assert await room.status() == "queued"


async def test_claims_on_the_work_of_another_are_alarms(room: Room) -> None:
    await room.enrol("b")
    await begun(room)
    thief = await room.attached("b", running=("r1", "x"), unacked=("y",))
    assert thief.verdicts == {"r1": "cancel", "x": "cancel", "y": "forget"}
    assert room.alarms() == {"foreign_resume": 1}
    assert await room.status() == "accepted"


async def test_a_completed_without_a_result_is_an_attempt(room: Room) -> None:
    agent, request = await begun(room)
    agent.complete(request)
    await room.until(lambda: room.count("retries") == 1)
    room.pass_time(0.1)
    assert (await agent.request())["audit_ref"] == "r1;attempt=2"


@pytest.mark.parametrize("code", ["draining", "overloaded"])
async def test_a_refusal_for_now_is_no_attempt(room: Room, code: str) -> None:
    agent = await room.attached()
    await room.submit()
    for _ in range(5):
        request = await agent.request()
        agent.result(request, "denied", "", error=f"{code}: not now")
        await agent.expect("ack")
        room.pass_time(5.1)
    request = await agent.request()
    agent.accept(request)
    agent.result(request)
    assert (await room.ended()).attempts == 1


async def test_a_denial_for_good_is_a_result(room: Room) -> None:
    agent = await room.attached()
    await room.submit()
    agent.result(await agent.request(), "denied", "", error="unverified_principal: who is that?")
    record = await room.ended()
    assert record.status == "resulted"
    assert record.result is not None
    assert record.result.status == "denied"


async def test_interrupted_work_has_its_result(room: Room) -> None:
    """The agent keeps it, and would only say it again to the same id."""
    agent, request = await begun(room)
    agent.result(request, "failed", "", error="interrupted: three lives")
    record = await room.ended()
    assert (record.status, record.attempts) == ("resulted", 1)
    assert (await room.result()).error == "interrupted: three lives"


async def test_a_frame_that_the_agent_does_not_take_is_dead(room: Room) -> None:
    agent = await room.attached()
    await room.submit()
    await agent.request()
    agent.send(ctl="nack", code="invalid_frame", request_id="r1", detail="no idea")
    record = await room.ended()
    assert (record.status, record.error) == ("dead", "refused: invalid_frame: no idea")
    await room.submit("r2")
    assert (await agent.request())["request_id"] == "r2", "its place is free"


async def test_work_that_is_longer_than_the_agents_lines_is_dead(room: Room) -> None:
    agent = await room.connected()
    agent.ready(detail=f"med/1 win=1 max=1024 sid={agent.sid}")
    agent.welcome = await agent.expect("welcome")
    agent.answer(agent.welcome["challenge"])
    agent.send(ctl="resume")
    await agent.expect("resume_ok")
    await room.submit(content="x" * 2000)
    record = await room.ended()
    assert record.status == "dead"
    assert record.error is not None
    assert record.error.startswith("too_large: ")


async def test_a_new_life_of_the_host_knows_it_all(room: Room) -> None:
    agent, request = await begun(room, "running")
    await room.submit("sent")
    await agent.request()
    await room.listener.workspaces.drain("a", 0.0)
    await room.again()
    await room.listener.workspaces.resume("a")
    assert await room.status("running") == "queued"
    back = await room.attached(running=("running",))
    assert back.verdicts == {"running": "continue"}
    room.pass_time(0.1)
    assert (await back.request())["request_id"] == "sent"
    back.result(request)
    assert (await room.ended("running")).attempts == 1
    await room.again()
    assert await room.status("running") == "resulted"


async def test_a_host_that_stops_asks_its_agents_to_close(room: Room) -> None:
    agent = await room.attached()
    closing = asyncio.create_task(room.listener.close())
    frame = await agent.expect("drain")
    assert frame["deadline_s"] == room.limits.close_timeout
    await agent.close()
    await closing
    await room.open()


@pytest.mark.parametrize("days", [30, -30])
async def test_a_wall_clock_that_jumps_ends_nothing(room: Room, days: int) -> None:
    agent, request = await begun(room)
    await room.enrol("b")
    await room.submit("waiting", "b")
    room.clock.set_wall(room.clock.now_ms() + days * 86_400_000)
    await gone(room, agent)
    room.pass_time(1.0)
    assert {await room.status(), await room.status("waiting")} == {"queued"}
    again = await room.attached(running=("r1",))
    again.result(request)
    assert (await room.ended()).status == "resulted"
    room.pass_time(86_400.0)
    assert (await room.ended("waiting")).status == "expired"


@pytest.mark.slow
async def test_flapping_loses_nothing(room: Room) -> None:
    for number in range(20):
        await room.submit(f"r{number}")
    had: dict[str, dict] = {}
    for _ in range(30):
        agent = await room.attached(running=tuple(had))
        had = {name: had[name] for name, verdict in agent.verdicts.items() if verdict == "continue"}
        room.pass_time(5.1)
        for _ in range(4 - len(had)):
            try:
                request = await asyncio.wait_for(agent.request(), 0.3)
            except TimeoutError:
                break
            agent.accept(request)
            had[request["request_id"]] = request
        for name in list(had)[:1]:
            agent.result(had[name])
            await agent.expect("ack")
            agent.complete(had.pop(name))
        await gone(room, agent)
    for number in range(20):
        record = await room.ended(f"r{number}")
        assert (record.status, record.attempts) == ("resulted", 1)


async def test_work_that_is_handed_in_again_in_another_life_of_the_host_ends_once(room: Room) -> None:
    """Until the database has said that the id is taken, it looks like new work; nothing of that may be written."""
    agent, request = await begun(room)
    agent.result(request)
    before = await room.ended()
    await room.submit("large", content="x" * 2_000_000)
    await room.attached()
    assert (await room.ended("large")).status == "dead"
    await room.again()
    await room.attached()
    assert (await room.submit("large", content="x" * 2_000_000)).status == "dead"
    journal, active = room.listener.ledger_writer, room.listener.ledger.active
    again = asyncio.create_task(room.submit())
    await asyncio.sleep(0)
    looks_new = active["r1"]
    for _ in range(3):  # its row is on the way to the disk by then
        await asyncio.sleep(0)
    journal.save(looks_new, lambda: None)
    await journal.flush()
    assert await again == before
    await journal.flush()
    assert await room.listener.get("r1") == before
    trail = await journal.read(lambda connection: connection.exec_driver_sql(ENDS).all())
    assert sorted(trail) == [("large", "dead"), ("r1", "resulted")]


async def test_who_comes_after_the_close_is_told_so(room: Room) -> None:
    await room.listener.close()
    async with asyncio.timeout(60):
        with pytest.raises(Unavailable):
            await room.submit("late")
        await room.listener.ledger_writer.flush()
    await room.open()


async def test_work_that_is_over_is_not_sent_again(room: Room) -> None:
    """The database says that the id is taken when the request is about to go out."""
    agent, request = await begun(room)
    agent.result(request)
    before = await room.ended()
    assert await room.submit() == before
    await room.submit("next")
    assert (await agent.request())["request_id"] == "next"
