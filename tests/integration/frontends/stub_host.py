"""The conversations of a bot between a platform in memory and a host whose every answer a test decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from agent_client import Mesh
from agent_common.clock import SystemClock
from frontends.conversation import Bot, Conversations
from frontends.people import Person, allow_in, note_private_chat_in
from frontends.platform import Chat, Update
from frontends.store import NAME, Database, add_in, remember_chat_in
from tests.bot_platform import MemoryPlatform, People, let_in

BOT = "home"
WORKSPACE = "ada"
ANN_ID = "telegram:1"
PATIENCE = 60.0
Respond = Callable[[httpx2.Request], httpx2.Response]


def problem(status: int, code: str, **more: Any) -> httpx2.Response:
    body = {"title": "T", "status": status, "detail": "why", "instance": "/x", "code": code, **more}
    return httpx2.Response(status, json=body)


def nothing(request: httpx2.Request) -> httpx2.Response:
    """A host that cannot be reached, as what is before it says."""
    return problem(502, "http_error")


@dataclass
class Talk:
    """One bot over all its lives. `respond` answers its requests to the host."""

    folder: Path
    respond: Respond = nothing
    platform: MemoryPlatform = field(default_factory=MemoryPlatform)
    people: People = field(default_factory=People)
    approvers: frozenset[str] = frozenset()
    workspaces: Sequence[str] = (WORKSPACE,)
    requests: list[httpx2.Request] = field(default_factory=list[httpx2.Request])

    async def start(self) -> None:
        self.database = await Database.open(self.folder / NAME)
        self.mesh = Mesh("http://host", "token", transport=httpx2.MockTransport(self._answer))
        bot = Bot(BOT, self.platform, self.workspaces, self.approvers)
        self.conversations = Conversations([bot], self.database, self.mesh)
        self.task = asyncio.create_task(self.conversations.run())

    async def admit(self, identities: Mapping[str, str]) -> None:
        """Let people use the bot before it starts, each by an identity in the private chat with this id."""
        database = await Database.open(self.folder / NAME)
        await database.run(lambda c: allow_in(c, {BOT: frozenset(identities.values())}))
        for chat, identity in identities.items():
            await database.run(partial(remember_chat_in, bot=BOT, chat=Chat(chat, private=True)))
            await database.run(partial(note_private_chat_in, bot=BOT, identity=identity, chat=chat))
        await database.aclose()

    async def kill(self) -> None:
        """End it at once; what it did not store is lost."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.database.aclose()
        await self.mesh.aclose()

    async def handle(self, update: Update) -> None:
        """Take an update, and handle it; also again. Raises Later."""
        now = SystemClock().now_ms()
        await self.database.run(lambda c: let_in(c, BOT, ANN_ID))
        await self.database.run(lambda c: add_in(c, BOT, update, sender=ANN_ID, stranger=False, now=now))
        await self.conversations.handle(BOT, update, Person(ANN_ID, frozenset({ANN_ID})))

    async def until(self, check: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := check()):
                assert not self.task.done(), self.task.exception()
                await asyncio.sleep(0.01)
            return found

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self.respond(request)


def streamed(request: httpx2.Request, text: str, *, cut: bool = False) -> httpx2.Response:
    """The turn of a chat message with this text, or its beginning."""
    body = json.loads(request.content)
    names = {"session_id": "s", "message_id": body.get("message_id") or body["messageId"]}
    chunks: list[dict[str, Any]] = [
        {"type": "start", "messageId": "m", "messageMetadata": names},
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": text},
    ]
    if not cut:
        chunks += [{"type": "text-end", "id": "t"}, {"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    content = "".join([*lines, *([] if cut else ["data: [DONE]\n\n"])])
    return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=content)
