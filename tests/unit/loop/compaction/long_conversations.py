"""Conversations that outgrow a small window in every way a conversation can go on: a model that does what each turn has
planned for it and sums up what it is shown, tools of any size, people who steer, approve and go back."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent_common.protocol import Usage
from agent_runtime.context import View, read_view
from agent_runtime.errors import ModelError, ToolFailure
from agent_runtime.loop import LiveSession, Turn
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
from agent_runtime.sessions import COMPACTION, Marker, MessageRow, rows
from agent_runtime.tools import Tool, ToolGate, ToolRegistry
from tests.unit.loop.people import AskFirst, heard
from tests.unit.loop.support import PATIENCE, FakeModel, World

WINDOW = 3000
"""Tokens; 562 of those that are usable are for what is kept word for word."""
USABLE = WINDOW * 3 // 4
_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")


_REPORTS = itertools.count(1)


def prose(words: int, seed: int = 0) -> str:
    """About as many tokens as words."""
    return " ".join(_WORDS[(seed + at) % len(_WORDS)] for at in range(words))


class Hasty(asyncio.SelectorEventLoop):
    """Short waits are over at once: backoffs cost a test no time. Deadlines are as long as they are."""

    def call_later(self, delay: float, callback: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
        return super().call_later(delay if delay > 10 else 0, callback, *args, **more)


@dataclass(frozen=True)
class Calls:
    """The model calls tools: name and how many words each gives."""

    tools: tuple[tuple[str, int], ...]
    text: str = ""
    package: str = ""
    """What `skill` is to load."""


@dataclass(frozen=True)
class Breaks:
    """The model call fails, after so many words of an answer."""

    how: Literal["transient", "overflow", "for good"]
    said: int = 0


@dataclass(frozen=True)
class Says:
    words: int


Play = Calls | Breaks | Says
SummaryKind = Literal["good", "empty", "long", "transient", "broken"]


@dataclass
class Talker(FakeModel):
    """One model over several lives of a world. What it sums up to is by turns what `summaries` says."""

    summaries: Sequence[SummaryKind] = ("good",)
    plan: deque[Play] = field(default_factory=deque[Play])
    look: Callable[[list[bytes]], Any] | None = None
    """Is shown each request of a conversation, as it is sent."""

    def __post_init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        """The records that were to be summed up."""
        self.asked_to_sum_up = asyncio.Event()
        self.may_sum_up = asyncio.Event()
        self.may_sum_up.set()
        self._count = itertools.count(1)

    def hold(self) -> None:
        """Summaries hang from here on."""
        self.asked_to_sum_up.clear()
        self.may_sum_up.clear()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        sent = list(request.messages)
        self.requests.append((request, sent))
        usage = Usage(input=sum(map(len, sent)) // 4, output=5)
        if is_summary(sent):
            self.asked_to_sum_up.set()
            await self.may_sum_up.wait()
            for event in self._summary(json.loads(sent[-1])["content"], usage):
                yield event
            return
        if self.look is not None:
            await self.look(sent)
        for event in self._play(self.plan.popleft() if self.plan else Says(5), usage):
            yield event

    def _summary(self, record: str, usage: Usage) -> Sequence[ModelEvent]:
        self.told.append(record)
        number = len(self.told)
        kind = self.summaries[number % len(self.summaries)]
        if kind == "transient":
            raise ModelError("come back later", transient=True)
        if kind == "broken":
            raise ModelError("never again")
        text = {"good": f"## Facts\nsummary {number}", "empty": " ", "long": prose(20_000)}[kind]
        return [TextPiece(text), Completion("stop", usage=usage)]

    def _play(self, play: Play, usage: Usage) -> Iterator[ModelEvent]:
        match play:
            case Says(words):
                yield TextPiece(prose(words))
                yield Completion("stop", usage=usage)
            case Calls(tools, text, package):
                if text:
                    yield TextPiece(text)
                calls: list[ToolCall] = []
                for name, words in tools:
                    number = next(self._count)  # the same call again and again would end the turn
                    arguments = {"words": words, "number": number} | ({"name": package} if package else {})
                    calls.append(ToolCall(f"call_{number}", name, json.dumps(arguments)))
                    yield CallStarted(calls[-1].id, name)
                    yield CallPiece(calls[-1].id, calls[-1].arguments)
                yield Completion("tool-calls", tuple(calls), usage)
            case Breaks(how, said):
                if said:
                    yield TextPiece(prose(said))
                code = "context_overflow" if how == "overflow" else "model_unavailable"
                raise ModelError("it does not work", code=code, transient=how == "transient")


def is_summary(sent: Sequence[bytes]) -> bool:
    """Whether a request is one for a summary."""
    return len(sent) == 2 and b"<conversation>" in sent[1]


@dataclass
class Stage:
    """The tools and the world around them."""

    model: Talker
    world: World = field(init=False)
    session: str = "long"
    more_tools: Sequence[str] = ()

    def open(self, path: Path, **how: Any) -> World:
        names = {"read": False, "fail": False, "nudge": False, "deploy": True} | dict.fromkeys(self.more_tools, False)
        registry = ToolRegistry(
            [self._tool(name) for name in names],
            gate=ToolGate(watchdog=AskFirst(name for name in names if names[name])),
        )
        given: dict[str, Any] = {"window": WINDOW, "catalog": registry, **how}
        self.world = World(path, self.model, **given)
        return self.world

    def _tool(self, name: str) -> Tool:
        async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
            if name == "fail" or arguments.get("name") == "missing":
                raise ToolFailure(f"no such thing: {prose(arguments['words'])}")
            if name == "nudge":
                await self.world.send(prose(arguments["words"], 7) or "hm", session=self.session, on_busy="steer")
            return {"text": prose(arguments["words"])}

        return Tool(ToolSpec(name, f"does {name}", {"type": "object"}), run)

    async def report(self, conversation: LiveSession) -> None:
        """An agent that worked in the background has finished, and what it says stands in the session."""
        session = conversation.id
        at = conversation.next_timestamp(self.world.clock.now_ms()) + 1
        message_id, part_id = f"msg_{at:012x}{next(_REPORTS):014d}", f"prt_{at:012x}{next(_REPORTS):014d}"

        def unit(connection: sqlite3.Connection) -> None:
            rows.upsert_message(connection, MessageRow(message_id, session, "assistant", {"subagent": {}}, at, at))
            data = {"type": "text", "text": f"[report] {prose(20, 3)}", "state": "done"}
            rows.upsert_part(connection, rows.PartRow(part_id, message_id, session, 0, data, at))

        await self.world.database.write(unit)
        conversation.view = None
        conversation.next_timestamp(at + 1)

    async def on_disk(self, conversation: LiveSession) -> View:
        """The view of a session as the next life would read it."""
        of, prompt = conversation, conversation.own_prompt.prompt
        return await self.world.database.read(lambda connection: read_view(connection, of.id, prompt, of.agent))


def set_prompt(session: LiveSession, prompt: str) -> None:
    """Give the session's own agent this prompt."""
    session.prompts[session.agent] = replace(session.own_prompt, prompt=prompt)


def paired(sent: Sequence[bytes]) -> None:
    """What providers insist on: each call is answered directly behind its message, once and in order."""
    wanted: list[str] = []
    for message in map(json.loads, sent):
        if message["role"] == "tool":
            assert wanted, f"an answer that nobody asked for: {message}"
            assert message["tool_call_id"] == wanted.pop(0)
            continue
        assert not wanted, f"calls without an answer: {wanted}"
        wanted = [call["id"] for call in message.get("tool_calls") or ()]
        assert message["content"] or wanted
    assert not wanted


def tokens(message: bytes) -> int:
    """As the model of these tests counts."""
    return len(message) // 4


async def chunks_of(turn: Turn) -> list[Any]:
    """The chunks of the turn, those included that nothing remembers."""
    lines = (await heard(turn)).decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


async def marked(world: World, session: str) -> list[Marker]:
    """The markers of a session, first to last."""
    told = "SELECT data_json FROM chat_parts WHERE type = ? AND session_id = ? ORDER BY created_at, id"
    found = [Marker.from_part(json.loads(row[0])) for row in await world.rows(told, COMPACTION, session)]
    return [marker for marker in found if marker is not None]


async def say(stage: Stage, words: int = 3, *plan: Any, **how: Any) -> Turn:
    """A message of so many words, and what the model does then; the turn that it was."""
    stage.model.plan = deque(plan)
    turn = await stage.world.send(prose(words), session=stage.session, **how)
    await stage.world.ended(turn)
    return turn


async def fill(stage: Stage, turns: int = 4, words: int = 400) -> list[Turn]:
    return [await say(stage, words) for _ in range(turns)]


async def fill_up(stage: Stage) -> Turn:
    """Until one more message of 400 words is too much."""
    while True:
        turn = await say(stage, 60)
        if turn.session.context_tokens > USABLE - 250:
            return turn


def states(chunks: Sequence[Any]) -> list[str]:
    return [chunk["data"]["state"] for chunk in chunks if chunk["type"] == "data-status"]


async def hangs(model: Talker) -> None:
    """Returns when the model was asked for a summary, which does not come."""
    await asyncio.wait_for(model.asked_to_sum_up.wait(), PATIENCE)
