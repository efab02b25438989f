"""The floor: the least that a durable chat server does. `python -m tests.bench.floor` with the settings below.

Starlette on uvicorn (uvloop, httptools), one pooled httpx client, history in memory and read back from the disk by
the first turn after a start, and one SQLite commit (WAL, `synchronous=FULL`) per turn. No tools, no loop, no queue, no
checks. Its list of sessions is a table that others have filled; a stream can be heard again while it runs.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

SYSTEM = "You are a helpful assistant. " * 20
Message = dict[str, Any]
_TABLES = """
CREATE TABLE IF NOT EXISTS turns (session TEXT, messages TEXT);
CREATE INDEX IF NOT EXISTS turns_session ON turns (session);
CREATE TABLE IF NOT EXISTS listed (at INTEGER, id TEXT, body TEXT, PRIMARY KEY (at, id)) WITHOUT ROWID;
"""
_PAGE = "SELECT at, id, body FROM listed WHERE (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT 50"


def opened(data: Path) -> sqlite3.Connection:
    """The floor's database in this folder."""
    database = sqlite3.connect(data / "floor.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.executescript(_TABLES)
    return database


class Floor:
    def __init__(self, data: Path, provider: str) -> None:
        self._url = f"{provider}/chat/completions"
        self._histories: dict[str, list[Message]] = {}
        self._running: dict[str, list[str]] = {}
        """Session -> what its stream has said so far."""
        self._database = opened(data)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
        async with httpx.AsyncClient(limits=limits, timeout=60) as self._client:
            yield

    async def chat(self, request: Request) -> Response:
        asked = await request.json()
        messages = self._messages(asked)
        reply = await self._client.post(self._url, json={"model": "default", "messages": messages})
        answer = reply.json()
        text = answer["choices"][0]["message"]["content"]
        self._keep(asked["session_id"], messages, text)
        return JSONResponse({"session_id": asked["session_id"], "response": text, "usage": answer["usage"]})

    async def chat_stream(self, request: Request) -> Response:
        return StreamingResponse(self._stream(await request.json()), media_type="text/event-stream")

    async def _stream(self, asked: Message) -> AsyncGenerator[str]:
        messages = self._messages(asked)
        body = {"model": "default", "messages": messages, "stream": True}
        pieces: list[str] = []
        said = self._running[asked["session_id"]] = []
        async with self._client.stream("POST", self._url, json=body) as reply:
            async for line in reply.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                delta = json.loads(line[6:])["choices"][0]["delta"]
                if piece := delta.get("content"):
                    pieces.append(piece)
                    said.append(f"data: {json.dumps({'type': 'text-delta', 'id': '0', 'delta': piece})}\n\n")
                    yield said[-1]
        del self._running[asked["session_id"]]
        self._keep(asked["session_id"], messages, "".join(pieces))
        yield "data: [DONE]\n\n"

    async def said(self, request: Request) -> Response:
        """What a running stream has said so far."""
        return Response("".join(self._running[request.path_params["session"]]), media_type="text/event-stream")

    async def sessions(self, request: Request) -> Response:
        at, _, row_id = request.query_params.get("after", f"{2**62}.").partition(".")
        rows = self._database.execute(_PAGE, (int(at), row_id)).fetchall()
        more = f'"{rows[-1][0]}.{rows[-1][1]}"' if len(rows) == 50 else "null"
        page = ",".join(row[2] for row in rows)
        return Response(f'{{"sessions":[{page}],"next":{more}}}', media_type="application/json")

    def _messages(self, asked: Message) -> list[Message]:
        history = self._histories.get(asked["session_id"]) or self._read(asked["session_id"])
        return [*history, {"role": "user", "content": asked["message"]}]

    def _read(self, session: str) -> list[Message]:
        rows = self._database.execute("SELECT messages FROM turns WHERE session = ? ORDER BY rowid", (session,))
        return [{"role": "system", "content": SYSTEM}, *(message for row in rows for message in json.loads(row[0]))]

    def _keep(self, session: str, messages: list[Message], text: str) -> None:
        messages.append({"role": "assistant", "content": text})
        self._histories[session] = messages
        self._database.execute("INSERT INTO turns VALUES (?, ?)", (session, json.dumps(messages[-2:])))

    async def status(self, _request: Request) -> Response:
        return JSONResponse({"state": "idle", "sessions": len(self._histories)})


def app(floor: Floor) -> Starlette:
    routes = [
        Route("/chat", floor.chat, methods=["POST"]),
        Route("/chat/stream", floor.chat_stream, methods=["POST"]),
        Route("/chat/{session}/stream", floor.said),
        Route("/sessions", floor.sessions),
        Route("/status", floor.status),
        Route("/healthz", floor.status),
        Route("/readyz", floor.status),
    ]
    return Starlette(routes=routes, lifespan=floor.lifespan)


def main() -> None:
    floor = Floor(Path(os.environ["FLOOR_DATA_DIR"]), os.environ["FLOOR_LLM_BASE_URL"])
    port = int(os.environ["FLOOR_PORT"])
    uvicorn.run(app(floor), port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
