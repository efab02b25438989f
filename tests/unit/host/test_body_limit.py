"""Bodies: whose are read, how much of them, and how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from sqlalchemy.exc import OperationalError

from agent_common.net import ShareCounter
from agent_host.access import AccessGuard, TokenInfo, TokenStore
from agent_host.database import HostDatabase, open_database
from agent_host.http import MOST_HELD, BodyLimit, problems
from agent_testing import ManualClock

OPERATOR = "the-operator-s-token"
PATIENCE = 60


class Door:
    """An app behind the middleware; `pieces` counts what was fetched of bodies."""

    def __init__(self, database: HostDatabase, *, held: ShareCounter | None = None, **limits: Any) -> None:
        self.app, self.tokens = FastAPI(), TokenStore(database, ManualClock())
        self.app.state.guard = AccessGuard(self.tokens, ManualClock(), OPERATOR)
        self.pieces, self.answer = 0, asyncio.Event()
        problems.install(self.app)
        self.app.add_middleware(BodyLimit, held=held or ShareCounter(MOST_HELD), **limits)
        self.app.add_api_route("/take", self._take, methods=["POST"])

    async def _take(self, request: Request) -> dict[str, int]:
        body = await request.body()
        await self.answer.wait()
        return {"size": len(body)}

    async def post(self, *pieces: bytes, token: str = OPERATOR, wait: asyncio.Event | None = None) -> httpx.Response:
        """Sends the pieces; then the rest waits for the event, if there is one."""

        async def body() -> AsyncGenerator[bytes]:
            for piece in pieces:
                self.pieces += 1
                yield piece
            if wait is not None:
                await wait.wait()

        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://host") as http:
            return await http.post("/take", content=body(), headers=headers)

    async def until(self, pieces: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.pieces < pieces:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HostDatabase]:
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        yield database


def told(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["code"]


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_stranger_s_body_is_not_read(database: HostDatabase, token: str) -> None:
    door = Door(database)
    assert told(await door.post(b"x" * 100, token=token)) == (401, "unauthorized")
    assert door.pieces == 0


async def test_a_body_without_a_length_is_counted(database: HostDatabase) -> None:
    door = Door(database, limit=100)
    door.answer.set()
    assert (await door.post(b"x" * 60, b"y" * 40)).json() == {"size": 100}
    reply = await door.post(b"x" * 60, b"y" * 41, b"never")
    assert told(reply) == (413, "body_too_large")
    assert reply.json()["detail"] == "the body is larger than 100 bytes; send less"
    assert door.pieces == 4


async def test_a_body_that_does_not_come_is_given_up(database: HostDatabase) -> None:
    door = Door(database, timeout=0.05)
    assert told(await door.post(b"the beginning", wait=asyncio.Event())) == (408, "body_too_slow")


async def test_an_answer_may_take_longer_than_a_body(database: HostDatabase) -> None:
    door = Door(database, timeout=0.5)
    asyncio.get_running_loop().call_later(0.8, door.answer.set)
    assert (await door.post(b"all of it")).json() == {"size": 9}


async def test_what_a_caller_has_under_way_is_bounded_and_given_back(database: HostDatabase) -> None:
    door = Door(database, held=ShareCounter(200))
    writer = await door.tokens.mint("writer", "manual")
    first = asyncio.create_task(door.post(b"x" * 60, token=writer))
    await door.until(1)
    reply = await door.post(b"x" * 41, token=writer)
    assert told(reply) == (429, "too_many_bytes")
    assert reply.headers["retry-after"] == "5"
    other = asyncio.create_task(door.post(b"x" * 60))  # another caller has bounds of his own
    await door.until(3)
    door.answer.set()
    assert [(await task).json() for task in (first, other)] == [{"size": 60}] * 2
    assert (await door.post(b"x" * 100, token=writer)).json() == {"size": 100}


async def test_a_database_that_fails_is_told_as_everywhere(database: HostDatabase) -> None:
    door = Door(database)

    class Broken(TokenStore):
        async def find(self, token_digest: str) -> TokenInfo | None:
            raise OperationalError("SELECT", {}, Exception("no disk"))

    door.app.state.guard = AccessGuard(Broken(database, ManualClock()), ManualClock())
    assert told(await door.post(b"x")) == (503, "database_unavailable")
