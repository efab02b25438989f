"""The person at the keys of the real screen: what they are asked, and what becomes of their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from prompt_toolkit.application import create_app_session
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import PipeInput, create_pipe_input
from rich.console import RenderableType

from agent_client import Agent, Approval
from agent_client.cli.chat.blocks import Transcript
from agent_client.cli.chat.person import Person
from agent_client.cli.chat.screen import ChatCompleter, Folders, Screen, open_history

UP = "\x1b[A"


class Quiet:
    """A chat that shows nothing but what is asked."""

    busy = False

    def submit(self, text: str) -> None: ...
    def queue(self, text: str) -> None: ...
    def stop(self) -> None: ...

    def live(self) -> Sequence[RenderableType]:
        return ()

    def status(self, width: int) -> StyleAndTextTuples:
        return []


@dataclass
class Desk:
    """A person, their keys, and what the agent was told."""

    person: Person
    screen: Screen
    keys: PipeInput
    online: asyncio.Event
    answers: list[str] = field(default_factory=list[str])

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something has come about."""
        async with asyncio.timeout(60):
            while not met():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def desk(folder: Path, *replies: httpx2.Response) -> AsyncGenerator[Desk]:
    """A person in front of an agent that replies to their answers with these, and then takes all."""
    waiting = list(replies)

    def handle(request: httpx2.Request) -> httpx2.Response:
        given = json.loads(request.content)
        here.answers.append(f"{given['id']} {given.get('decision', given.get('answers'))}")
        return waiting.pop(0) if waiting else httpx2.Response(200, json={"session_id": "s", "id": given["id"]})

    with create_pipe_input() as keys, create_app_session(input=keys):
        async with Agent("http://server", transport=httpx2.MockTransport(handle)) as agent:
            screen = Screen(ChatCompleter([], lambda _: [], Folders(agent)), open_history(folder / "history"))
            screen.handler = Quiet()
            online = asyncio.Event()
            online.set()
            here = Desk(Person(agent, screen, Transcript(screen), online, lambda: None), screen, keys, online)
            running = asyncio.create_task(screen.run())
            try:
                yield here
            finally:
                screen.exit()
                await running


def approval(name: str) -> Approval:
    rules = [{"permission": "deploy", "pattern": "*", "action": "allow"}]
    return Approval("s", name, f"call-{name}", "deploy", {"to": name}, always=rules)


async def test_the_keys_of_a_half_written_message_answer_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.keys.send_text("Please also ")
        await at.until(lambda: at.screen.input.text == "Please also ")
        at.person.ask(approval("a"))
        await at.until(lambda: at.screen.menu is not None)
        at.keys.send_text("add 1 test\t\r")
        at.keys.send_text(UP)
        menu = at.screen.menu
        assert menu is not None
        await at.until(lambda: not menu.guarded)
        assert at.answers == []
        assert menu.cursor == 0
        at.keys.send_text("y")
        await at.until(lambda: at.answers == ["a once"])
        await at.until(lambda: at.screen.menu is None)
        assert at.screen.input.text == "Please also "
