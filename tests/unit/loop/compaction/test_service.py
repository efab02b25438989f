"""When conversations are compacted, how often, and what becomes of a turn that cannot have it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_common.protocol import ModelCard, Usage
from agent_runtime.errors import ModelError
from agent_runtime.loop import TurnLimits
from agent_runtime.ports import Completion, ModelEvent, ModelRequest
from agent_runtime.sessions import COMPACTION
from tests.unit.loop.compaction.long_conversations import (
    USABLE,
    WINDOW,
    Calls,
    Says,
    Stage,
    SummaryKind,
    Talker,
    chunks_of,
    fill,
    is_summary,
    marked,
    paired,
    prose,
    say,
    set_prompt,
    states,
    tokens,
)
from tests.unit.loop.support import PROMPT

# ---------------------------------------------------------------- when


async def test_a_conversation_is_compacted_when_its_window_is_full_and_not_before(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        turns = await fill(stage, 6)
        [marker] = await marked(world, turns[0].session.id)
        sizes = [sum(map(tokens, sent)) for _, sent in model.requests if not is_summary(sent)]
        assert max(sizes) < USABLE * 1.1
        assert max(sizes) > USABLE * 0.7
        assert marker.auto
        assert marker.tail_start_id in {turn.message_id for turn in turns}
        said = [chunks for turn in turns if "data-compaction" in str(chunks := await chunks_of(turn))]
        [chunks] = said
        assert states(chunks) == ["compacting"]
        [shown] = [chunk for chunk in chunks if chunk["type"] == COMPACTION]
        assert shown["transient"] is True
        assert shown["data"] == marker.to_part()["data"]


async def test_the_summary_is_asked_for_by_an_agent_with_no_tools_and_little_to_say(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        [*_, last] = await fill(stage, 6)
        [(request, sent)] = [(request, sent) for request, sent in model.requests if is_summary(sent)]
        assert (request.tools, request.max_tokens, request.temperature) == (None, 375, 0.1)
        prompt, asked = map(json.loads, sent)
        assert prompt["role"] == "system"
        assert "summary" in prompt["content"]
        assert PROMPT not in prompt["content"]
        assert asked["content"].count("<conversation>") == 1
        [row] = await world.rows(
            "SELECT m.metadata_json FROM chat_messages m JOIN chat_parts p ON p.message_id = m.id WHERE p.type = ?",
            COMPACTION,
        )
        kept = json.loads(row[0])
        assert kept["agent"] == "compaction"
        assert kept["model"]["model_id"] == last.model
        assert kept["usage"]["output"] == 5


async def test_one_long_turn_is_compacted_again_and_again_and_never_overflows(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, limits=TurnLimits(steps=40, seconds=60)) as world:
        turn = await say(stage, 3, *[Calls((("read", 500),), text=f"number {at}") for at in range(25)])
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        found = await marked(world, turn.session.id)
        assert 3 <= len(found) <= 13
        assert all(marker.tail_start_id == turn.message_id for marker in found)
        steps = [marker.tail_start_step for marker in found]
        assert steps == sorted(set(steps)), "each goes on behind the one before"
        assert max(sum(map(tokens, sent)) for _, sent in model.requests) < WINDOW
        for _, sent in model.requests:
            paired(sent)


async def test_a_result_larger_than_the_window_is_shown_in_part(tmp_path: Path) -> None:
    """There is nothing before it that could be summed up."""
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        turn = await say(stage, 3, Calls((("read", 5000),)), Says(7))
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        [marker] = await marked(world, turn.session.id)
        assert marker.summary == ""
        assert not model.told, "no model was asked to sum up nothing"
        assert len(marker.shortened) == 1
        _, sent = model.requests[-1]
        assert sum(map(tokens, sent)) < USABLE
        assert b"the runtime has left out" in sent[-1]
        [*_, kept] = turn.end.reply_parts[:-1], (await stage.on_disk(turn.session)).messages
        assert list(kept)[1 : len(sent)] == sent[1:]
        part = next(
            part for part in turn.end.reply_parts if part["type"] == "dynamic-tool" or part["type"].startswith("tool-")
        )
        assert len(part["output"]["data"]["text"]) > 20_000, "the transcript has it all"


async def test_many_large_results_at_once_each_give_up_some(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        await fill(stage, 2, 300)
        turn = await say(stage, 3, Calls(tuple([("read", 1500)] * 4)), Says(7))
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        [marker] = await marked(world, turn.session.id)
        assert marker.summary
        assert len(marker.shortened) >= 2
        assert sum(map(tokens, model.requests[-1][1])) < USABLE


# ---------------------------------------------------------------- not again and again


async def test_what_cannot_be_made_short_is_not_summed_up_at_every_step(tmp_path: Path) -> None:
    """The person's own message fills most of the window, and stays."""
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, limits=TurnLimits(steps=30, seconds=60)) as world:
        await say(stage, 30)
        turn = await say(stage, 1400, *[Calls((("read", 10),)) for _ in range(20)])
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        assert len(model.requests) - len(model.told) == 22
        assert len(await marked(world, turn.session.id)) <= 4


async def test_a_prompt_that_fills_the_window_is_not_compacted_away(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        found = await world.conversations.find_or_create("operator", stage.session)
        set_prompt(found, prose(2600))
        turns = [await say(stage, 20) for _ in range(10)]
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        assert len(model.told) <= 4


@pytest.mark.parametrize("kind", ["broken", "empty", "long"])
async def test_without_a_summary_the_turn_goes_on_and_it_is_tried_again_later(
    tmp_path: Path, kind: SummaryKind
) -> None:
    stage = Stage(model := Talker(summaries=(kind,)))
    async with stage.open(tmp_path, window=WINDOW) as world:
        turns = await fill(stage, 5)
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        tried = len(model.told)
        assert tried
        warned = [turn for turn in turns if "uncompacted" in states(await chunks_of(turn))]
        assert warned
        await say(stage, 1)
        assert len(model.told) == tried, "a word more is no reason to try again"
        await say(stage, 150)
        assert len(model.told) > tried
        tried = len(model.told)
        model.summaries = ("good",)
        await say(stage, 150)
        assert len(model.told) > tried
        [marker] = await marked(world, turns[0].session.id)
        assert marker.summary.startswith("## Facts")


# ---------------------------------------------------------------- what the provider says


async def test_an_overflow_that_nobody_saw_coming_is_got_over(tmp_path: Path) -> None:
    """The provider takes half of what we think, and does not say how much."""
    stage = Stage(model := Small(takes=1500))
    async with stage.open(tmp_path, window=100_000) as world:
        turns = await fill(stage, 12)
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        assert len(await marked(world, turns[0].session.id)) >= 2
        assert model.refused <= 8


async def test_a_window_that_the_provider_tells_is_kept_to(tmp_path: Path) -> None:
    stage = Stage(model := Small(takes=1600, tells=True))
    async with stage.open(tmp_path, window=100_000) as world:
        turns = await fill(stage, 12)
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        assert model.refused <= 2, "one for the turn; the summary knows already"
        assert len(await marked(world, turns[0].session.id)) >= 2


@pytest.mark.parametrize("tells", [True, False])
async def test_the_window_of_a_fallback_is_that_of_its_turn_only(tmp_path: Path, tells: bool) -> None:
    stage = Stage(model := Small(takes=1500, tells=tells, in_place=True))
    async with stage.open(tmp_path, window=100_000) as world:
        turns = await fill(stage, 12)
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        assert model.refused
        assert await marked(world, turns[0].session.id)
        calibration = world.compactions.models.windows.calibrations.for_model(turns[0].model)
        assert (calibration.limit, turns[0].session.compaction_history.refused_tokens) == (None, None)


class Small(Talker):
    """Its window is smaller than the runtime thinks. `in_place`: it is another model, asked in place of the wanted
    one."""

    def __init__(self, takes: int, *, tells: bool = False, reports: bool = True, in_place: bool = False) -> None:
        super().__init__()
        self._takes, self._tells, self._reports, self._in_place = takes, tells, reports, in_place
        self.refused = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        size = sum(map(tokens, request.messages))
        if size > self._takes:
            self.refused += 1
            told = f"maximum context length is {self._takes} tokens. However, your messages resulted in {size} tokens"
            error = ModelError(told if self._tells else "the prompt is too long", code="context_overflow")
            error.by_fallback = self._in_place
            raise error
        async for event in super().stream(request):
            guess = isinstance(event, Completion) and not self._reports
            yield replace(event, usage=Usage(input=9 * size), usage_reported=False) if guess else event


async def test_a_guess_at_the_usage_teaches_nothing(tmp_path: Path) -> None:
    stage = Stage(Small(takes=10**6, reports=False))
    async with stage.open(tmp_path) as world:
        turn = await say(stage, 400)
        assert turn.session.context_tokens > 3000
        assert world.compactions.models.windows.calibrations.for_model(turn.model).factor == 1.0


async def test_a_message_larger_than_the_window_is_an_error_and_the_session_goes_on(tmp_path: Path) -> None:
    stage = Stage(model := Small(takes=WINDOW, tells=True))
    async with stage.open(tmp_path) as world:
        await say(stage, 20)
        turn = await say(stage, 6000)
        assert turn.end.outcome is not None
        assert (turn.end.outcome.status, turn.end.outcome.error_code) == ("failed", "context_overflow")
        after = await say(stage, 20)
        assert after.end.outcome is not None
        assert after.end.outcome.status == "complete"
        assert await marked(world, turn.session.id)
        sent = model.requests[-1][1]
        assert sum(map(tokens, sent)) < USABLE


async def test_without_a_summary_results_give_way_when_the_provider_refuses(tmp_path: Path) -> None:
    """That needs no model. The summary comes as soon as one is to be had."""
    stage = Stage(model := Small(takes=WINDOW))
    model.summaries = ("broken",)
    async with stage.open(tmp_path) as world:
        await say(stage, 200)
        turn = await say(stage, 3, Calls((("read", 5000),)), Says(7))
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        assert model.told, "it was asked for first"
        [marker] = await marked(world, turn.session.id)
        assert (marker.summary, len(marker.shortened)) == ("", 1)
        assert b"alpha" in model.requests[-1][1][1], "nothing was left out"
        chunks = await chunks_of(turn)
        assert states(chunks)[-2:] == ["compacting", "uncompacted"]
        assert any(chunk["type"] == COMPACTION for chunk in chunks)
        disk = await stage.on_disk(turn.session)
        sent = model.requests[-1][1]
        assert list(disk.messages)[1 : len(sent)] == sent[1:]
        model.summaries = ("good",)
        await fill(stage, 4)
        assert (await marked(world, turn.session.id))[-1].summary.startswith("## Facts")


async def test_a_summary_is_asked_for_that_is_shorter_than_what_it_sums_up(tmp_path: Path) -> None:
    """Little was said when a large result came."""
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, window=20_000) as world:
        await say(stage, 300)
        turn = await say(stage, 3, Calls((("read", 15_000),)), Says(7))
        [marker] = await marked(world, turn.session.id)
        assert marker.summary
        [(request, _)] = [(request, sent) for request, sent in model.requests if is_summary(sent)]
        assert request.max_tokens is not None
        assert 256 <= request.max_tokens < 1200, "half of the reserve would be more than was said"


class Slandered(Talker):
    """Refuses one request with an error that quotes what somebody has written."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if b"quote me" in request.messages[-1] and not any(b"quote me" in sent[-1] for _, sent in self.requests):
            self.requests.append((request, list(request.messages)))
            raise ModelError("bad schema: 'maximum context length is 1100 tokens'", code="context_overflow")
        async for event in super().stream(request):
            yield event


async def test_a_window_that_was_told_wrongly_is_not_believed_for_long(tmp_path: Path) -> None:
    stage = Stage(model := Slandered())
    async with stage.open(tmp_path, window=100_000) as world:
        await fill(stage, 4)
        turn = await world.send("quote me", session=stage.session)
        await world.ended(turn)
        meter = world.compactions.models.windows.calibrations.for_model(turn.model)
        assert meter.limit == 1100
        after = await say(stage, 900)
        assert after.end.outcome is not None
        assert after.end.outcome.status == "complete"
        assert meter.limit is None, "it has taken more than that"
        told = len(model.told)
        await fill(stage, 6)
        assert len(model.told) == told


async def test_another_model_has_another_window(tmp_path: Path) -> None:
    """The threshold is that of the model that answers next."""
    cards = (ModelCard(id="m", context_limit=100_000), ModelCard(id="narrow", context_limit=WINDOW))
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, cards=cards) as world:
        await fill(stage, 8)
        assert not model.told
        turn = await say(stage, 5, model="narrow")
        assert len(await marked(world, turn.session.id)) == 1
        assert model.requests[-1][0].model == "narrow"
        assert sum(map(tokens, model.requests[-1][1])) < USABLE
        await fill(stage, 4)
        await say(stage, 5, model="m")
        await fill(stage, 8)
        assert len(await marked(world, turn.session.id)) <= 2
