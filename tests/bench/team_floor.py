"""A blackboard as bare as can be: FastAPI, and one SQLite commit (WAL, `synchronous=FULL`) a write.

It has no tokens, no teams, no conditions and no history; its watchers get what is written while they listen.
`python -m tests.bench.team_floor FILE` prints its URL.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from agent_common.net import Tcp, http_url, listen_at

_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT, version INTEGER, updated_at INTEGER)"
_WRITE = """
INSERT INTO entries VALUES (?, ?, 1, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = version + 1, updated_at = excluded.updated_at
RETURNING value, version, updated_at
"""
_READ = "SELECT value, version, updated_at FROM entries WHERE key = ?"


class Write(BaseModel):
    value: Any


def make_app(path: str) -> FastAPI:
    database = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", _TABLE):
        database.execute(statement)
    app = FastAPI()
    news = News()

    async def write(key: str, body: Write) -> dict[str, Any]:
        row = database.execute(_WRITE, (key, json.dumps(body.value), time.time_ns() // 1_000_000)).fetchone()
        shown = _shown(key, row)
        news.tell(f"data: {json.dumps(shown)}\n\n".encode())
        return shown

    async def read(key: str) -> dict[str, Any]:
        if (row := database.execute(_READ, (key,)).fetchone()) is None:
            raise HTTPException(404)
        return _shown(key, row)

    async def watch() -> StreamingResponse:
        return StreamingResponse(news.stream(), media_type="text/event-stream")

    app.get("/blackboard/watch")(watch)
    app.put("/blackboard/{key:path}")(write)
    app.get("/blackboard/{key:path}")(read)
    return app


class News:
    """The latest event, for those who listen."""

    def __init__(self) -> None:
        self._event = b""
        self._told = asyncio.Event()

    def tell(self, event: bytes) -> None:
        self._event = event
        self._told.set()
        self._told = asyncio.Event()

    async def stream(self) -> AsyncGenerator[bytes]:
        yield b": watching\n\n"
        while True:
            await self._told.wait()
            yield self._event


def _shown(key: str, row: tuple[str, int, int]) -> dict[str, Any]:
    value, version, updated_at = row
    return {"key": key, "value": json.loads(value), "version": version, "updated_at": updated_at}


def _serve(path: str) -> None:
    with listen_at(Tcp("127.0.0.1", 0)) as tcp:
        print(http_url(tcp.endpoint), flush=True)
        config = uvicorn.Config(
            make_app(path), loop="uvloop", http="httptools", ws="none", log_config=None, timeout_keep_alive=60
        )
        uvicorn.Server(config).run(sockets=[tcp.sock])


if __name__ == "__main__":
    _serve(sys.argv[1])
