"""Whatever model, tools, limits and callers do: the stream of a turn is well-formed, and its record is the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import Usage, chunks
from agent_runtime.context import View
from agent_runtime.errors import ModelError
from agent_runtime.loop import Turn, TurnLimits, UsageBudget
from agent_runtime.ports import (
    CallPiece,
    CallStarted,
    Completion,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolCall,
    ToolContext,
    ToolResult,
)
from agent_runtime.sessions import history
from tests.unit.loop.support import PATIENCE, PROMPT, FakeModel, FakeTools, Play, World, new_turn, play

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.sampled_from(["echo", "fail", "stop", "hang", "unknown"])
ARGUMENTS = st.sampled_from(['{"a": 1}', "{}", "", "{", "[]", '{"x": {"y": [1.5, null, "é"]}}', '{"a": 1}'])
USAGES = st.builds(Usage, input=st.integers(0, 50), output=st.integers(0, 50), cost_usd=st.sampled_from([None, 0.25]))


@dataclass(frozen=True)
class Step:
    """One model call of a random script."""

    events: list[Any]
    calls: list[tuple[str, str, str]]
    end: str
    usage: Usage
    stop: Any


PIECES = st.one_of(
    st.builds(TextPiece, TEXTS), st.builds(ReasoningPiece, TEXTS), st.builds(Retrying, st.just(1), TEXTS, st.just(0.0))
)
STEPS = st.builds(
    Step,
    events=st.lists(PIECES, max_size=5),
    calls=st.lists(st.tuples(st.sampled_from(["c1", "text-1", "reasoning-1", "text-2"]), NAMES, ARGUMENTS), max_size=3,
                   unique_by=lambda one: one[0]),
    end=st.sampled_from(["whole"] * 6 + ["drop", "refuse", "hang", "cancel"]),
    usage=USAGES,
    stop=st.sampled_from(["stop", "length", "tool-calls", "other"]),
)  # fmt: skip
LIMITS = st.builds(
    TurnLimits,
    steps=st.integers(1, 4),
    seconds=st.just(0.02),
    tokens=st.none() | st.integers(1, 200),
    cost_usd=st.none() | st.just(0.6),
    retries=st.just(0),
)


class Stops:
    """Lets a script stop the turn it is part of."""

    def __init__(self, turn: Callable[[], Turn]) -> None:
        self._turn = turn

    async def now(self) -> None:
        self._turn().stop("cancelled")
        await asyncio.Event().wait()


def plays(steps: list[Step], stops: Stops) -> list[Play]:
    return [[*_events(step), *_end(step, stops)] for step in steps]


def _events(step: Step) -> list[Any]:
    pieces = list(step.events)
    for call_id, name, arguments in step.calls:
        pieces += [CallStarted(call_id, name), *(CallPiece(call_id, piece) for piece in arguments)]
    return pieces


def _end(step: Step, stops: Stops) -> list[Any]:
    match step.end:
        case "drop":
            return [ModelError("dropped", transient=True)]
        case "refuse":
            return [ModelError("refused", code="model_config")]
        case "hang":
            return [asyncio.Event().wait()]
        case "cancel":
            return [stops.now()]
        case _:
            return [Completion(step.stop, tuple(ToolCall(*call) for call in step.calls), step.usage)]


def tools(stops: Stops) -> FakeTools:
    async def echo(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult("output", dict(arguments), metadata={"duration_ms": 1})

    async def fail(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        await asyncio.sleep(0)
        return ToolResult("error", error_text="", metadata={"duration_ms": 2, "kind": "backend"})

    async def stop(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        await stops.now()
        raise AssertionError

    async def hang(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    return FakeTools({"echo": echo, "fail": fail, "stop": stop, "hang": hang})


def close_unused(scripts: list[Play]) -> None:
    for script in scripts:
        for event in script:
            if asyncio.iscoroutine(event):
                event.close()


def check(said: list[dict[str, Any]]) -> None:
    """Check the rules of docs/protocols/chat.md: a delta inside its start and end, every call answered, one end."""
    kinds = [chunk["type"] for chunk in said]
    assert kinds[0] == "start"
    assert kinds[-1] in ("finish", "abort")
    assert sum(kind in ("finish", "abort") for kind in kinds) == 1
    texts: set[str] = set()
    waiting: set[str] = set()
    inputs: set[str] = set()
    answered: set[str] = set()
    step = False
    for chunk in said:
        match chunk["type"]:
            case "start-step":
                assert not step
                step = True
            case "finish-step":
                assert step
                assert not texts
                step = False
            case "text-start" | "reasoning-start":
                assert step
                assert chunk["id"] not in texts
                texts.add(chunk["id"])
            case "text-delta" | "reasoning-delta":
                assert chunk["id"] in texts
            case "text-end" | "reasoning-end":
                texts.remove(chunk["id"])
            case "tool-input-start":
                assert chunk["toolCallId"] not in inputs
                inputs.add(chunk["toolCallId"])
                waiting.add(chunk["toolCallId"])
            case "tool-input-delta" | "tool-input-available":
                assert chunk["toolCallId"] in waiting
            case "tool-input-error" | "tool-output-available" | "tool-output-error":
                waiting.remove(chunk["toolCallId"])
                answered.add(chunk["toolCallId"])
            case _:
                pass
    assert not step
    assert not texts
    assert not waiting
    assert inputs == answered


def wire(said: list[chunks.Chunk]) -> list[dict[str, Any]]:
    """The chunks as a client gets them, each read back by the union of all chunks."""
    payloads = [chunk.to_sse().removeprefix(b"data: ").strip() for chunk in said]
    for payload, chunk in zip(payloads, said, strict=True):
        assert type(chunks.chunk_adapter().validate_json(payload)) is type(chunk)
    return [json.loads(payload) for payload in payloads]


@given(st.lists(STEPS, min_size=1, max_size=4), LIMITS)
def test_every_stream_is_well_formed(steps: list[Step], limits: TurnLimits) -> None:
    async def run() -> None:
        turn = new_turn(budget=UsageBudget(limits))
        stops = Stops(lambda: turn)
        model = FakeModel(plays(steps, stops))
        played = await play(model, tools(stops), turn)
        close_unused(model.plays)
        check(wire(played.chunks))
        assert turn.end.outcome is not None

    asyncio.run(run())


@given(st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=1, max_size=3), LIMITS)
def test_the_view_read_back_is_the_one_that_grew(turns: list[list[Step]], limits: TurnLimits) -> None:
    """Turn after turn in one session: the prompt's prefix must survive a restart byte for byte."""

    async def run(path: str) -> None:
        stops = Stops(lambda: world.admission.queues.turns("running")[0])
        model = FakeModel()
        async with World(Path(path), model, tools=tools(stops), limits=limits) as world:
            for steps in turns:
                model.plays = plays(steps, stops)
                turn = await world.send("question")
                async with asyncio.timeout(PATIENCE):
                    await turn.ended.wait()
                close_unused(model.plays)
                session = turn.session
                stored = await world.database.read(lambda db, name=session.id: list(history.messages(db, name)))
                read_back = View.from_history(PROMPT, stored)
                if session.view is not None:
                    assert b"\n".join(session.view.messages) == b"\n".join(read_back.messages)
                reply = next(message for message in stored if message.id == turn.request.reply_id)
                assert reply.parts == turn.end.reply_parts
                assert turn.end.outcome is not None
                assert reply.metadata["outcome"] == turn.end.outcome.json()
                sums = await world.rows("SELECT total_tokens, cost_usd FROM chat_sessions WHERE id = ?", session.id)
                spent = [Usage.model_validate(one.metadata["usage"]) for one in stored if one.role == "assistant"]
                assert sums[0]["total_tokens"] == sum(usage.total for usage in spent)

    with TemporaryDirectory() as path:
        asyncio.run(run(path))
