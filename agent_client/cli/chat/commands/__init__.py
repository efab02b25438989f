"""Commands that begin with a slash."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from .... import ClientError
from ...errors import UsageError
from . import agent, sessions
from .permissions import permissions
from .table import Chat, Command, alone, find_command, say
from .tables import listing

__all__ = ["COMMANDS", "Chat", "Command", "argument_values", "find_command", "is_command", "run_command"]

KEYS = [
    ("Enter", "sends; while a turn runs the message joins it at its next step"),
    ("Tab", "queues the message for after the turn; completes / and @"),
    ("Esc", "stops the turn"),
    ("Alt-Enter", "a new line, as \\ and Enter or Ctrl-J"),
    ("↑ ↓", "what was typed before"),
    ("Ctrl-C", "clears the input or stops the turn; twice exits"),
    ("Ctrl-D", "exits; a turn that runs goes on"),
]


async def _help(chat: Chat) -> None:
    rows = [(f"/{one.name} {one.argument}".rstrip(), one.help) for one in COMMANDS]
    say(chat, Group(listing(rows), Text(""), listing(KEYS)))


async def _quit(chat: Chat) -> None:
    chat.screen.exit()


COMMANDS: Sequence[Command] = (
    Command("help", "the commands and keys", alone(_help)),
    Command("new", "begin a new session", sessions.new, "[NAME]"),
    Command("sessions", "list the sessions", alone(sessions.sessions)),
    Command("resume", "continue another session", sessions.resume, "[NAME]"),
    Command("rewind", "go back to before a message", alone(sessions.rewind)),
    Command("unrewind", "take the latest rewind back", alone(sessions.unrewind)),
    Command("fork", "continue in a copy of the session", sessions.fork, "[TITLE]"),
    Command("compact", "summarize the conversation", alone(sessions.compact)),
    Command("title", "name the session", sessions.title, "TEXT"),
    Command("model", "choose the model", agent.model, "[NAME]", agent.models),
    Command("agent", "choose the agent", agent.agent, "[NAME]", agent.agents),
    Command("context", "how full the model's window is", alone(agent.context)),
    Command("cost", "tokens and dollars of the session", alone(agent.cost)),
    Command("files", "list the workspace, or show a file", agent.files, "[PATH]"),
    Command("permissions", "what the agent may do here", permissions, "[allow|ask|deny TOOL PATTERN]"),
    Command("status", "how the agent is", alone(agent.status)),
    Command("quit", "leave", alone(_quit)),
)


def is_command(text: str) -> bool:
    """Return whether a text would run a command."""
    try:
        find_command(COMMANDS, text.partition(" ")[0].removeprefix("/"))
    except UsageError:
        return False
    return text.startswith("/")


async def run_command(chat: Chat, text: str) -> None:
    """Run `/NAME ARGUMENT`. Raises UsageError, CliError, ClientError."""
    name, _, given = text.removeprefix("/").partition(" ")
    await find_command(COMMANDS, name).run(chat, given.strip())


async def argument_values(chat: Chat, name: str) -> Sequence[str]:
    """Return what the argument of a command may be; none if it is not known."""
    for command in COMMANDS:
        if command.name == name and command.values is not None:
            try:
                return await command.values(chat)
            except ClientError:
                return ()
    return ()
