"""Answers that no Bot API gives: a broken proxy, another service at the address, half an answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from frontends.platform import Chat, IncomingFile, Piece, PlatformError, TemporarilyUnavailable
from frontends.telegram import TelegramPlatform

from .conftest import Inbox, receiving

TOKEN = "7000000001:AAF-secret"
ME = {"id": 7, "is_bot": True, "first_name": "Helper", "username": "helper_bot"}
CHAT = {"id": 1001, "type": "private", "first_name": "Ann"}
MESSAGE = {"message_id": 5, "date": 1, "chat": CHAT, "from": {**CHAT, "is_bot": False}, "text": "hello"}
GARBAGE = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{",
    b"\x16\x03\x01\x00\x00",
    *(
        f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
        for status in (200, 302, 401, 403, 404, 409, 429, 500)
        for body in ("<html>", "[]", "17", "null", '"x"', '{"ok": true, "result": {"a": 1}}', '{"ok": true}')
        if not (status in (401, 403, 404, 409) and body.startswith("{"))  # the Bot API's own way to refuse
    ),
]


class Server:
    """Answers each call from a list: with a result of the Bot API, or with bytes."""

    def __init__(self) -> None:
        self.answers: dict[str, list[object]] = {}
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length:"))
        await reader.readexactly(length)
        method = head.split()[1].rpartition("/")[2]
        answer = (self.answers.get(method) or [[]]).pop(0)
        if not isinstance(answer, bytes):
            body = json.dumps({"ok": True, "result": answer})
            answer = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
        writer.write(answer)
        await writer.drain()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    server.url = f"http://{host}:{port}"
    yield server
    listening.close()
    await listening.wait_closed()


async def test_a_call_that_is_answered_with_garbage_may_be_made_again(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    chat = Chat("1001", private=True)
    for garbage in GARBAGE:
        server.answers["editMessageText"] = [garbage]
        async with aclosing(TelegramPlatform(TOKEN, server.url)) as bot:
            with caplog.at_level(logging.DEBUG), pytest.raises(PlatformError) as error:
                await bot.edit(chat, "5", Piece("hello"))
        assert isinstance(error.value, TemporarilyUnavailable), garbage
        assert not error.value.refused
        assert TOKEN not in str(error.value) + caplog.text


async def test_a_file_on_the_disk_of_the_server_is_not_taken_for_one_on_ours(server: Server) -> None:
    server.answers["getFile"] = [{"file_id": "F", "file_unique_id": "U", "file_path": __file__}]
    async with aclosing(TelegramPlatform(TOKEN, server.url)) as bot:
        with pytest.raises(PlatformError, match="without --local"):
            await anext(bot.download(IncomingFile("F", "a", "text/plain", 1)))


async def test_garbage_does_not_end_the_loop(server: Server) -> None:
    inbox = Inbox()
    polls: list[object] = []
    for number, garbage in enumerate(GARBAGE[:6], start=1):
        polls += [garbage, [{"update_id": number, "message": {**MESSAGE, "text": f"{number}"}}]]
    server.answers = {"getMe": [ME], "getUpdates": polls}
    async with aclosing(TelegramPlatform(TOKEN, server.url)) as bot, receiving(bot, inbox):
        await inbox.one("6")
    assert [update.text for update in inbox.updates] == ["1", "2", "3", "4", "5", "6"]
