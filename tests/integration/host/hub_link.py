"""A link to a live host's hub, driven by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from .live import OPERATOR, PATIENCE, Host


class RawSocket:
    """Frames as dicts."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.notifies: list[dict[str, Any]] = []
        self._count = 0

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def get(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self.socket.recv())

    async def answer(self, request_id: str) -> dict[str, Any]:
        """The answer to a request; deliveries that come first are kept."""
        while (frame := await self.get()).get("request_id") != request_id:
            self.notifies.append(frame)
        return frame

    async def ask(self, op: str, **params: Any) -> Any:
        self._count += 1
        await self.send(kind="request", request_id=f"r{self._count}", op=op, params=params)
        answer = await self.answer(f"r{self._count}")
        return answer["result"] if answer["kind"] == "response" else answer

    async def say(self, session_id: str, sender_id: str, event_type: str = "ag2.msg.text", **fields: Any) -> Any:
        self._count += 1
        envelope = {"session_id": session_id, "sender_id": sender_id, "event_type": event_type, **fields}
        await self.send(kind="send", request_id=f"r{self._count}", envelope=envelope)
        return await self.answer(f"r{self._count}")

    async def notify(self, event_type: str) -> dict[str, Any]:
        """The next delivery of that type; others are left out."""
        while True:
            frame = self.notifies.pop(0) if self.notifies else await self.get()
            if frame["kind"] == "notify" and frame["envelope"]["event_type"] == event_type:
                return frame

    async def receipt(self, notify: dict[str, Any], **fields: Any) -> None:
        envelope = notify["envelope"]
        names = {name: envelope[name] for name in ("envelope_id", "session_id")}
        await self.send(kind="receipt", recipient_id=notify["recipient_id"], **names, **fields)

    async def accept_invitation(self, agent_id: str) -> str:
        invitation = await self.notify("ag2.session.invite")
        session_id: str = invitation["envelope"]["session_id"]
        await self.say(session_id, agent_id, "ag2.session.invite.ack")
        await self.receipt(invitation)
        return session_id


def url_of(host: Host) -> str:
    return host.url.replace("http://", "ws://") + "/hub"


@asynccontextmanager
async def linked(
    host: Host, token: str | None = OPERATOR, user: str | None = None, **options: Any
) -> AsyncGenerator[RawSocket]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    headers |= {"x-agent-user": user} if user else {}
    async with connect(url_of(host), additional_headers=headers, proxy=None, **options) as socket:
        yield RawSocket(socket)


async def opened(creator: RawSocket, creator_id: str, other: RawSocket, other_id: str, name: str) -> str:
    """A conversation of two agents, each on a link of its own."""
    opening = asyncio.create_task(creator.ask("open", agent_id=creator_id, type="conversation", targets=[name]))
    session_id = await other.accept_invitation(other_id)
    assert (await opening)["session_id"] == session_id
    return session_id
