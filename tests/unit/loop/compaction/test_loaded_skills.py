"""What a compaction takes away of the skill packages that a conversation has loaded, and how the model is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agent_runtime.context.provider_messages import SKILLS_NOTICE
from agent_runtime.loop import TurnLimits
from tests.unit.loop.compaction.long_conversations import (
    Calls,
    Says,
    Stage,
    Talker,
    fill,
    marked,
    say,
)

LIMITS = TurnLimits(steps=40, seconds=60)


def load(*packages: str, words: int = 30) -> list[Calls]:
    return [Calls((("skill", words),), package=package) for package in packages]


def told(sent: Sequence[bytes]) -> str:
    """What the model is told of packages at the begin of a conversation."""
    first = json.loads(sent[1])["content"]
    return first.partition(SKILLS_NOTICE.partition("{")[0])[2].partition(".")[0]


async def test_the_packages_of_the_summarized_part_are_named_until_they_are_loaded_again(tmp_path: Path) -> None:
    stage = Stage(model := Talker(), more_tools=["skill"])
    async with stage.open(tmp_path) as world:
        turn = await say(stage, 3, *load("release", "pdf", "release", "missing"), Says(5))
        await fill(stage, 5)
        first, *_ = await marked(world, turn.session.id)
        assert first.skills == ("pdf", "release"), "each once, the newest last, and none that could not be loaded"
        assert told(model.requests[-1][1]) == "pdf, release"
        assert list((await stage.on_disk(turn.session)).messages)[1] == model.requests[-1][1][1]
        await fill(stage, 6)
        *_, second = await marked(world, turn.session.id)
        assert second != first
        assert second.skills == ("pdf", "release"), "a second compaction knows what the first one took"


async def test_a_package_that_stays_in_the_rest_is_not_named(tmp_path: Path) -> None:
    stage = Stage(model := Talker(), more_tools=["skill"])
    async with stage.open(tmp_path, limits=LIMITS) as world:
        await say(stage, 3, *load("release", "pdf"), Says(5))
        turn = await say(stage, 3, Calls((("read", 900),)), Says(5))
        while not (found := await marked(world, turn.session.id)):
            turn = await say(stage, 60, *load("pdf"), Says(5))
        assert found[-1].skills == ("release",)
        assert told(model.requests[-1][1]) == "release"


async def test_a_compaction_on_request_names_them_too(tmp_path: Path) -> None:
    stage = Stage(model := Talker(), more_tools=["skill"])
    async with stage.open(tmp_path) as world:
        await say(stage, 3, *load("release"), Says(5))
        await world.sessions().compact("operator", stage.session)
        await say(stage, 3, *load("pdf"), Says(5))
        assert told(model.requests[-1][1]) == "release"
        await world.sessions().compact("operator", stage.session)
        await say(stage, 3)
        assert told(model.requests[-1][1]) == "release, pdf"


async def test_without_packages_nothing_is_said_of_them(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        turn = await say(stage, 3, Calls((("read", 30),), package="pdf"), Says(5))
        await world.sessions().compact("operator", stage.session)
        await say(stage, 3)
        [marker] = await marked(world, turn.session.id)
        assert "skills" not in marker.to_part()["data"]
        assert told(model.requests[-1][1]) == ""


async def test_instructions_are_the_last_to_be_shortened(tmp_path: Path) -> None:
    stage = Stage(model := Talker(), more_tools=["skill"])
    async with stage.open(tmp_path) as world:
        calls = [("read", 800), ("skill", 520), ("read", 500)]
        turn = await say(stage, 3, Calls(tuple(calls), package="pdf"), Says(7))
        [marker] = await marked(world, turn.session.id)
        assert marker.summary == ""
        shown = [json.loads(message)["content"] for message in model.requests[-1][1] if b'"tool"' in message]
        assert ["has left out" in content for content in shown] == [True, False, True]


async def test_instructions_are_shortened_where_nothing_else_is_left(tmp_path: Path) -> None:
    stage = Stage(model := Talker(), more_tools=["skill"])
    async with stage.open(tmp_path):
        turn = await say(stage, 3, Calls((("read", 5), ("skill", 5000), ("read", 5)), package="pdf"), Says(7))
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        shown = [json.loads(message)["content"] for message in model.requests[-1][1] if b'"tool"' in message]
        assert ["has left out" in content for content in shown] == [False, True, False]
