"""The messages and turns of one window, at an agent whose answers are written here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from agent_client import Agent, ChatEvent
from agent_client.cli.chat.conversation import Conversation

START = 'data: {"type":"start","messageId":"m","messageMetadata":{"session_id":"s","message_id":"m"}}\n\n'
TURN = f"""\
{START}data: {{"type":"finish","finishReason":"stop"}}

data: [DONE]

"""
NOT_RUNNING = {"title": "Conflict", "status": 409, "code": "not_running", "detail": "it does not run", "instance": "/"}
Handler = Callable[[httpx2.Request], httpx2.Response]


class Shown:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.finished = asyncio.Event()
        self.queued = asyncio.Event()

    def user(self, text: str) -> None:
        self.lines.append(text)

    def problem(self, text: str) -> None:
        self.lines.append(f"problem: {text}")

    async def event(self, event: ChatEvent) -> None:
        if event.type == "finished":
            self.finished.set()
        if event.type == "queued":
            self.queued.set()

    async def other_turn(self) -> None:
        self.lines.append("other turn")

    async def missed_turn(self) -> None:
        self.lines.append("missed turn")

    def changed(self) -> None:
        pass


def turn(*_: object) -> httpx2.Response:
    return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, text=TURN)


@asynccontextmanager
async def talking(handler: Handler, view: Shown, online: asyncio.Event) -> AsyncGenerator[Conversation]:
    """A conversation that runs."""
    async with Agent("http://server", transport=httpx2.MockTransport(handler)) as agent:
        conversation = Conversation(agent, "s", view, online)
        running = asyncio.create_task(conversation.run())
        try:
            async with asyncio.timeout(60):
                yield conversation
        finally:
            running.cancel()
            await asyncio.wait({running})


async def test_a_message_to_an_agent_that_is_started_again_is_sent_when_it_is_back() -> None:
    sent: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.content)
        return turn() if len(sent) > 1 else httpx2.Response(409, json=NOT_RUNNING)

    view = Shown()
    online = asyncio.Event()
    online.set()
    async with talking(answer, view, online) as conversation:
        conversation.send("hello")
        while online.is_set():
            await asyncio.sleep(0.01)
        online.set()  # as the window does when the agent has answered again
        await view.finished.wait()
    assert view.lines == ["hello"]
    assert len(sent) == 2
    assert sent[0] == sent[1]


@pytest.mark.parametrize("others", [1, 2])
async def test_the_turn_of_another_window_is_shown_before_a_message_that_waits_for_it(others: int) -> None:
    """It has begun, and the message of this window is still behind it at the agent. Events may come in a burst."""

    async def waits() -> AsyncGenerator[bytes]:
        yield START.encode()
        yield b'data: {"type":"data-queue","data":{"position":1}}\n\n'
        await asyncio.sleep(600)

    sent = 0

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal sent
        sent += request.method == "POST"
        if request.method == "GET" or sent > 1:
            return turn()
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=waits())

    view = Shown()
    online = asyncio.Event()
    online.set()
    async with talking(answer, view, online) as conversation:
        conversation.queue("mine")
        await view.queued.wait()
        for _ in range(others):
            conversation.watch()
        while conversation.busy:
            await asyncio.sleep(0.01)
    assert view.lines == ["mine", *["other turn"] * others]
    assert sent == 2
