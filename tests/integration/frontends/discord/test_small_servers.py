"""A bot at a server of the operator's that has little of Discord's API."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from frontends.discord import DiscordPlatform
from frontends.platform import Chat, ChatGone, IncomingFile, Piece, TemporarilyUnavailable

from .conftest import COMMANDS, Receiver, eventually
from .small_server import SmallServer

CHAT = Chat("5", private=True)
ANN = {"id": "11", "username": "ann"}


@pytest.mark.parametrize(
    ("prefix", "base"),
    [("", ""), ("/api/v10", ""), ("/api/v10", "/"), ("/api/v10", "/api"), ("/api", "/api"), ("/api/v10", "/api/v10/")],
)
async def test_its_routes_are_found_wherever_they_are(prefix: str, base: str) -> None:
    server = SmallServer(prefix)
    async with server.running() as url:
        platform = DiscordPlatform("token", url + base)
        await platform.open(COMMANDS)
        assert await platform.send(CHAT, Piece("hello"), key="a") == "7"
        await platform.aclose()
    assert server.sent[0]["content"] == "hello"
    assert server.sent[0]["allowed_mentions"]["parse"] == []


async def test_its_refusals_are_understood() -> None:
    server = SmallServer()
    async with server.running() as url:
        platform = DiscordPlatform("token", url)
        await platform.open(COMMANDS)
        with pytest.raises(ChatGone):
            await platform.send(Chat("404", private=True), Piece("hello"), key="a")
        await platform.aclose()


async def test_a_file_comes_from_its_first_address_if_messages_cannot_be_read_again() -> None:
    async with SmallServer().running() as url:
        platform = DiscordPlatform("token", url)
        await platform.open(COMMANDS)
        file = IncomingFile(f"5/20/30 {url}/notes.txt", "notes.txt", "text/plain", 10)
        assert b"".join([chunk async for chunk in platform.download(file)]) == b"some notes"
        await platform.aclose()


@pytest.mark.parametrize("everywhere", [False, True])
async def test_a_limit_is_waited_for_as_long_as_it_asks(everywhere: bool) -> None:
    server = SmallServer(limits=[{"retry_after": 0.3, "global": everywhere}])
    async with server.running() as url:
        platform = DiscordPlatform("token", url)
        await platform.open(COMMANDS)
        begun = time.monotonic()
        assert await platform.send(CHAT, Piece("hello"), key="a") == "7"
        assert time.monotonic() - begun >= 0.3
        server.limits = [{"retry_after": 90}]
        with pytest.raises(TemporarilyUnavailable) as refused:
            await platform.send(CHAT, Piece("hello"), key="b")
        assert refused.value.retry_after == 90
        await platform.aclose()
    assert len(server.sent) == 1


async def test_an_event_that_cannot_be_read_ends_no_connection() -> None:
    lean = {"id": "20", "channel_id": "5", "author": ANN, "content": "hello"}
    press = {"id": "30", "type": 3, "token": "t", "channel_id": "5", "user": ANN}
    button = {"data": {"custom_id": "yes", "component_type": 2}, "message": {"id": "21", "channel_id": "5"}}
    garbage = [None, [], {}, {"id": "x", "channel_id": []}, {**lean, "content": 7, "mentions": 5}]
    server = SmallServer()
    server.events = [("MESSAGE_CREATE", one) for one in garbage] + [("INTERACTION_CREATE", one) for one in garbage]
    server.events += [("MESSAGE_CREATE", lean), ("INTERACTION_CREATE", {**press, **button})]
    async with server.running() as url:
        platform = DiscordPlatform("token", url)
        await platform.open(COMMANDS)
        receiver = Receiver(platform)
        task = asyncio.create_task(receiver.receive({}))
        message, pressed = await receiver.until(2)
        await eventually(lambda: server.acknowledged == ["30"])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await platform.aclose()
    assert (message.text, message.sender.name, message.chat.private) == ("hello", "ann", True)
    assert (pressed.kind, pressed.text, pressed.message_id, pressed.chat.id) == ("button", "yes", "21", "5")
    assert server.identified == 1
