"""Test doubles around the loop: a model that plays scripts, and tools that do what they are told."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.protocol import CompactionPolicy, ModelCard, Pricing, TaskAssignment, Usage, chunks
from agent_common.protocol.authority import Authority
from agent_runtime.agents import AgentDirectory, ProjectRules
from agent_runtime.context import ContextWindow, View, digest
from agent_runtime.learnings import NoLearnings
from agent_runtime.loop import MIGRATIONS as LOOP_MIGRATIONS
from agent_runtime.loop import (
    Admission,
    AgentRules,
    AuthorityResolver,
    ChatService,
    CompactionService,
    Counters,
    EventBus,
    HumanAnswers,
    IncomingMessage,
    LiveSession,
    LiveSessions,
    LoopServices,
    ModelWindows,
    PriceCheck,
    Recovery,
    SessionService,
    SummarizerModels,
    TaskService,
    Turn,
    TurnFinalizer,
    TurnLimits,
    TurnRunner,
    UsageBudget,
)
from agent_runtime.loop.core.turn_state import TurnEnd, TurnRequest
from agent_runtime.loop.turn.deps import TurnDeps
from agent_runtime.loop.turn.turn import run_turn
from agent_runtime.loop.turn.turn_tools import TurnTools
from agent_runtime.ports import (
    CallPiece,
    CallStarted,
    Completion,
    Learnings,
    Model,
    ModelEvent,
    ModelRequest,
    NoteProvider,
    OpenGate,
    SideEffectGate,
    TextPiece,
    ToolCall,
    ToolCatalog,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from agent_runtime.sessions import MIGRATIONS as SESSION_MIGRATIONS
from agent_runtime.sessions import AgentPrompt, Ids
from agent_runtime.store import Database
from agent_runtime.workspace import Home
from agent_testing import ManualClock

PATIENCE = 60.0
"""Seconds after which a test that waits has failed."""
PROMPT = "You are a test."

Play = Sequence[ModelEvent | BaseException | Awaitable[object]]
"""One model call: events come out, errors are raised, awaitables are waited for."""


def say(*pieces: str, usage: Usage | None = None, stop: Any = "stop") -> list[Any]:
    """A model call that answers."""
    return [*map(TextPiece, pieces), Completion(stop, usage=usage or Usage(input=10, output=len(pieces)))]


def call(
    *calls: tuple[str, str, str], text: str = "", usage: Usage | None = None, stop: Any = "tool-calls"
) -> list[Any]:
    """A model call that asks for tools: triples of id, name and arguments."""
    events: list[Any] = [TextPiece(text)] if text else []
    for call_id, name, arguments in calls:
        events += [CallStarted(call_id, name), CallPiece(call_id, arguments)]
    done = tuple(ToolCall(*one) for one in calls)
    return [*events, Completion(stop, done, usage or Usage(input=10, output=5))]


class FakeModel:
    """Plays one script per call; behind the last one it says `done`."""

    def __init__(self, plays: Iterable[Play] = ()) -> None:
        self.plays: list[Play] = list(plays)
        self.requests: list[tuple[ModelRequest, list[bytes]]] = []
        self.asked = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append((request, list(request.messages)))
        self.asked.set()
        for event in self.plays.pop(0) if self.plays else say("done"):
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, Awaitable):
                await event
            else:
                yield event


def spec(name: str, **more: Any) -> ToolSpec:
    return ToolSpec(name, f"does {name}", {"type": "object"}, **more)


Tool = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]


async def echo(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult("output", dict(arguments), metadata={"duration_ms": 3})


@dataclass
class FakeTools:
    """Fills ports.Toolset and ports.ToolCatalog."""

    tools: dict[str, Tool] = field(default_factory=lambda: {"echo": echo})
    ran: list[str] = field(default_factory=list[str])
    most_at_once: int = 0
    _now: int = 0

    @property
    def specs(self) -> Sequence[ToolSpec]:
        return [spec(name) for name in self.tools]

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.ran.append(context.call_id)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            tool = self.tools.get(name)
            return await tool(arguments, context) if tool else ToolResult("error", error_text=f"no tool {name}")
        finally:
            self._now -= 1

    async def withdraw(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> None:
        return

    async def prepare(self) -> None:
        return

    async def ready(self, authority: Authority) -> None:
        return

    def with_tools(self, names: Sequence[str], authority: Authority | None = None) -> FakeTools:
        return self

    def spec(self, name: str) -> ToolSpec | None:
        return spec(name) if name in self.tools else None

    def snapshot(self, order: Sequence[str] = (), authority: Authority | None = None) -> FakeTools:
        return self

    def all_specs(self) -> Sequence[ToolSpec]:
        return self.specs

    def contracts(self) -> Mapping[str, Any]:
        return {}

    def skills(self) -> Sequence[Any]:
        return ()


def conversation(session_id: str = "ses_1", principal: str = "operator") -> LiveSession:
    prompts = {"default": AgentPrompt(PROMPT, digest(PROMPT), ("echo",))}
    return LiveSession(session_id, principal, "default", "m", prompts)


def new_turn(**fields: Any) -> Turn:
    """A turn with these fields, of itself, its request or its end."""
    given: dict[str, Any] = {
        "session": conversation(),
        "message_id": "msg_user",
        "reply_id": "msg_reply",
        "parts": [{"type": "text", "text": "hello"}],
        "budget": UsageBudget(TurnLimits(steps=10, seconds=60)),
        "model": "m",
        "session_name": "ses_1",
        "message_name": "msg_user",
        "state": "running",
    }
    given |= fields
    request, end = ({one.name: given.pop(one.name) for one in asked if one.name in given} for asked in _PARTS)
    return Turn(TurnRequest(**request), end=TurnEnd(**end), **given)


_PARTS = dataclasses.fields(TurnRequest), dataclasses.fields(TurnEnd)


MAX_STREAM_BYTES = 32 * 1024 * 1024


class StreamsOfOneTurn:
    """Fills StreamLimit."""

    def stream_fits(self, turn: Turn) -> bool:
        return turn.stream.size <= MAX_STREAM_BYTES


@dataclass(frozen=True)
class BareServices:
    """Fills TurnServices."""

    model: Model
    parallel_tools: int = 2
    learnings: Learnings = field(default_factory=NoLearnings)
    price_check: PriceCheck | None = None
    admission: StreamsOfOneTurn = field(default_factory=StreamsOfOneTurn)


@dataclass
class Played:
    """A turn that was run without admission, and its chunks."""

    turn: Turn
    chunks: list[chunks.Chunk]
    view: View

    @property
    def kinds(self) -> list[str]:
        return [getattr(chunk, "type", "?") for chunk in self.chunks]


async def play(
    model: FakeModel, tools: FakeTools | None = None, turn: Turn | None = None, gate: SideEffectGate | None = None
) -> Played:
    """Runs the bare loop to its end."""
    turn = turn or new_turn()
    view = View(PROMPT)
    view.add_user(turn.request.parts)
    context = ToolContext("ses_1", "", Path(), Path())
    kit = TurnDeps(
        services=BareServices(model),
        tools=TurnTools((tools or FakeTools()).snapshot(), (), Authority),
        view=view,
        tool_context=context,
        side_effect_gate=gate or OpenGate(),
    )
    said: list[chunks.Chunk] = []

    async def run() -> None:
        async for chunk in run_turn(turn, kit):
            said.append(chunk)  # noqa: PERF401  what was said before an error counts

    turn.run_task = asyncio.create_task(run())
    alarm = asyncio.get_running_loop().call_later(turn.budget.limits.seconds, turn.stop, "deadline")
    async with asyncio.timeout(PATIENCE):
        await turn.run_task
    alarm.cancel()
    return Played(turn, said, view)


class Cards:
    """Fills ports.ModelCards."""

    reachable: bool | None = True

    def __init__(self, cards: Sequence[ModelCard]) -> None:
        self._cards = {card.id: card for card in cards}

    async def card(self, name: str, age: float = 60.0) -> ModelCard | None:
        return self._cards.get(name)

    def price(self, name: str) -> Pricing | None:
        card = self._cards.get(name)
        return card.pricing if card is not None else None


OPEN_AGENT = """---
description: may do all there is
mode: all
permissions: {"*": allow}
---
"""


class World:
    """The services of the loop, on a real database. `async with World(path) as world:`"""

    def __init__(
        self,
        path: Path,
        model: FakeModel | None = None,
        *,
        tools: FakeTools | None = None,
        slots: int = 4,
        queue: int = 100,
        limits: TurnLimits | None = None,
        clock: ManualClock | None = None,
        catalog: ToolCatalog | None = None,
        answer_seconds: float = 600,
        learnings: Learnings | None = None,
        note_takers: Sequence[NoteProvider] = (),
        window: int = 128_000,
        policy: CompactionPolicy | None = None,
        cards: Sequence[ModelCard] = (),
    ) -> None:
        self.model, self.tools = model or FakeModel(), tools or FakeTools()
        self.clock = clock or ManualClock()
        self.counters = Counters()
        self.limits = limits or TurnLimits(steps=10, seconds=60)
        self.home = Home(path)
        self.home.prepare()
        self.database = Database(self.home.database, (*SESSION_MIGRATIONS, *LOOP_MIGRATIONS))
        ids = Ids(self.clock)
        self.events = EventBus(self.clock)
        self.home.agents.mkdir(exist_ok=True)
        for name in ("default", "other"):
            (self.home.agents / f"{name}.md").write_text(OPEN_AGENT)
        agents = AgentDirectory(self.home.agents)
        self.powers = AuthorityResolver(agents, ProjectRules())
        catalog = catalog or self.tools
        limits_of = {card.id: card.context_limit or window for card in cards}
        brief = AgentPrompt(PROMPT, digest(PROMPT), ("echo",))
        self.conversations = LiveSessions(self.database, ids, agents, "m", lambda *_: brief)
        self.admission = Admission(
            self.database, self.events, slots=slots, queue_limit=queue, answer_seconds=answer_seconds
        )
        self.hallway = LoopServices(
            database=self.database,
            clock=self.clock,
            ids=ids,
            home=self.home,
            events=self.events,
            counters=self.counters,
            model=self.model,
            tool_catalog=catalog,
            authority_resolver=self.powers,
            live_sessions=self.conversations,
            agent_rules=AgentRules(self.database, "agent"),
            admission=self.admission,
            learnings=learnings or NoLearnings(),
            price_check=PriceCheck(Cards(cards)),
        )
        windows = ModelWindows(
            lambda name: ContextWindow.from_limit(limits_of.get(name, window), None),
            {card.id: card for card in cards},
        )
        models = SummarizerModels(agents, windows)
        self.compactions = CompactionService(self.hallway, models, policy or CompactionPolicy())
        finalizer = TurnFinalizer(self.database, self.clock)
        runner = TurnRunner(self.hallway, finalizer, self.compactions, note_providers=note_takers)
        self.admission.start(runner.run, finalizer.finalize_cancelled)
        self.chats = ChatService(self.hallway, lambda: self.limits)
        self.answers = HumanAnswers(self.hallway)
        self.tasks = TaskService(self.hallway, self.task_limits)

    def sessions(self) -> SessionService:
        """The sessions as a resource."""
        return SessionService(self.hallway, self.compactions)

    def task_limits(self, assignment: TaskAssignment) -> TurnLimits:
        return TurnLimits(self.limits.steps, assignment.timeout, retries=assignment.max_retries)

    async def __aenter__(self) -> World:
        self.database.open()
        await self.hallway.agent_rules.load()
        await Recovery(self.hallway, self.tasks, self.limits).run()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self.admission.drain(0)
        finally:
            self.database.close()

    async def send(self, text: str = "hello", **more: Any) -> Turn:
        sent = await self.chats.send(incoming(text, **more))
        assert isinstance(sent, Turn)
        return sent

    async def ended(self, *turns: Turn) -> None:
        async with asyncio.timeout(PATIENCE):
            for turn in turns:
                await turn.ended.wait()

    async def rows(self, sql: str, *values: object) -> list[Any]:
        return await self.database.read(lambda connection: connection.execute(sql, values).fetchall())


def incoming(text: str = "hello", **more: Any) -> IncomingMessage:
    given: dict[str, Any] = {"principal": "operator", "parts": [{"type": "text", "text": text}]}
    return IncomingMessage(**{**given, **more})


def assignment(**more: Any) -> TaskAssignment:
    given: dict[str, Any] = {
        "workflow_id": "w",
        "step_id": "s",
        "task_type": "t",
        "input_data": {"n": 1},
        "task_id": "task-1",
    }
    return TaskAssignment.model_validate({**given, **more})


async def settled(world: World, turn: Turn) -> str:
    """State of a turn in the ledger."""
    found = await world.rows("SELECT state FROM turns WHERE message_id = ?", turn.message_id)
    return found[0][0]


async def until(condition: Callable[[], bool]) -> None:
    """Lets everybody else go on until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)
