"""What a command is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_client import Agent

from ...people import Person
from ...platform import Command, Update
from ...store import StoredChat
from ..context import Context
from ..messages import GoingBack, Sending


@dataclass(frozen=True, slots=True)
class Call:
    """A command that a person has typed. What carries it out ends the update; it raises Later, and ClientError if the
    agent refuses."""

    context: Context
    sending: Sending
    going_back: GoingBack
    update: Update
    chat: StoredChat
    person: Person
    argument: str

    @property
    def agent(self) -> Agent:
        """The agent of the chat."""
        return self.context.agent(self.chat, self.person)


@dataclass(frozen=True, slots=True)
class Entry:
    """A command of the table."""

    command: Command
    run: Callable[[Call], Awaitable[None]]
