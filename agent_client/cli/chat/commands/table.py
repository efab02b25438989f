"""The commands that begin with a slash: their names, and how one is found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from rich.console import RenderableType

from .... import Agent
from ...errors import UsageError
from ..agent_watch import AgentWatch
from ..blocks import Marked, Transcript
from ..conversation import Conversation
from ..screen import Screen


class Chat(Protocol):
    """What commands act on."""

    agent: Agent
    screen: Screen
    transcript: Transcript
    watch: AgentWatch
    conversation: Conversation

    async def open(self, session: str) -> None:
        """Talk in another session."""
        ...


Run = Callable[[Chat, str], Awaitable[None]]
Values = Callable[[Chat], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    name: str
    help: str
    run: Run
    argument: str = ""
    """How its argument is written in the help."""
    values: Values | None = None
    """What the argument may be, for completion."""


def alone(run: Callable[[Chat], Awaitable[None]]) -> Run:
    """Make a command of what takes no argument."""

    async def run_alone(chat: Chat, given: str) -> None:
        if given:
            raise UsageError("this command takes no argument", "/help lists the commands")
        await run(chat)

    return run_alone


def find_command(commands: Sequence[Command], name: str) -> Command:
    """Return the command of that name, or the only one that begins with it. Raises UsageError."""
    wanted = name.lower()
    found = [command for command in commands if command.name.startswith(wanted)]
    for command in found:
        if command.name == wanted:
            return command
    if len(found) == 1 and wanted:
        return found[0]
    if found and wanted:
        raise UsageError(f"/{name} may be {' or '.join('/' + one.name for one in found)}")
    close = get_close_matches(wanted, [command.name for command in commands], 1)
    raise UsageError(f"there is no command /{name}", f"did you mean /{close[0]}?" if close else "/help lists them")


def say(chat: Chat, block: RenderableType) -> None:
    """Print the answer of a command."""
    chat.transcript.block(Marked("  ", "", block))
