"""Who sums up, what that costs, and who pays."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import CompactionPolicy, ModelCard, Pricing, TaskAssignment
from agent_runtime.errors import ModelError
from agent_runtime.loop import TurnLimits
from agent_runtime.ports import ModelEvent, ModelRequest
from agent_runtime.sessions import markers
from tests.unit.loop.compaction.long_conversations import WINDOW, Calls, Stage, Talker, fill, is_summary, marked
from tests.unit.loop.support import PATIENCE, World, assignment

# ---------------------------------------------------------------- what it costs


def within(most: int) -> TurnLimits:
    return TurnLimits(steps=30, seconds=60, tokens=most)


class Tasked(World):
    """Tasks have a budget here."""

    def task_limits(self, assignment: TaskAssignment) -> TurnLimits:
        budget = assignment.token_budget
        return TurnLimits(30, assignment.timeout, tokens=budget.max_tokens if budget else None)


async def test_what_a_summary_costs_counts_against_the_budget(tmp_path: Path) -> None:
    plan = [Calls((("read", 500),)) for _ in range(8)]
    spent: dict[bool, int] = {}
    for compacted in (True, False):
        model = Talker(plan=deque(plan))
        stage = Stage(model)
        async with stage.open(tmp_path / str(compacted), window=WINDOW if compacted else 100_000) as world:
            turn = await world.send("go")
            await world.ended(turn)
            sums = await world.rows("SELECT total_tokens FROM chat_sessions")
            session_id = turn.session.id
            summaries = await world.database.read(partial(markers.summary_usage, session_id=session_id))
            assert turn.budget.tokens == sums[0][0] == turn.budget.usage.total + summaries.total
            assert bool(summaries.total) is compacted
            spent[compacted] = turn.budget.tokens


async def test_a_budget_that_the_summary_uses_up_ends_the_turn(tmp_path: Path) -> None:
    model = Talker(plan=deque(Calls((("read", 500),)) for _ in range(20)))
    stage = Stage(model)
    async with stage.open(tmp_path, limits=TurnLimits(steps=30, seconds=60)) as world:
        first = await world.send("go")
        await world.ended(first)
        upto = next(at for at, (_, sent) in enumerate(model.requests) if is_summary(sent))
        usages = [sum(map(len, sent)) // 4 + 5 for _, sent in model.requests[: upto + 1]]
    model = Talker(plan=deque(Calls((("read", 500),)) for _ in range(20)))
    stage = Stage(model)
    async with stage.open(tmp_path / "again", limits=TurnLimits(steps=30, seconds=60, tokens=sum(usages) - 1)) as world:
        turn = await world.send("go")
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.error_code == "budget_exhausted"
        assert is_summary(model.requests[-1][1]), "nothing more was asked behind the summary"


async def test_the_next_life_knows_what_summaries_have_cost(tmp_path: Path) -> None:
    model = Talker(plan=deque(Calls((("read", 500),)) for _ in range(8)))
    stage = Stage(model)
    asked = asyncio.Event()

    async def hang(sent: list[bytes]) -> None:
        if len(model.requests) > 9:
            asked.set()
            await asyncio.Event().wait()

    model.look = hang
    async with stage.open(tmp_path) as world:
        given = await world.tasks.assign(assignment(timeout=1000), "operator")
        assert given.turn is not None
        await asyncio.wait_for(asked.wait(), PATIENCE)
        before = given.turn.budget.tokens
        assert given.turn.budget.helper_tokens > 0
    model.look, model.plan = None, deque()
    async with stage.open(tmp_path, clock=world.clock) as world:
        turn = next(iter(world.admission.queues.turns("running")), None) or next(
            iter(world.admission.queues.turns("queued"))
        )
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        assert turn.budget.tokens - before == tokens_of_last(model)


def tokens_of_last(model: Talker) -> int:
    return sum(map(len, model.requests[-1][1])) // 4 + 5


# ---------------------------------------------------------------- who sums up


CARDS = (
    ModelCard(id="m", context_limit=WINDOW, pricing=Pricing(input=10, output=10)),
    ModelCard(id="cheap", context_limit=100_000, pricing=Pricing(input=1, output=1)),
    ModelCard(id="vectors", context_limit=100_000, pricing=Pricing(input=0, output=0), capabilities=["embeddings"]),
    ModelCard(id="free", pricing=Pricing(input=0, output=0)),
    ModelCard(id="unpriced", context_limit=100_000),
)


async def test_the_cheapest_model_that_talks_and_fits_sums_up(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, cards=CARDS) as world:
        turns = await fill(stage, 6)
        assert {request.model for request, sent in model.requests if is_summary(sent)} == {"cheap"}
        assert {request.model for request, sent in model.requests if not is_summary(sent)} == {"m"}
        assert len(await marked(world, turns[0].session.id)) == 1


class Picky(Talker):
    """Knows neither that model nor temperatures."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.model == "cheap" or request.temperature is not None:
            self.requests.append((request, list(request.messages)))
            raise ModelError("no such model, no such parameter", code="model_config")
        async for event in super().stream(request):
            yield event


async def test_the_sessions_own_model_sums_up_where_the_cheap_one_cannot(tmp_path: Path) -> None:
    stage = Stage(model := Picky())
    async with stage.open(tmp_path, cards=CARDS) as world:
        turns = await fill(stage, 6)
        asked = [(request.model, request.temperature) for request, sent in model.requests if is_summary(sent)]
        assert asked == [("cheap", 0.1), ("m", None)]
        assert len(await marked(world, turns[0].session.id)) == 1


async def test_without_an_agent_that_sums_up_turns_go_on(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, policy=CompactionPolicy(tail_turns=1)) as world:
        nobody: Any = Nobody()
        world.compactions.models = replace(world.compactions.models, agents=nobody)
        turns = await fill(stage, 6)
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        assert not model.told
        with pytest.raises(ModelError, match="no agent compaction"):
            await world.sessions().compact("operator", stage.session)


class Nobody:
    def get(self, name: str) -> None:
        return None
