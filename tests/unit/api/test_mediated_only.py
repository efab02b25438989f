"""With required mediation, work comes over the channel; this machine's own callers are let through."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from agent_runtime.api.middleware import AuthMiddleware


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def nothing() -> Message:
    return {"type": "http.request", "body": b""}


@pytest.mark.parametrize(
    ("client", "method", "status"),
    [
        (("127.0.0.1", 4000), "POST", 200),
        (("::1", 4000), "POST", 200),
        (("::ffff:127.0.0.1", 4000), "DELETE", 200),
        (None, "PUT", 200),
        (("10.0.0.5", 4000), "POST", 403),
        (("::ffff:10.0.0.5", 4000), "PATCH", 403),
        (("unknown", 0), "POST", 403),
        (("10.0.0.5", 4000), "GET", 200),
    ],
)
async def test_who_may_change_something(client: Any, method: str, status: int) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/chat",
        "headers": [(b"authorization", b"Bearer t")],
        "client": client,
    }
    await AuthMiddleware(answered, "t", refuse_remote_work=True)(scope, nothing, send)
    assert sent[0]["status"] == status
