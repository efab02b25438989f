"""Who comes, and what he must prove: probes, strangers, copies, and those who do not finish their sentence."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from agent_host.listener import ListenerLimits

from .agent import PATIENCE, Agent
from .conftest import Room


async def refused(room: Room, agent: Agent, code: str) -> None:
    assert await agent.ended()
    await room.until(lambda: room.listener.metrics.labels("refused_attachments").get(code))


async def test_an_agent_is_welcomed_and_challenged(room: Room) -> None:
    agent = await room.attached()
    welcome = agent.welcome
    assert (welcome["workspace"], welcome["agent_id"], welcome["epoch"], welcome["v"]) == ("a", "a", 1, 1)
    assert (welcome["heartbeat_s"], welcome["max_line"]) == (15.0, 1 << 20)
    ready = await room.readiness("a")
    assert (ready.ready, ready.attached, ready.error, ready.epoch) == (True, True, None, 1)


async def test_the_host_is_silent_until_the_first_line(room: Room) -> None:
    agent = await room.connected()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.reader.read(1), 0.1)
    agent.ready()
    assert await agent.expect("welcome")


async def test_probes_are_counted_and_disturb_nobody(room: Room) -> None:
    agent = await room.attached()
    address = room.listener.workspaces.address
    assert address is not None
    where = ("127.0.0.1", int(str(address).rsplit(":", 1)[1]))
    for number in range(1000):
        with socket.create_connection(where) as probe:
            if number % 2:  # a reset instead of an end
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if number % 100 == 99:
            await room.submit(f"r{number}")
            request = await agent.request()
            agent.result(request)
            assert (await room.ended(request["request_id"])).attempts == 1
        await asyncio.sleep(0)
    await room.until(lambda: room.count("probes") == 1000)
    await room.submit()
    assert (await agent.request())["request_id"] == "r1"
    assert room.alarms() == {}
    assert room.count("superseded") == 0


async def test_a_probe_before_the_guest_leaves_its_place_free(room: Room) -> None:
    ready = await room.listener.workspaces.readiness("a")
    assert ready is not None
    assert (ready.target_reachable, ready.attached, ready.ready) == (True, False, False)
    await room.until(lambda: room.count("probes") == 1)
    assert (await room.attached()).epoch == 1
    ready = await room.listener.workspaces.readiness("a")
    assert ready is not None
    assert ready.ready


async def test_a_probe_while_there_is_no_room_displaces_nobody_who_is_attached(tmp_path: Path) -> None:
    room = Room(tmp_path, ListenerLimits(unproven=3, close_timeout=0.05))
    await room.open()
    try:
        await room.enrol()
        agent = await room.attached()
        for _ in range(3):
            await room.connected()
        await room.until(lambda: room.count("connections") == 4)
        for _ in range(20):
            ready = await room.listener.workspaces.readiness("a")
            assert ready is not None
            assert (ready.target_reachable, ready.ready) == (True, True)
        await room.submit()
        assert (await agent.request())["request_id"] == "r1"
        assert (room.listener.attached, room.count("superseded"), room.alarms()) == (1, 0, {})
    finally:
        await room.close()


async def test_a_first_line_that_dribbles_in_has_no_more_time_than_any_other(room: Room) -> None:
    agent = await room.connected()
    for byte in b'{"signal"':
        agent.raw(bytes([byte]))
        await agent.writer.drain()
        await room.until(lambda: room.count("connections") == 1)
        room.pass_time(1)
    room.pass_time(1.1)
    await refused(room, agent, "no_first_line")


@pytest.mark.parametrize("part", [b"", b'{"signal":'])
async def test_who_does_not_finish_his_first_line_is_let_go(room: Room, part: bytes) -> None:
    agent = await room.connected()
    agent.raw(part)
    await room.until(lambda: room.listener.metrics.total("connections") == 1)
    room.pass_time(10.1)
    await refused(room, agent, "no_first_line")


async def test_there_are_not_many_who_have_proved_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path, ListenerLimits(unproven=3, close_timeout=0.05))
    await room.open()
    try:
        await room.enrol()
        first = await room.connected()
        await room.until(lambda: room.count("connections") == 1)
        for _ in range(3):
            await room.connected()
        await refused(room, first, "too_many_unproven")
        await room.attached()
    finally:
        await room.close()


async def test_unproven_connections_of_one_address_displace_none_of_another(tmp_path: Path) -> None:
    room = Room(tmp_path, ListenerLimits(unproven=3, close_timeout=0.05))
    await room.open()
    try:
        for name in ("a", "b"):
            await room.enrol(name, listen="tcp://127.0.0.1:0")
        waiting = await room.connected("b")
        await room.until(lambda: room.count("connections") == 1)
        for _ in range(10):
            await room.connected("a")
        await room.until(lambda: room.count("connections") == 11)
        await waiting.attach()
    finally:
        await room.close()


async def test_a_wrong_key_is_refused_and_an_alarm(room: Room) -> None:
    elder = await room.attached()
    agent = await room.connected()
    agent.ready()
    agent.welcome = await agent.expect("welcome")
    agent.answer(agent.welcome["challenge"], key="wrong")
    assert (await agent.expect("nack"))["code"] == "wrong_mac"
    await refused(room, agent, "wrong_mac")
    assert room.alarms() == {"wrong_mac": 1}
    await room.submit()
    assert await elder.request(), "the one that was there is still there"


async def test_an_answer_is_good_for_one_challenge_only(room: Room) -> None:
    first = await room.connected()
    first.ready()
    first.welcome = await first.expect("welcome")
    first.answer(first.welcome["challenge"])
    second = await room.connected()
    second.sid = first.sid
    second.ready()
    second.welcome = await second.expect("welcome")
    assert second.welcome["challenge"] != first.welcome["challenge"]
    second.welcome = first.welcome
    second.answer(first.welcome["challenge"])
    await refused(room, second, "wrong_mac")


async def test_who_offers_nothing_can_prove_nothing(room: Room) -> None:
    for detail in (None, "hello", "med/1 win=0 sid=abcdefgh", "med/1 win=1 max=9 sid=abcdefgh"):
        agent = await room.connected()
        agent.ready(offer=False, detail=detail)
        assert await agent.ended()
        assert agent.seen == [], "nothing is said to it"
    assert room.alarms() == {"unauthenticated": 4}


async def test_strangers_are_refused(room: Room) -> None:
    for name in ("nobody", "operator"):
        agent = await room.connected(name)
        agent.ready()
        await refused(room, agent, "unknown_agent")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello\n", "bad_first_line"),
        (b'{"signal":"ready"}\n', "bad_first_line"),
        (b'{"signal":"ready","a":' + b'"' + b"x" * 70_000 + b'"}\n', "bad_first_line"),
        (b'{"ctl":"resume"}\n', "out_of_order"),
        (
            b'{"request_id":"r","status":"completed","completed_at":"2026-11-22T02:19:05Z","audit_ref":""}\n',
            "out_of_order",
        ),
    ],
)
async def test_what_comes_first_must_be_ready(room: Room, line: bytes, code: str) -> None:
    agent = await room.connected()
    agent.raw(line)
    await refused(room, agent, code)


async def test_half_a_line_is_never_read(room: Room) -> None:
    agent = await room.connected()
    agent.signal("ready", detail=f"med/1 win=1 max=1048576 sid={agent.sid}")
    agent.writer.write(b"")
    await agent.expect("welcome")
    agent.raw(b'{"ctl":"attach","sid":"x","mac":"y"}')  # valid, and without its end
    await agent.writer.drain()
    agent.writer.write_eof()
    assert await agent.ended()
    assert room.alarms() == {}


async def test_a_newcomer_takes_the_place_and_the_next_epoch(room: Room) -> None:
    first = await room.attached()
    second = await room.attached()
    assert (first.epoch, second.epoch) == (1, 2)
    assert (await first.expect("nack"))["code"] == "superseded"
    assert await first.ended()
    await room.submit()
    assert await second.request()
    assert room.count("superseded") == 1


async def test_of_two_copies_the_elder_is_refused(room: Room) -> None:
    await room.attached()
    younger = await room.attached()
    elder = await room.connected()
    elder.signal("ready", detail=f"med/1 win=1 max=1048576 sid={elder.sid} epoch=1")
    elder.welcome = await elder.expect("welcome")
    elder.answer(elder.welcome["challenge"])
    assert (await elder.expect("nack"))["code"] == "superseded"
    await refused(room, elder, "superseded")
    await room.submit()
    assert await younger.request()


async def test_the_elder_may_come_once_the_younger_is_gone(room: Room) -> None:
    await room.attached()
    younger = await room.attached()
    await younger.close()
    await room.until(lambda: room.listener.attached == 0)
    elder = await room.connected()
    elder.signal("ready", detail=f"med/1 win=1 max=1048576 sid={elder.sid} epoch=1")
    elder.welcome = await elder.expect("welcome")
    elder.answer(elder.welcome["challenge"])
    elder.send(ctl="resume", running=[], unacked=[])
    assert await elder.expect("resume_ok")


async def test_only_who_has_proved_itself_raises_the_epoch(room: Room) -> None:
    for _ in range(3):
        agent = await room.connected()
        agent.ready()
        assert (await agent.expect("welcome"))["epoch"] == 1
        agent.abort()
        await room.until(lambda: room.listener.channels.get("a").offered_epochs == set())
    epochs: list[int] = []
    for _ in range(3):
        epochs.append((await room.attached()).epoch)
        await room.again()
    assert epochs == [1, 2, 3]


async def test_connections_that_greet_at_the_same_time_are_offered_different_epochs(room: Room) -> None:
    first, second = await room.connected(), await room.connected()
    for agent in (first, second):
        agent.ready()
        agent.welcome = await agent.expect("welcome")
    assert (first.welcome["epoch"], second.welcome["epoch"]) == (1, 2)
    second.answer(second.welcome["challenge"])
    second.send(ctl="resume", running=[], unacked=[])
    assert await second.expect("resume_ok")
    await second.close()
    await room.until(lambda: room.listener.attached == 0)
    first.answer(first.welcome["challenge"])
    assert (await first.expect("nack"))["code"] == "superseded"
    assert (await room.attached()).epoch == 3


async def test_what_comes_before_the_greeting_is_heard_after_it(room: Room) -> None:
    """A guest takes a host that is slow with its greeting for one that has none."""
    await room.submit()
    first = await room.attached()
    request = await first.request()
    first.accept(request)
    await room.stands("accepted")
    first.abort()
    second = await room.connected()
    second.ready()
    second.result(request)
    second.welcome = await second.expect("welcome")
    second.answer(second.welcome["challenge"])
    second.send(ctl="resume", running=[], unacked=["r1"])
    assert (await second.expect("resume_ok"))["verdicts"] in ({"r1": "forget"}, {"r1": "resend"})
    assert (await room.ended()).status == "resulted"


async def test_a_silent_peer_is_dead_after_three_heartbeats(room: Room) -> None:
    agent = await room.attached()
    agent.answers_pings = False
    for _ in range(2):
        room.pass_time(15)
        assert room.listener.attached == 1
    room.pass_time(15)
    assert room.listener.attached == 0
    assert await agent.ended()


async def test_a_host_that_stood_still_asks_first(room: Room) -> None:
    agent = await room.attached()
    room.pass_time(600)
    assert room.listener.attached == 1
    hearing = asyncio.create_task(agent.serve())
    await room.until(lambda: room.session.connection.last_received_at == room.clock.monotonic())
    hearing.cancel()


async def test_one_that_answers_lives(room: Room) -> None:
    agent = await room.attached()
    hearing = asyncio.create_task(agent.serve())
    for number in range(6):
        room.pass_time(15)
        await room.until(lambda: room.session.connection.last_received_at == room.clock.monotonic(), f"pong {number}")
    assert room.listener.attached == 1
    hearing.cancel()


async def test_an_address_of_its_own_needs_no_proof(room: Room) -> None:
    await room.enrol("open", auth="none", listen="tcp://127.0.0.1:0")
    agent = await room.attached("open")
    assert "challenge" not in agent.welcome
    await room.submit(name="open")
    assert await agent.request()
    stranger = Agent(room.listener.workspaces.address, "open")
    async with stranger:
        stranger.ready()
        await refused(room, stranger, "unknown_agent")


async def test_a_unix_socket_serves_too(room: Room, tmp_path: Path) -> None:
    await room.enrol("u", listen=f"unix:{tmp_path / 'u.sock'}")
    agent = await room.attached("u")
    assert (tmp_path / "u.sock").stat().st_mode & 0o007 == 0
    await room.submit(name="u")
    assert await agent.request()
    await room.again()
    assert await room.attached("u")


async def test_bytes_may_come_one_by_one(room: Room) -> None:
    agent = await room.connected()
    offer = f"é med/1 win=1 max=1024 sid={agent.sid}"
    frame = f'{{"signal":"ready","agent_id":"a","observed_at":"2026-11-22T02:19:05Z","detail":"{offer}"}}\r\n'
    for byte in frame.encode():
        agent.raw(bytes([byte]))
        await agent.writer.drain()
        await asyncio.sleep(0)
    assert await agent.expect("welcome")


async def test_too_many_bad_lines_end_it(room: Room) -> None:
    agent = await room.attached()
    for number in range(8):
        agent.raw(b"nonsense %d\n" % number)
        assert (await agent.expect("nack"))["code"] == "invalid_json"
    agent.raw(b"one more\n")
    assert await agent.ended()


async def test_a_long_line_is_skipped_and_a_longer_one_ends_it(room: Room) -> None:
    agent = await room.attached()
    agent.raw(b'{"a":"' + b"x" * (1 << 20) + b'"}\n')
    assert (await agent.expect("nack"))["code"] == "line_too_long"
    await room.submit()
    assert await agent.request(), "it goes on after it"
    try:
        agent.raw(b"x" * ((4 << 20) + 1))
        await asyncio.wait_for(agent.writer.drain(), PATIENCE)
    except OSError:
        pass
    await room.until(lambda: room.listener.attached == 0)
