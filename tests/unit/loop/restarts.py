"""A task over several lives: a model that looks where the conversation stands, tools that keep a ledger of what they
did to the world, and ways to die."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_common.protocol import Usage
from agent_runtime.errors import ToolFailure
from agent_runtime.ports import (
    CallPiece,
    CallStarted,
    Completion,
    ModelEvent,
    ModelRequest,
    TextPiece,
    ToolCall,
    ToolContext,
    ToolSpec,
)
from agent_runtime.tools import Tool, ToolGate, ToolRegistry
from tests.unit.loop.people import assert_fit_for_a_provider
from tests.unit.loop.support import FakeModel, World

SPENT = Usage(input=10, output=5, cache_read=3)


class Jumps(asyncio.SelectorEventLoop):
    """A loop whose clock can be moved on, so that what is due in a while is due now."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@dataclass(frozen=True)
class Step:
    """One answer of the model: text, then calls, each a tool and whether it fails."""

    text: str
    calls: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class End:
    """When a life ends, in moments of the model and the tools, and how: politely, or with what the disk has then."""

    after: int
    how: Literal["drain", "crash"]
    saved: bool = False
    """The disk had the time to take all that was said before."""


@dataclass
class Script:
    """What happens in the world outside, over all lives."""

    steps: Sequence[Step]
    completed: Counter[int] = field(default_factory=Counter[int])
    ran: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Tool and call id of everything that was begun."""
    finished: list[str] = field(default_factory=list[str])
    requests: list[list[bytes]] = field(default_factory=list[list[bytes]])


class Life(FakeModel):
    """One life of the runtime, and the model as it meets that."""

    def __init__(self, script: Script, folder: Path, end: End | None, **world: Any) -> None:
        super().__init__()
        self.script, self.folder, self.end = script, folder, end
        self.over = asyncio.Event()
        self.snapshot: Path | None = None
        self._moments, self._ending = 0, False
        registry = ToolRegistry(
            [
                self._tool("put"),
                self._tool("look", read_only=True),
                self._tool("set", idempotent=True),
            ],
            gate=ToolGate(),
        )
        self.world = World(folder, self, catalog=registry, **world)

    async def moment(self) -> None:
        """Something has happened. At the end of this life nothing more does."""
        if self.over.is_set():
            await asyncio.Event().wait()
        self._moments += 1
        if self.end is None or self._moments <= self.end.after:
            await asyncio.sleep(0)
            return
        if self._ending:
            await asyncio.Event().wait()
        self._ending = True
        if self.end.saved:
            await self._saved()
        if self.end.how == "crash":
            self.snapshot = self.folder / "next"
            self.snapshot.mkdir()
            _copy(self.world.home.database, self.snapshot)
        self.over.set()
        await asyncio.Event().wait()

    async def _saved(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Jumps)
        loop.ahead += 1.0
        for _ in range(3):
            await asyncio.sleep(0)
        await self.world.database.write(lambda _: None)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        sent = list(request.messages)
        messages = assert_fit_for_a_provider(sent)
        self.script.requests.append(sent)
        number = sum(message["role"] == "assistant" for message in messages)
        step = self.script.steps[number]
        for piece in step.text.split():
            await self.moment()
            yield TextPiece(piece + " ")
        calls: list[ToolCall] = []
        for index, (name, fails) in enumerate(step.calls):
            call = ToolCall(f"call-{number}-{index}", name, json.dumps({"n": number, "i": index, "fails": fails}))
            await self.moment()
            yield CallStarted(call.id, name)
            yield CallPiece(call.id, call.arguments)
            calls.append(call)
        await self.moment()
        self.script.completed[number] += 1
        yield Completion("tool-calls" if calls else "stop", tuple(calls), SPENT)

    def _tool(self, name: str, **hints: Any) -> Tool:
        async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
            if self.over.is_set():
                await asyncio.Event().wait()
            self.script.ran.append((name, context.call_id))
            await self.moment()
            self.script.finished.append(context.call_id)
            if arguments["fails"]:
                raise ToolFailure("it does not work")
            await self.moment()
            return dict(arguments)

        return Tool(ToolSpec(name, f"does {name}", {"type": "object"}, **hints), run)


def _copy(database: Path, folder: Path) -> None:
    """What a power cut at this very moment would leave of the committed rows."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(folder / database.name)) as target:
        source.backup(target)


def progress_on_disk(database: Path) -> tuple[str, int, int]:
    """State of the one turn in the ledger, how many of its model calls are known to be complete, and how much is
    done in all: a tool's result counts as well."""
    with closing(sqlite3.connect(database)) as connection:
        state, reply_id = connection.execute("SELECT state, reply_id FROM turns").fetchone()
        row = connection.execute("SELECT metadata_json FROM chat_messages WHERE id = ?", (reply_id,)).fetchone()
        (results,) = connection.execute(
            "SELECT count(*) FROM chat_parts WHERE message_id = ? AND tool_state = 'output-available'", (reply_id,)
        ).fetchone()
    steps = json.loads(row[0]).get("step_count", 0) if row else 0
    return state, steps, steps + results
