"""The floor: the least that a durable chat server does. `python -m tests.bench.floor` with the settings below.

Starlette on uvicorn (uvloop, httptools), one pooled httpx client, history in memory, and one SQLite commit
(WAL, `synchronous=FULL`) per turn. No tools, no loop, no queue, no checks.
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


class Floor:
    def __init__(self, data: Path, provider: str) -> None:
        self._url = f"{provider}/chat/completions"
        self._histories: dict[str, list[Message]] = {}
        self._database = sqlite3.connect(data / "floor.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS turns (session TEXT, messages TEXT)")

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
        async with self._client.stream("POST", self._url, json=body) as reply:
            async for line in reply.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                delta = json.loads(line[6:])["choices"][0]["delta"]
                if piece := delta.get("content"):
                    pieces.append(piece)
                    yield f"data: {json.dumps({'type': 'text-delta', 'id': '0', 'delta': piece})}\n\n"
        self._keep(asked["session_id"], messages, "".join(pieces))
        yield "data: [DONE]\n\n"

    def _messages(self, asked: Message) -> list[Message]:
        history = self._histories.setdefault(asked["session_id"], [{"role": "system", "content": SYSTEM}])
        return [*history, {"role": "user", "content": asked["message"]}]

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
