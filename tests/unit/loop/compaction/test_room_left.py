"""What a compaction leaves: so much less than the window that several turns have room before the next one."""

from __future__ import annotations

import itertools
from pathlib import Path

from agent_common.protocol import ModelCard, Pricing
from tests.unit.loop.compaction.long_conversations import (
    USABLE,
    WINDOW,
    Calls,
    Says,
    Stage,
    Talker,
    fill,
    is_summary,
    marked,
    prose,
    say,
    set_prompt,
    tokens,
)


def sizes(model: Talker) -> list[int]:
    """Tokens of each request, summaries apart."""
    return [sum(map(tokens, sent)) for _, sent in model.requests if not is_summary(sent)]


async def test_a_large_prompt_leaves_little_room_and_less_of_it_is_kept(tmp_path: Path) -> None:
    """Two turns would be a fifth of the window, but most of what the prompt leaves."""
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        found = await world.conversations.find_or_create("operator", stage.session)
        set_prompt(found, prose(1000))
        turns = [await say(stage, 120) for _ in range(24)]
        assert all(turn.end.outcome is not None and turn.end.outcome.status == "complete" for turn in turns)
        begun = {marker.tail_start_id for marker in await marked(world, turns[0].session.id)}
        made = [at for at, turn in enumerate(turns) if turn.message_id in begun]
        assert made
        assert min(later - one for one, later in itertools.pairwise(made)) >= 3, "several turns have room in between"
        assert max(sizes(model)) < USABLE * 1.1


async def test_results_are_shown_as_far_as_half_of_the_room_goes(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path) as world:
        found = await world.conversations.find_or_create("operator", stage.session)
        set_prompt(found, prose(800))
        fixed = tokens(prose(800).encode())
        turn = await say(stage, 3, Calls((("read", 5000),)), Says(7))
        [marker] = await marked(world, turn.session.id)
        assert marker.shortened
        shown = sizes(model)[-1] - fixed
        assert (USABLE - fixed) * 0.3 < shown < (USABLE - fixed) * 0.65


async def test_a_model_with_a_large_window_writes_no_more_than_the_session_has_room_for(tmp_path: Path) -> None:
    cards = (
        ModelCard(id="m", context_limit=WINDOW, pricing=Pricing(input=10, output=10)),
        ModelCard(id="cheap", context_limit=100_000, pricing=Pricing(input=1, output=1)),
    )
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, cards=cards) as world:
        await fill(stage, 6)
        [(request, sent)] = [(request, sent) for request, sent in model.requests if is_summary(sent)]
        assert (request.model, request.max_tokens) == ("cheap", 375)
        assert b"in at most 225 words" in sent[-1]
        await world.sessions().compact("operator", stage.session)
        assert model.requests[-1][0].max_tokens == 375
