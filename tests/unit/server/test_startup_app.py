"""What the port says before the server behind it has been loaded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_runtime.server.startup_app import StartupApp

Message = dict[str, Any]


async def ask(entrance: StartupApp, path: str) -> tuple[int, str, Any]:
    """One request: status, content type, parsed body."""
    sent: list[Any] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(60):
        await entrance({"type": "http", "path": path}, receive, send)
    headers = dict(sent[0]["headers"])
    assert int(headers[b"content-length"]) == len(sent[1]["body"])
    return sent[0]["status"], headers[b"content-type"].decode(), json.loads(sent[1]["body"])


async def application(scope: Any, receive: Any, send: Any) -> None:
    body = json.dumps({"path": scope["path"]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def test_the_probes_answer_at_once() -> None:
    entrance = StartupApp()
    assert await ask(entrance, "/healthz") == (200, "application/json", {"status": "ok"})
    starting = {"ready": False, "reasons": ["starting"]}
    assert await ask(entrance, "/readyz") == (503, "application/json", starting)


@pytest.mark.parametrize("path", ["/status", "/task"])
async def test_everything_else_waits_for_the_application(path: str) -> None:
    entrance = StartupApp()
    asked = asyncio.create_task(ask(entrance, path))
    await asyncio.sleep(0)
    assert not asked.done()
    entrance.set_app(application)
    assert await asked == (200, "application/json", {"path": path})


async def test_the_application_answers_the_probes_once_it_is_there() -> None:
    entrance = StartupApp()
    entrance.set_app(application)
    assert (await ask(entrance, "/readyz"))[2] == {"path": "/readyz"}


async def test_nobody_waits_for_ever() -> None:
    status, kind, body = await ask(StartupApp(wait_seconds=0.01), "/chat")
    assert (status, kind, body["code"]) == (503, "application/problem+json", "not_ready")


async def test_nobody_waits_for_an_application_that_could_not_be_started() -> None:
    entrance = StartupApp()
    asked = asyncio.create_task(ask(entrance, "/chat"))
    await asyncio.sleep(0)
    entrance.close()
    status, _, body = await asyncio.wait_for(asked, 20)
    assert (status, body["code"]) == (503, "not_ready")
