"""What Tab and typing complete: commands after `/`, files of the agent's workspace after `@`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent_common.protocol import WorkspaceEntry

from .... import Agent, ClientError
from ...output import safe_line

LIST_SECONDS = 2.0
KEPT_SECONDS = 5.0
MAX_ENTRIES = 2000
MAX_SHOWN = 50
_AT = re.compile(r"(?:^|(?<=[\s(\"'`]))@(\S*)$")


@dataclass(frozen=True, slots=True)
class Completable:
    """A command, as completion knows it."""

    name: str
    help: str


Arguments = Callable[[str], Awaitable[Sequence[str]]]
"""The values that the argument of a command may have."""


class Folders:
    """The entries of folders, asked again after some seconds."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kept: dict[str, tuple[float, Sequence[WorkspaceEntry]]] = {}

    async def entries(self, folder: str) -> Sequence[WorkspaceEntry]:
        """Return the entries of a folder; none if it cannot be read."""
        kept = self._kept.get(folder)
        if kept and monotonic() - kept[0] < KEPT_SECONDS:
            return kept[1]
        found: list[WorkspaceEntry] = []
        try:
            async with asyncio.timeout(LIST_SECONDS):
                async for entry in self._agent.files.list(folder):
                    found.append(entry)
                    if len(found) == MAX_ENTRIES:
                        break
        except (ClientError, TimeoutError):
            return ()
        self._kept = {folder: (monotonic(), found), **dict(list(self._kept.items())[:20])}
        return found


class ChatCompleter(Completer):
    """Completes commands and files. It asks the agent, so it works only as an async generator."""

    def __init__(self, commands: Sequence[Completable], arguments: Arguments, folders: Folders) -> None:
        self._commands = commands
        self._arguments = arguments
        self._folders = folders

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            async for completion in self._command(text):
                yield completion
        elif found := _AT.search(text):
            async for completion in self._file(found[1]):
                yield completion

    async def _command(self, text: str) -> AsyncGenerator[Completion, None]:
        name, space, given = text[1:].partition(" ")
        if not space:
            for command in self._commands:
                if command.name.startswith(name.lower()):
                    yield Completion(f"/{command.name}", -len(text), display_meta=command.help)
            return
        for value in await self._arguments(name):
            if value.lower().startswith(given.lower()) and value.isprintable():
                yield Completion(value, -len(given))

    async def _file(self, typed: str) -> AsyncGenerator[Completion, None]:
        folder, _, prefix = typed.rpartition("/")
        entries = await self._folders.entries(folder)
        for entry in matching(entries, prefix)[:MAX_SHOWN]:
            end = "/" if entry.type == "folder" else ""
            yield Completion(entry.name + end, -len(prefix), display_meta=safe_line(described(entry)))


def matching(entries: Iterable[WorkspaceEntry], prefix: str) -> list[WorkspaceEntry]:
    """Return the entries that fit what was typed: those that begin with it first, hidden ones only if asked for."""
    wanted = prefix.lower()
    found = [
        entry
        for entry in entries
        if wanted in entry.name.lower()
        and entry.name.isprintable()
        and not re.search(r"\s", entry.name)
        and (prefix.startswith(".") or not entry.name.startswith("."))
    ]
    return sorted(found, key=lambda entry: (not entry.name.lower().startswith(wanted), entry.name.lower()))


def described(entry: WorkspaceEntry) -> str:
    """Return what an entry is, in a word."""
    return entry.type if entry.size is None else size(entry.size)


def size(count: int) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GB"
