"""Constraints: pushed, acknowledged, and no work before that."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest

from agent_common.protocol.work import Severity, payload_hash
from agent_host.errors import Conflict
from agent_host.listener import ListenerLimits

from .agent import Agent, Frame
from .conftest import Owner, Room
from .test_breaks import begun, gone

PAYLOAD = json.dumps({"instructions": "Sag <b>„äöü“ & so</b> \u2028"}, ensure_ascii=False).encode()


async def pushed(agent: Agent) -> tuple[Frame, Frame]:
    return await agent.expect("constraints_payload"), await agent.expect(lambda frame: "payload_ref" in frame)


async def test_constraints_are_pushed_and_work_waits_for_them(room: Room) -> None:
    agent = await room.attached()
    digest = await room.listener.workspaces.push_constraints("a", 3, PAYLOAD, severity="HIGH")
    await room.submit()
    payload, frame = await pushed(agent)
    assert base64.b64decode(payload["b64"]) == PAYLOAD
    assert (payload["version"], payload["severity"]) == (3, "HIGH")
    assert (frame["version"], frame["hash"], frame["payload_ref"]) == (3, payload_hash(PAYLOAD), "inline")
    assert digest == frame["hash"]
    assert await room.status() == "queued"
    assert await room.closed_by() == "constraining"
    agent.acknowledge(frame)
    assert (await agent.request())["constraints_version"] == 3


async def test_who_has_them_already_need_not_get_them(room: Room) -> None:
    digest = await room.listener.workspaces.push_constraints("a", 3, PAYLOAD)
    await room.submit()
    agent = await room.connected()
    agent.send(version=3, hash=digest, agent_id="a", observed_at="2026-11-22T02:19:05Z")
    await agent.attach()
    assert "principal" in (await agent.receive() or {})


@pytest.mark.parametrize("ack", [None, (2, "sha256:00"), (3, "sha256:00")])
async def test_who_has_none_or_others_gets_them(room: Room, ack: tuple[int, str] | None) -> None:
    await room.listener.workspaces.push_constraints("a", 3, PAYLOAD)
    await room.submit()
    agent = await room.connected()
    if ack:
        agent.send(version=ack[0], hash=ack[1], agent_id="a", observed_at="2026-11-22T02:19:05Z")
    await agent.attach()
    agent.acknowledge((await pushed(agent))[1])
    assert await agent.request()
    assert room.alarms() == ({"constraints_hash": 1} if ack and ack[0] == 3 else {})


async def test_constraints_that_are_longer_than_the_agents_lines_are_an_alarm(room: Room, owner: Owner) -> None:
    """They are not sent, and an agent without them gets no work."""
    agent = await room.connected()
    agent.ready(detail=f"med/1 win=1 max=1024 sid={agent.sid}")
    agent.welcome = await agent.expect("welcome")
    agent.answer(agent.welcome["challenge"])
    agent.send(ctl="resume")
    await agent.expect("resume_ok")
    await room.listener.workspaces.push_constraints("a", 3, b"x" * 2000)
    await room.until(lambda: room.alarms() == {"constraints_undeliverable": 1})
    room.pass_time(60.1)
    assert await agent.ended()
    assert not [frame for frame in agent.seen if "version" in frame]
    await room.until(lambda: owner.halted == ["a"])


async def test_a_wrong_hash_is_an_alarm_and_no_work(room: Room) -> None:
    agent = await room.attached()
    await room.listener.workspaces.push_constraints("a", 1, PAYLOAD)
    await room.submit()
    _, frame = await pushed(agent)
    agent.acknowledge(frame, digest="sha256:" + "0" * 64)
    await room.until(lambda: room.alarms() == {"constraints_hash": 1})
    assert await room.status() == "queued"
    agent.acknowledge(frame)
    assert await agent.request()


@pytest.mark.parametrize(
    ("severity", "alert", "halt"), [("CRITICAL", 5, 15), ("HIGH", 10, 20), ("MEDIUM", 30, 60), ("LOW", 60, 120)]
)
async def test_a_late_acknowledgement_is_an_alarm_and_then_a_halt(
    tmp_path: Path, severity: Severity, alert: float, halt: float
) -> None:
    owner = Owner()
    room = Room(tmp_path, ListenerLimits(heartbeat=1000, close_timeout=0.05), owner)
    await room.open()
    try:
        await room.enrol()
        agent = await room.attached()
        await room.listener.workspaces.push_constraints("a", 1, PAYLOAD, severity=severity)
        await pushed(agent)
        await room.submit()
        room.pass_time(alert - 0.1)
        assert room.alarms() == {}
        room.pass_time(0.2)
        assert room.alarms() == {"constraints_not_acked": 1}
        room.pass_time(halt - alert)
        assert await agent.ended()
        await room.until(lambda: owner.halted == ["a"])
        assert room.alarms()["halted"] == 1
        late = await room.connected()
        late.ready()
        assert await late.ended()
        assert await room.status() == "queued"
        await room.again()
        assert room.listener.channels.get("a").fence == "halted"
        await room.listener.workspaces.resume("a")
        again = await room.attached()
        again.acknowledge((await pushed(again))[1])
        assert await again.request()
    finally:
        await room.close()


async def test_a_break_does_not_set_the_patience_back(room: Room) -> None:
    await room.attached()
    await room.listener.workspaces.push_constraints("a", 1, PAYLOAD, severity="CRITICAL")
    room.pass_time(8)
    assert room.alarms() == {"constraints_not_acked": 1}
    await room.attached()
    room.pass_time(6.9)
    assert room.listener.channels.get("a").fence is None
    room.pass_time(0.2)
    await room.until(lambda: room.listener.channels.get("a").fence == "halted")


async def test_an_agent_may_end_what_it_has_under_mild_ones(room: Room) -> None:
    agent, request = await begun(room)
    await room.listener.workspaces.push_constraints("a", 1, PAYLOAD, severity="MEDIUM")
    _, frame = await pushed(agent)
    for _ in range(10):
        room.pass_time(10)
        agent.raw(b"\n")
        await room.until(lambda: room.session.connection.last_received_at == room.clock.monotonic())
    assert room.alarms() == {}
    agent.result(request)
    await agent.expect("ack")
    agent.complete(request)
    await room.until(lambda: room.listener.channels.get("a").ack_timers)
    agent.acknowledge(frame)
    await room.until(lambda: room.session.state == "ready")


async def test_an_agent_that_says_it_is_outdated_gets_them_again(room: Room) -> None:
    digest = await room.listener.workspaces.push_constraints("a", 1, PAYLOAD)
    agent = await room.connected()
    agent.send(version=1, hash=digest, agent_id="a", observed_at="2026-11-22T02:19:05Z")
    await agent.attach()
    await room.submit()
    request = await agent.request()
    agent.signal("constraints_outdated", "r1")
    agent.result(request, "denied", "", error="constraints_outdated: none here")
    agent.acknowledge((await pushed(agent))[1])
    await room.until(lambda: room.session.state == "ready")
    room.pass_time(0.1)
    again = await agent.request()
    agent.accept(again)
    agent.result(again)
    assert (await room.ended()).status == "resulted"


async def test_a_version_that_the_caller_names_is_waited_for_or_too_late(room: Room) -> None:
    agent = await room.attached()
    await room.listener.workspaces.push_constraints("a", 1, PAYLOAD)
    agent.acknowledge((await pushed(agent))[1])
    await room.submit("now", constraints_version=1, pinned=True)
    assert (await agent.request())["constraints_version"] == 1
    await room.submit("early", constraints_version=2, pinned=True)
    assert await room.status("early") == "queued"
    await room.listener.workspaces.push_constraints("a", 2, b"more")
    await room.submit("late", constraints_version=1, pinned=True)
    agent.acknowledge((await pushed(agent))[1])
    assert (await agent.request())["request_id"] == "early"
    assert (await room.error("late")).startswith("constraints_superseded: ")


async def test_versions_only_grow(room: Room) -> None:
    await room.listener.workspaces.push_constraints("a", 2, b"x")
    await room.listener.workspaces.push_constraints("a", 2, b"x")
    for version, payload in ((2, b"y"), (1, b"x")):
        with pytest.raises(Conflict, match="not newer than 2"):
            await room.listener.workspaces.push_constraints("a", version, payload)


async def pushed_meanwhile(room: Room, version: int, dispatched: Awaitable[object]) -> None:
    """Pushes constraints, and has `dispatched` send work in the moment in which they are written: its row is written
    after them, so the request does not go out."""
    await room.listener.ledger_writer.flush()  # nothing waits now, so that the constraints are written at once
    await asyncio.gather(room.listener.workspaces.push_constraints("a", version, PAYLOAD), dispatched)
    await room.listener.ledger_writer.flush()
    await room.until(lambda: not room.session.slots)


async def test_work_that_constraints_overtake_names_the_new_ones(room: Room) -> None:
    """Sent with the version of before, it would be refused, and an attempt would be lost."""
    agent = await room.attached()
    await room.listener.workspaces.push_constraints("a", 1, PAYLOAD)
    agent.acknowledge((await pushed(agent))[1])
    await room.until(lambda: room.session.state == "ready")
    await pushed_meanwhile(room, 2, room.submit())
    record = await room.listener.get("r1")
    assert (record.status, record.attempts) == ("queued", 0)
    agent.acknowledge((await pushed(agent))[1])
    request = await agent.request()
    assert (request["constraints_version"], request["audit_ref"]) == (2, "r1")
    agent.accept(request)
    agent.result(request)
    assert (await room.ended()).attempts == 1


@pytest.mark.parametrize("sent", [True, False])
async def test_a_result_of_the_attempt_before_the_overtaken_one_counts(room: Room, sent: bool) -> None:
    """The agent has not told of the result at first; then it announces it, and sends it or not."""
    agent, first = await begun(room)
    await gone(room, agent)
    again = await room.attached()

    async def second_attempt() -> None:
        room.pass_time(0.1)

    await pushed_meanwhile(room, 1, second_attempt())
    await gone(room, again)
    last = await room.attached(unacked=("r1",))
    assert last.verdicts == {"r1": "resend"}
    last.acknowledge((await pushed(last))[1])
    await room.until(lambda: room.session.state == "ready")
    if sent:
        last.result(first)
        await last.expect("ack")
        assert (await room.result()).content == "did ping"
        return
    room.pass_time(10.1)
    room.pass_time(0.1)
    assert (await last.request())["audit_ref"] == "r1;attempt=2"


async def test_the_time_of_earlier_constraints_is_not_charged_to_new_ones(room: Room) -> None:
    agent = await room.attached()
    await room.listener.workspaces.push_constraints("a", 1, PAYLOAD, severity="LOW")
    room.pass_time(30)
    agent.raw(b"\n")
    await room.until(lambda: room.session.connection.last_received_at == room.clock.monotonic())
    await room.listener.workspaces.push_constraints("a", 2, PAYLOAD, severity="CRITICAL")
    room.pass_time(4.9)
    assert room.alarms() == {}
    room.pass_time(0.2)
    assert room.alarms() == {"constraints_not_acked": 1}
    assert room.listener.channels.get("a").fence is None
    room.pass_time(10)
    await room.until(lambda: room.listener.channels.get("a").fence == "halted")


async def test_a_loose_agent_has_not_acknowledged_what_came_after(room: Room) -> None:
    await room.enrol("loose", dialect="loose", listen="tcp://127.0.0.1:0")
    channel = room.listener.channels.get("loose")
    digest = await room.listener.workspaces.push_constraints("loose", 1, PAYLOAD)
    agent = await room.connected("loose")
    agent.send(version=1, hash=digest, agent_id="loose", observed_at="2026-11-22T02:19:05Z")
    agent.send(signal="ready")
    await room.until(lambda: channel.constraints is not None and channel.constraints.status == "acked")
    await room.listener.workspaces.push_constraints("loose", 2, b"more")
    await room.submit(name="loose")
    assert await agent.receive(), "it gets work all the same"
    await room.listener.ledger_writer.flush()
    assert channel.constraints is not None
    assert channel.constraints.status == "pending"
