"""A person's private chat with the bot on either platform, beside what the agent itself has of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from agent_client.sync import SyncAgent
from agent_common.protocol import SessionDetail
from agent_testing import Say
from agent_testing.provider import Recorded

from .phones import SECONDS, Phone, Shown
from .world import WORKSPACE, World

T = TypeVar("T")


def echo(request: Recorded) -> Say:
    """A model that repeats the first line of what was said last."""
    return Say(f"Re: {request.last_user_text.splitlines()[0]}")


@dataclass(frozen=True, slots=True)
class Chat:
    world: World
    phone: Phone

    # ---------------------------------------------------------------- what the person does and sees

    def says(self, text: str, expected: str, reply_to: str | None = None) -> str:
        """Write, wait for a new message of the bot with this in it, and return the id of what was written."""
        before = self._ids()
        written = self.phone.write(text, reply_to)
        self.finds(expected, before)
        return written

    def hears(self, text: str, workspace: str = WORKSPACE) -> str:
        """Write, wait for the echo and for the end of its turn, and return the id of what was written."""
        written = self.says(text, f"Re: {text}")
        self.rests(workspace)
        return written

    def calls(self, command: str, argument: str = "", *, expected: str) -> Shown:
        """Call a command, and wait for a new message of the bot with this in it."""
        before = self._ids()
        self.phone.command(command, argument)
        return self.finds(expected, before)

    def finds(self, part: str, before: frozenset[str] = frozenset()) -> Shown:
        """Wait for a message of the bot with this in it that is none of those before."""

        def find() -> Shown | None:
            return next((one for one in self.shown() if one.id not in before and part in one.text), None)

        try:
            return self.phone.wait_for(find)
        except TimeoutError:
            raise AssertionError(f"{part!r} is not in {[one.text for one in self.shown()]}") from None

    def presses(self, card: Shown, label: str, expected: str) -> Shown:
        """Press a button, and wait for a message of the bot with this in it, also if it was there before."""
        self.phone.press(card.id, label)
        return self.finds(expected)

    def shown(self) -> list[Shown]:
        """The messages of the bot without the marks of bold text and of code, in which the platforms differ."""
        return [
            Shown(one.id, one.text.translate({ord(mark): None for mark in "*`\\"}), one.buttons, one.files)
            for one in self.phone.shown()
        ]

    def _ids(self) -> frozenset[str]:
        return frozenset(one.id for one in self.phone.shown())

    # ---------------------------------------------------------------- what the agent has

    def agent(self, workspace: str = WORKSPACE) -> SyncAgent:
        return self.world.host.mesh.agent(workspace, self.phone.name)

    def rests(self, workspace: str = WORKSPACE) -> None:
        """Wait until no turn of the person runs: an answer is shown a moment before its turn is over."""
        self.until(lambda: all(one.status.state == "idle" for one in self.agent(workspace).sessions.list()))

    def name(self, number: int = 1) -> str:
        """The agent's name of the chat's first session, or of a later one."""
        return f"{self.phone.name.partition(':')[0]}-{self.phone.chat}-{number}"

    def session(self, number: int = 1) -> SessionDetail:
        return self.agent().sessions.get(self.name(number))

    def told(self, session: str | None = None, *, hidden: bool = False) -> list[str]:
        """The first line of each message of a person in a session, as the agent has it."""
        found = self.agent().sessions.messages(session or self.name(), hidden=hidden)
        return [_text(one.parts).partition("\n")[0] for one in found if one.role == "user"]

    def outcomes(self) -> list[dict[str, Any]]:
        """How the turns of the first session have ended."""
        found = self.agent().sessions.messages(self.name())
        return [one.metadata["outcome"] for one in found if one.role == "assistant"]

    def until(self, holds: Callable[[], T]) -> T:
        """Wait until something holds that the agent is asked for, and return it."""
        deadline = time.monotonic() + SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, f"it does not hold; shown is {[one.text for one in self.shown()]}"
            time.sleep(0.05)
        return found

    # ---------------------------------------------------------------- what the model was asked

    def asked(self) -> list[str]:
        """The first line of each message that the model was asked last, but of the system prompt."""
        return [text.partition("\n")[0] for text in self.world.provider.completions[-1].texts]


def _text(parts: list[dict[str, Any]]) -> str:
    return " ".join(str(part["text"]) for part in parts if part["type"] == "text")
