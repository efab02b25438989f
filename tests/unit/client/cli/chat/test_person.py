"""The person at the keys of the real screen: what they are asked, and what becomes of their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import PipeInput, create_pipe_input
from rich.console import RenderableType

from agent_client import Agent, Approval
from agent_client.cli.chat.blocks import Transcript
from agent_client.cli.chat.person import Person
from agent_client.cli.chat.screen import ChatCompleter, Folders, Screen, open_history

UP, DOWN = "\x1b[A", "\x1b[B"
TAKEN = {"session_id": "s", "message_id": "m", "status": "running"}


class Told(Transcript):
    """Keeps what the person is told."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen)
        self.lines: list[str] = []

    def notice(self, text: str, style: str = "dim") -> None:
        self.lines.append(text)

    def problem(self, text: str) -> None:
        self.lines.append(text)


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
    told: list[str]
    running: asyncio.Task[int]
    answers: list[str] = field(default_factory=list[str])

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something has come about."""
        async with asyncio.timeout(60):
            while not met():
                await asyncio.sleep(0.01)


async def no_arguments(_: str) -> Sequence[str]:
    return ()


@asynccontextmanager
async def desk(folder: Path, *replies: httpx2.Response) -> AsyncGenerator[Desk]:
    """A person in front of an agent that replies to their answers with these, and then takes all."""
    waiting = list(replies)

    def handle(request: httpx2.Request) -> httpx2.Response:
        given = json.loads(request.content)
        reason = f": {given['reason']}" if given.get("reason") else ""
        here.answers.append(f"{given['id']} {given.get('decision', given.get('answers'))}{reason}")
        return waiting.pop(0) if waiting else httpx2.Response(200, json=TAKEN)

    with create_pipe_input() as keys, create_app_session(input=keys):
        async with Agent("http://server", transport=httpx2.MockTransport(handle)) as agent:
            screen = Screen(ChatCompleter([], no_arguments, Folders(agent)), open_history(folder / "history"))
            screen.handler = Quiet()
            online = asyncio.Event()
            online.set()
            told = Told(screen)
            running = asyncio.create_task(screen.run())
            person = Person(agent, screen, told, online, lambda: None)
            here = Desk(person, screen, keys, online, told.lines, running)
            try:
                yield here
            finally:
                if not running.done():
                    screen.exit()
                await running


def refused(status: int, code: str) -> httpx2.Response:
    problem = {"title": "No", "status": status, "code": code, "detail": f"it is {code}", "instance": "/"}
    return httpx2.Response(status, json=problem, headers={"Retry-After": "0.01"})


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
        at.keys.send_text("y\r")
        await at.until(lambda: at.answers == ["a once"])
        await at.until(lambda: at.screen.menu is None)
        assert at.screen.input.text == "Please also "


async def test_an_approval_that_comes_again_with_more_is_asked_whole(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        whole = approval("a")
        at.person.ask(replace(whole, always=()))
        await at.until(lambda: at.screen.menu is not None)
        bare = at.screen.menu
        at.person.ask(whole)
        await at.until(lambda: at.screen.menu not in (None, bare))
        card = at.screen.menu
        assert card is not None
        assert len(card.choices) == 4
        at.person.ask(approval("a"))
        at.keys.send_text("a\r")
        await at.until(lambda: bool(at.told))
        assert at.answers == ["a always"]
        at.person.ask(approval("a"))
        await at.until(lambda: at.screen.menu is not None)
        at.person.resolved("a")
        await at.until(lambda: at.screen.menu is None)


@pytest.mark.parametrize("sentence", ["why do you", "wait", "a y", "1 more", "no use X"])
async def test_a_sentence_that_is_typed_into_an_approval_runs_nothing(tmp_path: Path, sentence: str) -> None:
    async with desk(tmp_path) as at:
        at.person.ask(approval("a"))
        await at.until(lambda: at.screen.menu is not None)
        at.keys.send_text(sentence)
        await at.until(lambda: at.screen.answer.text == sentence)
        assert at.answers == []
        at.keys.send_text("\r")
        await at.until(lambda: at.answers == [f"a reject: {sentence}"])


async def test_a_key_of_an_approval_chooses_and_enter_confirms(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.person.ask(approval("a"))
        await at.until(lambda: at.screen.menu is not None)
        menu = at.screen.menu
        assert menu is not None
        at.keys.send_text("a")
        await at.until(lambda: menu.cursor == 1)
        at.keys.send_text(DOWN)
        await at.until(lambda: menu.cursor == 2)
        assert at.screen.answer.text == "", "the key is not the choice any more"
        at.keys.send_text("n")
        await at.until(lambda: menu.cursor == 3)
        assert at.answers == []
        at.keys.send_text("\r")
        await at.until(lambda: at.screen.menu not in (None, menu))
        at.keys.send_text("y\r")
        await at.until(lambda: at.answers == ["a reject: y"])


async def test_ctrl_d_leaves_an_approval_open(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.person.ask(approval("a"))
        await at.until(lambda: at.screen.menu is not None)
        at.keys.send_text("\x04")
        await at.until(at.running.done)
        assert at.answers == []


async def test_an_answer_is_given_however_often_the_agent_is_away(tmp_path: Path) -> None:
    away = [refused(502, "agent_unreachable"), refused(409, "not_running"), refused(503, "draining")]
    async with desk(tmp_path, *away, refused(429, "too_many"), refused(500, "internal_error")) as at:
        at.person.ask(approval("a"))
        await at.until(lambda: at.screen.menu is not None)
        at.keys.send_text("a\r")
        for _ in away:
            await at.until(lambda: not at.online.is_set())
            at.online.set()  # as the window does when the agent has answered again
        await at.until(lambda: len(at.told) == 1)
        assert "internal_error" in at.told[0]
        await at.until(lambda: at.screen.menu is not None)  # it was not taken, so it is asked again
        at.keys.send_text("a\r")
        await at.until(lambda: len(at.told) == 2)
        assert at.told[1].startswith("Always allowed")
        assert at.answers == ["a always"] * 6


async def test_what_is_answered_elsewhere_is_not_in_front_of_the_next(tmp_path: Path) -> None:
    async with desk(tmp_path, refused(409, "not_waiting")) as at:
        for name in ("a", "b"):
            at.person.ask(approval(name))
        await at.until(lambda: at.screen.menu is not None)
        card = at.screen.menu
        at.person.resolved("a")
        await at.until(lambda: at.screen.menu not in (None, card))
        at.keys.send_text("a\r")
        await at.until(lambda: bool(at.told))
        assert at.answers == ["b always"]
        assert at.told == ["It was answered elsewhere."], "and nothing is always allowed"
