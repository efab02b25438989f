"""The gateway over a raw websocket: sessions, what they are sent, and how they end."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from agent_testing.discord import FakeDiscord, Fault, RandomFaults, RateLimits

GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
ALL = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | CONTENT
SECONDS = 60.0
TOKEN = "discord-token"


class Socket:
    """A connection of the gateway that a test drives."""

    def __init__(self, raw: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = raw
        self.session = ""
        self.last = 0
        self._inflate = zlib.decompressobj()

    async def read(self) -> dict[str, Any]:
        message = await self.raw.receive(SECONDS)
        if message.type is aiohttp.WSMsgType.BINARY:
            assert message.data.endswith(b"\x00\x00\xff\xff")
            frame = json.loads(self._inflate.decompress(message.data))
        else:
            assert message.type is aiohttp.WSMsgType.TEXT, (message, self.raw.close_code)
            frame = json.loads(message.data)
        self.last = frame["s"] or self.last
        return frame

    async def read_event(self, name: str) -> Any:
        """The body of the next event, which must have the name."""
        frame = await self.read()
        assert (frame["op"], frame["t"]) == (0, name)
        return frame["d"]

    async def send(self, operation: int, data: Any = None) -> None:
        await self.raw.send_json({"op": operation, "d": data})

    async def closed(self) -> int | None:
        """The code with which the double closes the connection; what it sends before is dropped."""
        async with asyncio.timeout(SECONDS):
            while not self.raw.closed:
                await self.raw.receive()
        return self.raw.close_code

    async def identify(self, intents: int = ALL, **more: Any) -> None:
        await self.send(2, {"token": TOKEN, "intents": intents, "properties": {}, **more})

    async def ready(self, intents: int = ALL) -> dict[str, Any]:
        await self.identify(intents)
        ready = await self.read_event("READY")
        self.session = ready["session_id"]
        return ready

    async def resume(self, session: str, sequence: int) -> None:
        await self.send(6, {"token": TOKEN, "session_id": session, "seq": sequence})


@asynccontextmanager
async def connect(fake: FakeDiscord, query: str = "v=10&encoding=json") -> AsyncGenerator[Socket]:
    """A connection that has been greeted."""
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{fake.gateway_url}?{query}") as raw:
        socket = Socket(raw)
        hello = await socket.read()
        assert (hello["op"], hello["d"]["heartbeat_interval"] > 0) == (10, True)
        yield socket


async def test_a_bot_is_shown_its_guilds_and_then_what_happens(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    team = fake.guild("team", [ada])
    general = fake.text_channel(team, "general")
    async with connect(fake) as socket:
        ready = await socket.ready()
        assert ready["user"]["id"] == str(fake.bot.id)
        assert ready["resume_gateway_url"] == fake.gateway_url
        shown = await socket.read_event("GUILD_CREATE")
        assert [each["id"] for each in shown["channels"]] == [str(general.id)]
        assert sorted(each["user"]["username"] for each in shown["members"]) == ["ada", "agent"]
        await socket.send(1, socket.last)
        assert (await socket.read())["op"] == 11
        written = ada.write(general, "hello")
        assert (await socket.read_event("MESSAGE_CREATE"))["id"] == str(written.id)
        ada.edit(written, "changed")
        assert (await socket.read_event("MESSAGE_UPDATE"))["content"] == "changed"
        ada.delete(written)
        assert (await socket.read_event("MESSAGE_DELETE"))["id"] == str(written.id)
        thread = ada.start_thread(general, "topic")
        assert (await socket.read_event("THREAD_CREATE"))["id"] == str(thread.id)
        fake.delete_channel(general)
        assert (await socket.read_event("CHANNEL_DELETE"))["id"] == str(general.id)
        fake.kick(team, fake.bot)
        assert (await socket.read_event("GUILD_DELETE"))["id"] == str(team.id)


@pytest.mark.parametrize(
    ("intents", "seen"),
    [
        (ALL, [("general", "secret"), ("general", "hello"), ("dm", "hi")]),
        (ALL & ~CONTENT, [("general", ""), ("general", "hello"), ("dm", "hi")]),
        (ALL & ~GUILD_MESSAGES, [("dm", "hi")]),
        (ALL & ~DIRECT_MESSAGES, [("general", "secret"), ("general", "hello")]),
    ],
)
async def test_intents_decide_what_a_session_sees(fake: FakeDiscord, intents: int, seen: list[tuple[str, str]]) -> None:
    ada = fake.user("ada")
    general = fake.text_channel(fake.guild("team", [ada]), "general")
    async with connect(fake) as socket:
        await socket.ready(intents)
        await socket.read_event("GUILD_CREATE")
        ada.write(general, "secret")
        ada.write(general, "hello", mentions=[fake.bot])
        ada.write(ada.dm(), "hi")
        found: list[tuple[str, str]] = []
        for _ in seen:
            event = await socket.read_event("MESSAGE_CREATE")
            where = "general" if event["channel_id"] == str(general.id) else "dm"
            found.append((where, event["content"].removeprefix(f"{fake.bot.mention} ")))
        assert found == seen


@pytest.mark.parametrize(
    ("identify", "code"),
    [
        ({"token": "wrong"}, 4004),
        ({"intents": 1 << 40}, 4013),
        ({"intents": 1 << 8}, 4014),
        ({"shard": [1, 2]}, 4010),
    ],
)
async def test_an_identify_that_is_wrong_closes_the_connection(
    fake: FakeDiscord, identify: dict[str, Any], code: int
) -> None:
    async with connect(fake) as socket:
        await socket.identify(**identify)
        assert await socket.closed() == code


async def test_the_intent_of_contents_can_be_taken_away(fake: FakeDiscord) -> None:
    fake.bot.message_content = False
    async with connect(fake) as socket:
        await socket.identify()
        assert await socket.closed() == 4014


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (["no JSON"], 4002),
        (["[]"], 4002),
        (['{"op": 77}'], 4001),
        (['{"op": 3, "d": {}}'], 4003),
        ([json.dumps({"op": 1, "d": "x" * 5000})], 4002),
        (['{"op": 1, "d": null}'] * 130, 4008),
    ],
)
async def test_a_frame_that_is_wrong_closes_the_connection(fake: FakeDiscord, frames: list[str], code: int) -> None:
    async with connect(fake) as socket:
        for frame in frames:
            await socket.raw.send_str(frame)
        assert await socket.closed() == code
    assert [each.kind for each in fake.violations] == (["gateway"] if code == 4008 else [])


async def test_a_version_or_a_second_identify_closes_the_connection(fake: FakeDiscord) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(fake.gateway_url + "?v=9") as raw:
        assert await Socket(raw).closed() == 4012
    async with connect(fake) as socket:
        await socket.ready()
        await socket.identify()
        assert await socket.closed() == 4005


async def test_a_resumed_session_is_sent_what_it_has_missed(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    async with connect(fake) as socket:
        await socket.ready()
        ada.write(ada.dm(), "one")
        await socket.read_event("MESSAGE_CREATE")
        fake.cut_gateway()
        await socket.closed()
    ada.write(ada.dm(), "two")
    ada.write(ada.dm(), "three")
    async with connect(fake) as again:
        await again.resume(socket.session, socket.last)
        assert [(await again.read_event("MESSAGE_CREATE"))["content"] for _ in range(2)] == ["two", "three"]
        await again.read_event("RESUMED")
        ada.write(ada.dm(), "four")
        assert (await again.read_event("MESSAGE_CREATE"))["content"] == "four"
    async with connect(fake) as ahead:
        await ahead.resume(socket.session, 1000)
        assert await ahead.closed() == 4007


async def test_an_invalidated_session_misses_events_for_good(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    async with connect(fake) as socket:
        await socket.ready()
        await asyncio.to_thread(fake.invalidate_sessions)
        frame = await socket.read()
        assert (frame["op"], frame["d"]) == (9, False)
    ada.write(ada.dm(), "lost")
    async with connect(fake) as again:
        await again.resume(socket.session, socket.last)
        frame = await again.read()
        assert (frame["op"], frame["d"]) == (9, False)
        await again.ready()
        ada.write(ada.dm(), "seen")
        assert (await again.read_event("MESSAGE_CREATE"))["content"] == "seen"


async def test_two_sessions_of_one_bot_both_receive_everything(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    async with connect(fake) as one, connect(fake) as two:
        await one.ready()
        await two.ready()
        assert fake.connected == 2
        ada.write(ada.dm(), "hello")
        assert [(await each.read_event("MESSAGE_CREATE"))["content"] for each in (one, two)] == ["hello", "hello"]


async def test_frames_are_compressed_as_one_stream(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    async with connect(fake, "v=10&encoding=json&compress=zlib-stream") as socket:
        await socket.ready()
        ada.write(ada.dm(), "hello")
        assert (await socket.read_event("MESSAGE_CREATE"))["content"] == "hello"


async def test_a_bot_is_asked_to_reconnect(fake: FakeDiscord) -> None:
    async with connect(fake) as socket:
        await socket.ready()
        await asyncio.to_thread(fake.ask_to_reconnect)
        assert (await socket.read())["op"] == 7


async def test_a_bot_that_sends_no_heartbeat_is_closed() -> None:
    with FakeDiscord(heartbeat_seconds=0.1) as fake:
        async with connect(fake) as socket:
            assert await socket.closed() == 4009


async def test_a_connection_is_refused_or_lost_before_it_is_greeted(fake: FakeDiscord) -> None:
    fake.faults.next(Fault("5xx"), at="^CONNECT gateway$")
    fake.faults.next(Fault("cut"), at="^CONNECT gateway$", times=2)  # the client tries again once by itself
    with pytest.raises(aiohttp.WSServerHandshakeError):
        async with connect(fake):
            pass
    with pytest.raises(aiohttp.ClientError):
        async with connect(fake):
            pass
    async with connect(fake) as socket:
        await socket.ready()


async def test_heartbeats_are_not_acknowledged_for_a_while(fake: FakeDiscord) -> None:
    async with connect(fake) as socket:
        fake.faults.heartbeats_acknowledged = False
        await socket.send(1)
        await socket.ready()  # an acknowledgement would have come before
        fake.faults.heartbeats_acknowledged = True
        await socket.send(1)
        assert (await socket.read())["op"] == 11


async def test_a_revoked_token_closes_the_gateway_and_stays_closed(fake: FakeDiscord) -> None:
    async with connect(fake) as socket:
        await socket.ready()
        await asyncio.to_thread(fake.revoke)
        assert await socket.closed() == 4004
    async with connect(fake) as again:
        await again.identify()
        assert await again.closed() == 4004


async def test_events_come_twice_and_late_as_a_test_asks(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    async with connect(fake) as socket:
        await socket.ready()
        fake.faults.next_event("twice")
        ada.write(ada.dm(), "one")
        fake.faults.next_event("late")
        ada.write(ada.dm(), "two")
        ada.write(ada.dm(), "three")
        fake.faults.next_event("late")
        ada.write(ada.dm(), "four")  # nothing follows: it comes after a while
        read = [(await socket.read_event("MESSAGE_CREATE"))["content"] for _ in range(5)]
        assert read == ["one", "one", "three", "two", "four"]


async def test_a_gateway_that_is_cut_at_random_loses_nothing_for_those_who_resume() -> None:
    dealt = RandomFaults(3, gateway_cut=0.3, twice=0.2)
    with FakeDiscord(limits=RateLimits.loose(), faults=dealt) as fake:
        ada = fake.user("ada")
        wanted = [str(number) for number in range(30)]
        seen: list[str] = []
        session, last, written = "", 0, False
        async with asyncio.timeout(SECONDS):
            while len(dict.fromkeys(seen)) < len(wanted):
                async with connect(fake) as socket:
                    await (socket.resume(session, last) if session else socket.identify())
                    try:
                        while True:
                            frame = await socket.read()
                            session = frame["d"]["session_id"] if frame["t"] == "READY" else session
                            last = socket.last
                            if frame["t"] == "MESSAGE_CREATE":
                                seen.append(frame["d"]["content"])
                            if session and not written:
                                written = True
                                for text in wanted:
                                    ada.write(ada.dm(), text)
                            if seen and seen[-1] == wanted[-1]:
                                break
                    except AssertionError:
                        continue
        assert list(dict.fromkeys(seen)) == wanted
