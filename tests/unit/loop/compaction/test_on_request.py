"""Compactions that somebody asks for, and summaries that are waited for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agent_runtime.errors import Conflict
from agent_runtime.loop import TurnLimits
from tests.unit.loop.compaction.long_conversations import (
    Stage,
    Talker,
    chunks_of,
    fill,
    fill_up,
    hangs,
    marked,
    prose,
    say,
)
from tests.unit.loop.restarts import Jumps
from tests.unit.loop.support import PATIENCE, until

# ---------------------------------------------------------------- by hand


async def test_by_hand_all_is_summed_up(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        turns = await fill(stage, 2, 100)
        reply = await world.sessions().compact("operator", stage.session)
        assert reply.summary == "## Facts\nsummary 1"
        assert reply.tokens_before > reply.tokens_after
        [marker] = await marked(world, turns[0].session.id)
        assert (marker.auto, marker.tail_start_id) == (False, None)
        with pytest.raises(Conflict, match="nothing was said"):
            await world.sessions().compact("operator", stage.session)
        await say(stage, 5)
        roles = [json.loads(message)["role"] for message in model.requests[-1][1]]
        assert roles == ["system", "user", "user"]
        again = await world.sessions().compact("operator", stage.session)
        assert "summary 1" in model.told[-1], "the earlier summary is folded in"
        assert again.message_id != reply.message_id


async def test_what_is_sent_meanwhile_is_answered_behind_it_and_never_lost(tmp_path: Path) -> None:
    """The clock stands still, so all rows are of one moment."""
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        [*_, last] = await fill(stage, 2, 100)
        model.hold()
        compacting = asyncio.create_task(world.sessions().compact("operator", stage.session))
        await hangs(model)
        with pytest.raises(Conflict, match="busy"):
            await world.sessions().compact("operator", stage.session)
        turn = await world.send("sent meanwhile", session=stage.session)
        assert turn.state == "queued"
        model.may_sum_up.set()
        await compacting
        await world.ended(turn)
        sent = model.requests[-1][1]
        assert b"sent meanwhile" in sent[-1]
        assert len(sent) == 3
        disk = await stage.on_disk(last.session)
        assert list(disk.messages)[1:3] == sent[1:]
    async with stage.open(tmp_path, clock=world.clock):
        await say(stage, 3)
        assert model.requests[-1][1][: len(sent)] == sent


async def test_a_report_that_comes_meanwhile_is_shown_behind_it(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        [*_, last] = await fill(stage, 2, 100)
        model.hold()
        compacting = asyncio.create_task(world.sessions().compact("operator", stage.session))
        await hangs(model)
        await stage.report(last.session)
        model.may_sum_up.set()
        await compacting
        await say(stage, 3)
        texts = [str(json.loads(message)["content"]) for message in model.requests[-1][1]]
        assert ["[report]" in text for text in texts] == [False, False, True, False]
        assert "[report]" not in model.told[0]


async def test_whoever_hangs_up_takes_nothing_back(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        [*_, last] = await fill(stage, 2, 100)
        model.hold()
        compacting = asyncio.create_task(world.sessions().compact("operator", stage.session))
        await hangs(model)
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        assert not await marked(world, last.session.id)
        turn = await say(stage, 3)
        assert turn.end.outcome is not None
        assert len(model.requests[-1][1]) == 6


# ---------------------------------------------------------------- deadlines and aborts


async def test_a_turn_that_is_stopped_while_it_waits_for_a_summary_ends(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        await fill_up(stage)
        model.hold()
        turn = await world.send(prose(400), session=stage.session)
        await hangs(model)
        await world.admission.stop(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "cancelled"
        assert not await marked(world, turn.session.id)
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("turn ")])


def test_a_summary_that_never_comes_is_given_up(tmp_path: Path) -> None:
    async def tell() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Jumps)
        stage = Stage(model := Talker())
        async with stage.open(tmp_path, limits=TurnLimits(steps=10, seconds=6000)) as world:
            await fill_up(stage)
            model.hold()
            turn = await world.send(prose(400), session=stage.session)
            await hangs(model)
            loop.ahead += 121
            async with asyncio.timeout(PATIENCE + 121):
                await turn.ended.wait()
            assert turn.end.outcome is not None
            assert turn.end.outcome.status == "complete"
            chunks = await chunks_of(turn)
            [why] = [chunk["data"] for chunk in chunks if chunk["data" if "data" in chunk else "type"] and
                     chunk["type"] == "data-status" and chunk["data"]["state"] == "uncompacted"]  # fmt: skip
            assert "120 s passed" in why["message"]

    with asyncio.Runner(loop_factory=Jumps) as runner:
        runner.run(tell())
