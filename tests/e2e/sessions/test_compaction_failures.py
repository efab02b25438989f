"""Summaries that fail in every way, over live HTTP: the turn goes on, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_common.protocol import ModelCard
from agent_common.protocol import chunks as c
from agent_testing import Call, Fail, Hang, Recorded, Say, ScriptedProvider
from agent_testing import Step as Reply

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually
from ..narrow import Narrow, failing, noted, prose
from .test_compaction import WINDOW, fill, markers, narrow, said, transcript

pytestmark = pytest.mark.slow

QUICK = {"AGENT_MODEL_ATTEMPTS": 1}


def policy(**fields: Any) -> str:
    return json.dumps({"retry_on_transient": 0, **fields})


def rungs(**on: bool) -> dict[str, bool]:
    return {name: on.get(name, False) for name in ("prune_tool_outputs", "chunked_summarize", "drop_middle")}


def states(agent: Runtime, message: str, session: str = "long") -> tuple[list[str], list[str], list[c.AnyChunk]]:
    """A turn: the states it went through, why it could not be compacted, and all its chunks."""
    with agent.stream("POST", "/chat/stream", {"message": message, "session_id": session}) as stream:
        chunks = stream.rest()
    data = [chunk.data for chunk in chunks if isinstance(chunk, c.DataChunk) and chunk.type == "data-status"]
    return [one["state"] for one in data], [one["message"] for one in data if one["state"] == "uncompacted"], chunks


# ---------------------------------------------------------------- the ladder

CARDS = (ModelCard(id="little", context_limit=6000), ModelCard(id="tiny", context_limit=3000))


@pytest.fixture
def three() -> Iterator[ScriptedProvider]:
    """Besides the model there are two with even smaller windows, to sum up."""
    with ScriptedProvider(models=("default", *CARDS)) as provider:
        yield provider


def ten_at_once(request: Recorded) -> Reply:
    if "read ten" in request.last_user_text and request.messages[-1]["role"] == "user":
        return Say("", calls=tuple(Call("read", {"path": f"short{number}.txt"}) for number in range(10)))
    return noted(request)


@pytest.mark.parametrize(
    ("on", "who", "message", "sign"),
    [
        ("prune_tool_outputs", "little", f"FACT-1: key-1 {prose(700)}", "[the rest was pruned]"),
        ("chunked_summarize", "tiny", f"FACT-1: key-1 {prose(500)}", "[This is part 1 of "),
        ("drop_middle", "tiny", f"FACT-1: key-1 {prose(500)}", "messages in between do not fit and were left out"),
    ],
)
def test_each_rung_by_itself(
    three: ScriptedProvider, tmp_path: Any, on: str, who: str, message: str, sign: str
) -> None:
    """The record is too long for whoever sums up; all other rungs are switched off."""
    model, how = Narrow(answer=ten_at_once), policy(model=who, smart_recovery=rungs(**{on: True}))
    with Runtime(three, tmp_path / "data", AGENT_COMPACTION=how, AGENT_CONTEXT_LIMIT=WINDOW, **QUICK) as agent:
        narrow(lambda **_: agent, three, model)
        for number in range(10):
            (agent.data_dir / "workspace" / f"short{number}.txt").write_text("a line with some words in it\n" * 40)
        said(agent, "FACT-0: key-0, read ten")
        told = eventually(lambda: "compacting" in (found := states(agent, message))[0] and found, 20)
        assert not told[1], told[1]
        assert {request.fields["model"] for request in model.summaries} == {who}
        assert any(sign in request.last_user_text for request in model.summaries)
        assert all(model.count(request) <= 6000 for request in model.summaries)
        assert "FACT-0: key-0" in json.dumps(model.talk[-1].messages)
        [mark, *_] = markers(transcript(agent))
        assert "FACT-0: key-0" in mark["data"]["summary"]


def test_with_every_rung_off_the_turn_goes_on_until_the_provider_refuses(
    three: ScriptedProvider, tmp_path: Any
) -> None:
    model, how = Narrow(), policy(model="tiny", smart_recovery=rungs())
    with Runtime(three, tmp_path / "data", AGENT_COMPACTION=how, AGENT_CONTEXT_LIMIT=WINDOW, **QUICK) as agent:
        narrow(lambda **_: agent, three, model)
        warned: list[str] = []
        turns, last = 0, ""
        while last != "error":
            turns += 1
            assert turns < 40
            found, why, chunks = states(agent, f"FACT-{turns}: key-{turns} {prose(500)}")
            warned += why
            last = "error" if any(isinstance(chunk, c.ErrorChunk) for chunk in chunks) else ""
            assert "compacting" not in found or why
        assert warned
        assert "too long to be summarized" in warned[0]
        assert not model.summaries
        assert_problem(agent.chat("once more", session_id="long"), 502, "context_overflow")
        agent.env["AGENT_COMPACTION"] = policy()
        agent.start()
        assert said(agent, "how many facts do you know?") == f"I know {turns}."


# ---------------------------------------------------------------- answers that are none


def test_a_passing_failure_is_passed_over(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow(sum_up=failing(Fail(503), Fail(529)))
    agent = narrow(start, provider, model, AGENT_MODEL_ATTEMPTS=2, AGENT_COMPACTION=policy(retry_on_transient=2))
    fill(agent)
    assert len(markers(transcript(agent))) == len(model.summaries) - 2 > 0
    assert "could not be compacted" not in agent.process.output()
    assert said(agent, "how many facts do you know?") == "I know 12."


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Fail(401, "bad key"), "bad key"),
        (Fail(400, "no such parameter"), "no such parameter"),
        (Fail(500, "broken"), "broken"),
        (Say(" "), "empty"),
        (Say(prose(9000)), "no shorter than the conversation"),
        (Say("", calls=(Call("read", {"path": "big.txt"}),)), "empty"),
    ],
    ids=["auth", "config", "down", "empty", "longer", "calls"],
)
def test_without_a_summary_the_turn_goes_on_and_it_is_tried_again(
    start: Start, provider: ScriptedProvider, reply: Reply, why: str
) -> None:
    asked_again = 2 if why == "empty" else 1
    model = Narrow(sum_up=failing(*[reply] * 2 * asked_again))
    agent = narrow(start, provider, model, AGENT_COMPACTION=policy(), **QUICK)
    warnings: list[str] = []
    turns, compacted = 0, False
    while not compacted:
        turns += 1
        assert turns < 20
        found, told, chunks = states(agent, f"FACT-{turns}: key-{turns} {prose(400)}")
        warnings += told
        compacted = any(chunk.type == "data-compaction" for chunk in chunks)
        assert chunks[-1].type == "finish", found
    assert len(warnings) in (1, 2)
    assert all(why in warning for warning in warnings)
    assert "could not be compacted" in agent.process.output()
    assert said(agent, "how many facts do you know?") == f"I know {turns}."
    assert model.refused == 0


def test_a_summary_that_hangs_holds_up_one_turn_and_not_the_next(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow(sum_up=failing(Hang(after=1)))
    agent = narrow(start, provider, model, AGENT_COMPACTION=policy(), AGENT_MODEL_IDLE_TIMEOUT=0.5, **QUICK)
    fill(agent, turns=14)
    assert "could not be compacted" in agent.process.output()
    assert markers(transcript(agent))
    assert said(agent, "how many facts do you know?") == "I know 14."


# ---------------------------------------------------------------- providers that keep things to themselves


@pytest.mark.parametrize("factor", [0.8, 1.3, 1.6])
def test_a_provider_that_never_reports_usage(start: Start, provider: ScriptedProvider, factor: float) -> None:
    model = Narrow(factor=factor, reports=False)
    agent = narrow(start, provider, model)
    fill(agent, turns=40)
    assert said(agent, "how many facts do you know?") == "I know 40."
    assert model.refused <= 2
    assert markers(transcript(agent))


@pytest.mark.parametrize("tells", [True, False])
def test_a_window_that_is_smaller_than_we_think(start: Start, provider: ScriptedProvider, tells: bool) -> None:
    model = Narrow(tells=tells)
    agent = narrow(start, provider, model, AGENT_CONTEXT_LIMIT=128_000)
    fill(agent, turns=40)
    assert said(agent, "how many facts do you know?") == "I know 40."
    assert 1 <= model.refused <= (2 if tells else 12)
    refused = model.refused
    fill(agent, "another", 20)
    assert said(agent, "how many facts do you know?", "another") == "I know 20."
    assert not tells or model.refused == refused, "what one session has learnt is known in the next one"


def test_files_read_in_a_window_smaller_than_we_think(start: Start, provider: ScriptedProvider) -> None:
    """The result alone may be more than is left."""
    model = Narrow(tells=False)
    agent = narrow(start, provider, model, AGENT_CONTEXT_LIMIT=128_000)
    for turn in range(6):
        assert said(agent, "read big.txt") == "I have read it.", turn
    assert model.refused


def test_the_next_life_learns_again_how_little_a_model_takes(start: Start, provider: ScriptedProvider) -> None:
    """It is forgotten with the process; that costs one refused request and no turn."""
    model = Narrow()
    agent = narrow(start, provider, model, AGENT_CONTEXT_LIMIT=128_000)
    fill(agent, turns=20)
    refused = model.refused
    agent.process.kill9()
    agent.start()
    fill(agent, turns=20)
    assert said(agent, "how many facts do you know?") == "I know 20."
    assert model.refused == refused + 1
