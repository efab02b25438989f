"""The commands: one table, which is registered with the platform, shown by /help, and carried out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from ...platform import Command
from ..words import code
from . import agent, sessions, turns
from .command import Call, Entry
from .permissions import permissions

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]{0,31})(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


async def _help(call: Call) -> None:
    """List the commands."""
    await call.context.tell(call.update, listing())


def _entry(name: str, description: str, run: Callable[[Call], Awaitable[None]], argument: str | None = None) -> Entry:
    return Entry(Command(name, description, argument), run)


TABLE = {
    entry.command.name: entry
    for entry in (
        _entry("new", "Begin a new conversation", sessions.new),
        _entry("status", "How the agent and the conversation stand", agent.status),
        _entry("stop", "Stop what the agent does", turns.stop),
        _entry("queue", "Have a message wait until the agent has answered", turns.queue, "TEXT"),
        _entry("sessions", "List the conversations, and go on with one", sessions.sessions),
        _entry("rewind", "Take back the last message, or more", sessions.rewind, "COUNT"),
        _entry("fork", "Branch off a conversation from here", sessions.fork),
        _entry("model", "Show or choose the model", agent.model, "NAME"),
        _entry("agent", "Show or choose who answers", agent.agent, "NAME"),
        _entry("cost", "What the conversation has cost", agent.cost),
        _entry("files", "List the files of the workspace, or send one", agent.files, "PATH"),
        _entry("permissions", "Show what is always allowed, and take it back", permissions, "WHAT"),
        _entry("help", "List the commands", _help),
    )
}
COMMANDS = tuple(entry.command for entry in TABLE.values())
TABLE["start"] = TABLE["help"]  # Telegram sends it when a person opens a chat with the bot, so it is not listed


def listing() -> str:
    """Return the commands with their descriptions."""
    lines = (f"- {code('/' + ' '.join(filter(None, (one.name, one.argument))))}: {one.description}" for one in COMMANDS)
    return "\n".join(lines)


def parse(text: str) -> tuple[str, str] | None:
    """Return name and argument of a command; None if the text is none. `/new@bot` names the bot, too."""
    found = _COMMAND.fullmatch(text.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())
