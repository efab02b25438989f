"""Compactions in bad company, over live HTTP: killed in the middle, several at once, sessions that part at a marker."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from agent_testing import Hang, Recorded, ScriptedProvider
from agent_testing import Step as Reply

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, in_background
from ..narrow import FACT, Narrow, facts, prose, summary_of
from .test_compaction import fill, markers, narrow, said, seen, transcript

pytestmark = pytest.mark.slow

KILLS = 3


def known(agent: Runtime, session: str = "long") -> set[str]:
    """The facts that the transcript tells of."""
    return {fact for one in transcript(agent, session) if one["role"] == "user" for fact in FACT.findall(str(one))}


def try_post(agent: Runtime, path: str, body: dict[str, Any]) -> int:
    """The status; 0 where the server was killed."""
    try:
        return agent.post(path, body).status_code
    except httpx.TransportError:
        return 0


def slowly(seconds: float) -> Any:
    """Sums up as it should, after a while: what is killed at any moment is often killed there."""

    def sum_up(request: Recorded) -> Reply:
        return replace(summary_of(request), wait=seconds)

    return sum_up


def test_no_kill_at_any_moment_loses_a_fact_or_sums_up_twice(start: Start, provider: ScriptedProvider) -> None:
    """The person talks, and in some lives somebody asks for compactions beside that."""
    model = Narrow(sum_up=slowly(0.1))
    agent = narrow(start, provider, model)
    chance = random.Random(16_000)
    number = itertools.count()

    def talk() -> None:
        while try_post(agent, "/chat", {"message": f"FACT-{next(number)}: key-7 {prose(450)}", "session_id": "long"}):
            pass

    def compact() -> None:
        while try_post(agent, "/sessions/long/compact", {}):
            time.sleep(0.05)

    for life in range(KILLS):
        asked = len(model.summaries)
        threads = [in_background(work)[0] for work in (talk, compact)[: 1 + life % 2]]
        eventually(lambda asked=asked: len(model.summaries) > asked, 20)
        time.sleep(chance.uniform(0.0, 0.25))  # the summary comes, its marker is written, the turn goes on
        agent.process.kill9()
        provider.release()
        for thread in threads:
            thread.join(15)
            assert not thread.is_alive()
        agent.start()
        before = seen(agent)
        agent.process.kill9()
        agent.start()
        assert seen(agent) == before, "nothing is left that the next life would still change"
        expected = len(known(agent))
        assert said(agent, "how many facts do you know?") == f"I know {expected}."
    messages = transcript(agent)
    assert markers(messages)
    assert len({one["id"] for one in messages}) == len(messages)
    summed = [mark["data"]["summary"] for mark in markers(messages)]
    counts = [len(FACT.findall(summary)) for summary in summed]
    assert counts == sorted(counts), "each summary holds all that the one before it held"


def test_of_compactions_at_once_one_is_made(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow(sum_up=slowly(0.3))
    agent = narrow(start, provider, model)
    fill(agent, turns=3)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: agent.post("/sessions/long/compact", {}), range(6)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 5}
    for answer in answers:
        if answer.status_code == 409:
            assert_problem(answer, 409, answer.json()["code"])
            assert answer.json()["code"] in ("session_busy", "nothing_to_compact")
    assert len(markers(transcript(agent))) == len(model.summaries) == 1
    assert said(agent, "how many facts do you know?") == "I know 3."


def test_none_can_be_asked_for_while_a_turn_makes_its_own(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(start, provider, model)
    model.sum_up = lambda request: Hang(after=1, reply=summary_of(request))
    turns = 0
    while True:
        turns += 1
        body = {"message": f"FACT-{turns}: key-{turns} {prose(450)}", "session_id": "long"}
        thread, got = in_background(lambda body=body: agent.post("/chat", body))
        eventually(lambda thread=thread: model.summaries or not thread.is_alive())
        if model.summaries:
            break
        thread.join()
    for path in ("compact", "fork"):
        assert_problem(agent.post(f"/sessions/long/{path}", {}), 409, "session_busy")
    first = next(one["id"] for one in transcript(agent) if one["role"] == "user")
    assert_problem(agent.post("/sessions/long/rewind", {"message_id": first}), 409, "session_busy")
    provider.release()
    thread.join(10)
    assert got[0].status_code == 200
    assert len(markers(transcript(agent))) == len(model.summaries) == 1
    assert said(agent, "how many facts do you know?") == f"I know {turns}."


def test_a_kill_in_a_compaction_that_was_asked_for_changes_nothing(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(start, provider, model)
    fill(agent, turns=3)
    before, written = seen(agent), transcript(agent)
    model.sum_up = lambda request: Hang(after=1, reply=summary_of(request))
    thread, got = in_background(lambda: try_post(agent, "/sessions/long/compact", {}))
    eventually(lambda: model.summaries)
    agent.process.kill9()
    provider.release()
    thread.join(10)
    assert got == [0]
    model.sum_up = summary_of
    agent.start()
    assert (seen(agent), transcript(agent)) == (before, written)
    assert agent.post("/sessions/long/compact", {}).status_code == 200
    assert said(agent, "how many facts do you know?") == "I know 3."


def test_sessions_that_part_at_a_marker(start: Start, provider: ScriptedProvider) -> None:
    """Before it, at it and behind it; what becomes of one is nothing to the others."""
    model = Narrow()
    agent = narrow(start, provider, model)
    for turn in range(20):
        said(agent, f"FACT-{turn}: key-{turn} {prose(450)}")
        if model.summaries:
            break
    said(agent, "FACT-99: key-99")
    messages, whole = transcript(agent), seen(agent)
    at = next(at for at, one in enumerate(messages) if markers([one]))
    mark = messages[at]
    assert_problem(agent.post("/sessions/long/rewind", {"message_id": mark["id"]}), 422, "invalid_request")
    children: dict[str, tuple[str, int]] = {}
    for where, place in (("before", at - 1), ("at", at), ("behind", len(messages) - 1)):
        asked = {"message_id": messages[place]["id"]}
        children[where] = (agent.post("/sessions/long/fork", asked).json()["id"], place + 1)
    for where, (child, count) in children.items():
        copied = transcript(agent, child)
        assert [one["parts"] for one in copied] == forked([one["parts"] for one in messages[:count]], messages, copied)
        assert bool(markers(copied)) is (where != "before")
    assert seen(agent, children["behind"][0]) == whole
    for child, _ in children.values():
        told = known(agent, child)
        assert said(agent, "how many facts do you know?", child) == f"I know {len(told)}."
        fill(agent, child, 8)
        assert said(agent, "how many facts do you know?", child) == f"I know {len(known(agent, child))}."
        assert agent.post(f"/sessions/{child}/compact", {}).status_code == 200
        assert len(facts(model.summaries[-1])) == len(known(agent, child))
    assert (transcript(agent), seen(agent)) == (messages, whole)
    assert model.refused == 0


def forked(parts: list[Any], messages: list[dict[str, Any]], copied: list[dict[str, Any]]) -> list[Any]:
    """The same parts in a fork: markers speak of its own messages."""
    ids = {one["id"]: other["id"] for one, other in zip(messages, copied, strict=False)}
    return [
        [{**part, "data": {**part["data"], "tail_start_id": ids.get(part["data"]["tail_start_id"])}}
         if part["type"] == "data-compaction" else part for part in one]
        for one in parts
    ]  # fmt: skip
