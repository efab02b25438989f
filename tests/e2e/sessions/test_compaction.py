"""Conversations that outgrow the window, over live HTTP: nothing fails, nothing that matters is forgotten, nothing is
lost from the record."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Recorded, Say, ScriptedProvider
from agent_testing import Step as Reply

from ..conftest import Start
from ..live import Runtime, assert_problem, fresh, types
from ..narrow import FACT, Answer, Narrow, facts, noted, prose

WINDOW = 16_000


def narrow(start: Start, provider: ScriptedProvider, model: Narrow, **settings: object) -> Runtime:
    """A runtime whose model has that window, and a long file in its workspace."""
    provider.script.replace(model)
    agent = start(**{"AGENT_CONTEXT_LIMIT": WINDOW, **settings})
    lines = [f"line {number} of a long file, with some words in it" for number in range(1500)]
    for name in ("big.txt", *(f"big{number}.txt" for number in range(20))):
        (agent.data_dir / "workspace" / name).write_text(f"this is {name}\n" + "\n".join(lines))
    return agent


def said(agent: Runtime, message: str, session: str = "long", **more: Any) -> str:
    """The answer to a message, which must have one."""
    reply = agent.chat(message, session_id=session, **more)
    assert reply.status_code == 200, reply.text[:500]
    return reply.json()["response"]


def transcript(agent: Runtime, session: str = "long", limit: int = 70) -> list[dict[str, Any]]:
    """All messages, page by page."""
    found: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        page = agent.get(f"/sessions/{session}/messages", limit=limit, **after).json()
        found += page["messages"]
        if "next" not in page or page["next"] is None:
            return found
        after = {"after": page["next"]}


def markers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"] if part["type"] == "data-compaction"]


def seen(agent: Runtime, session: str = "long") -> bytes:
    """What the model is shown, as bytes."""
    reply = agent.get(f"/sessions/{session}/prompt")
    return reply.content[reply.content.index(b'"messages":[') :]


def fill(agent: Runtime, session: str = "long", turns: int = 12) -> None:
    for number in range(turns):
        said(agent, f"Please remember FACT-{number}: key-{number * 7919}. {prose(500, number)}", session)


# ---------------------------------------------------------------- the long session

BUCKETS = ("input", "output", "reasoning", "cache_read", "cache_write")


def what_to_say(turn: int, planted: int) -> str:
    """Of the long session: facts, files, questions and talk."""
    if turn % 10 == 3:
        return f"Please remember FACT-{planted}: key-{planted * 7919}"
    if turn % 17 == 5:
        return "read big.txt"
    return "how many facts do you know?" if turn % 10 == 9 else f"turn {turn}: {prose(150, turn)}"


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "most"), [(0.7, 40), (1.0, 42), (1.6, 85)])
def test_three_hundred_turns_in_a_window_of_sixteen_thousand(
    start: Start, provider: ScriptedProvider, factor: float, most: int
) -> None:
    """Nothing ever fails or exceeds the window, no fact is forgotten, and the record reaches back to the beginning. The
    provider counts by a factor that the runtime is not told."""
    model = Narrow(factor=factor)
    agent = narrow(start, provider, model)
    planted, asked, firsts = 0, list[str](), list[int]()
    for turn in range(300):
        planted += turn % 10 == 3
        message = what_to_say(turn, planted)
        asked.append(message)
        firsts.append(len(model.talk))
        answer = said(agent, message)
        if "how many" in message:
            assert answer == f"I know {planted}.", f"at turn {turn}"
        if turn == 150:
            before = seen(agent)
            agent.process.kill9()
            agent.start()
            assert seen(agent) == before, "the next life shows the model the same bytes"
    assert model.refused == 0
    assert model.largest <= WINDOW
    assert 5 <= len(model.summaries) <= most

    messages = transcript(agent)
    people = ["".join(part["text"] for part in one["parts"]) for one in messages if one["role"] == "user"]
    assert people == asked
    assert len(messages) == 600 + len(markers(messages))
    assert len(markers(messages)) == len(model.summaries)
    assert all(mark["data"]["auto"] for mark in markers(messages))
    [sums] = agent.sql("SELECT total_tokens FROM chat_sessions")
    used = [one["metadata"]["usage"] for one in messages if "usage" in one["metadata"]]
    assert sums[0] == sum(sum(usage[name] for name in BUCKETS) for usage in used)
    back(agent, messages, [model.talk[first].messages for first in firsts])
    assert said(agent, "how many facts do you know?") == "I know 30."


def back(agent: Runtime, messages: list[dict[str, Any]], requests: list[list[dict[str, Any]]]) -> None:
    """Rewinds past one compaction after the other, from the last to the first: each time the model would be shown what
    it was shown then, word for word. Then all of it is taken back."""
    people = [at for at, one in enumerate(messages) if one["role"] == "user"]
    steady = [turn for turn in range(1, len(people)) if extends(requests[turn - 1], requests[turn])]
    states = [seen(agent)]
    marks = [at for at, one in enumerate(messages) if markers([one])]
    targets = sorted({max(turn for turn in steady if people[turn] < mark) for mark in marks})
    assert targets[0] < 30, "the first compaction comes early"
    for turn in reversed(targets):
        agent.post("/sessions/long/rewind", {"message_id": messages[people[turn]]["id"]}).raise_for_status()
        assert json.loads(b"{" + seen(agent))["messages"] == requests[turn][1:-1], f"before turn {turn}"
        assert transcript(agent) == messages[: people[turn]]
        states.append(seen(agent))
    while states[1:]:
        assert seen(agent) == states.pop()
        assert agent.post("/sessions/long/unrewind", {}).json()["restored"]
    assert seen(agent) == states[0]
    assert transcript(agent) == messages


def extends(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    """Nothing was summed up between two requests."""
    return after[: len(before)] == before


def test_what_is_said_behind_a_rewind_goes_on_from_there(reuse: Start, provider: ScriptedProvider) -> None:
    """Also when that lies before a compaction."""
    model = Narrow()
    agent = narrow(reuse, provider, model)
    fill(agent, turns=14)
    messages = transcript(agent)
    assert markers(messages)
    people = [one for one in messages if one["role"] == "user"]
    agent.post("/sessions/long/rewind", {"message_id": people[1]["id"]}).raise_for_status()
    then = model.talk[1].messages
    said(agent, "something else")
    assert model.talk[-1].messages[:-1] == then[:-1]
    assert len(transcript(agent)) == messages.index(people[1]) + 2


def test_the_prompt_is_the_same_before_and_behind_a_compaction(start: Start, provider: ScriptedProvider) -> None:
    """A compaction neither summarizes project instructions nor reads their file again."""
    model = Narrow()
    agent = narrow(start, provider, model)
    file = agent.data_dir / "workspace" / "AGENTS.md"
    file.write_text("Always answer in the manner of the lighthouse keeper.")
    fill(agent, turns=2)
    file.write_text("Never mention the lighthouse.")
    fill(agent, turns=12)
    assert agent.post("/sessions/long/compact", {}).status_code == 200
    said(agent, "hello")
    agent.process.kill9()
    agent.start()
    fill(agent, turns=12)
    marks = markers(transcript(agent))
    assert [mark["data"]["auto"] for mark in marks].count(False) == 1
    assert len(marks) > 2
    first, *later = [(request.messages[0], request.fields["tools"]) for request in model.talk]
    assert "lighthouse keeper" in first[0]["content"]
    assert all(one == first for one in later)
    assert not any("lighthouse" in request.last_user_text for request in model.summaries)
    [digest] = {one["metadata"]["system_prompt_digest"] for one in transcript(agent)
                if one["role"] == "assistant" and not markers([one])}  # fmt: skip
    assert digest == hashlib.sha256(first[0]["content"].encode()).hexdigest()


# ---------------------------------------------------------------- inside of one turn


class Reader:
    """Reads a dozen files, one after the other, where it is asked to read them all."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, request: Recorded) -> Reply:
        if "read them all" not in request.last_user_text:
            return noted(request)
        self.read += 1
        if self.read <= 12:
            return Call("read", {"path": f"big{self.read}.txt"})
        self.read = 0
        return Say("I have read all of them.")


@pytest.mark.slow
def test_one_turn_may_outgrow_the_window_several_times(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow(answer=Reader())
    agent = narrow(start, provider, model)
    with agent.stream("POST", "/chat/stream", {"message": "read them all. FACT-1: key-5", "session_id": "long"}) as it:
        chunks = it.rest()
    assert types(chunks)[-1] == "finish"
    shown = [chunk for chunk in chunks if isinstance(chunk, c.DataChunk) and chunk.type == "data-compaction"]
    assert len(shown) >= 2
    assert all(chunk.transient for chunk in shown)
    assert model.refused == 0
    assert model.largest <= WINDOW
    assert "read them all. FACT-1: key-5" in json.dumps(model.talk[-1].messages), "the request itself stays in sight"
    [reply] = [one for one in transcript(agent) if one["role"] == "assistant" and not markers([one])]
    calls = [part for part in reply["parts"] if part["type"] == "tool-read"]
    assert len(calls) == 12
    assert all("line 1 of" in json.dumps(part["output"]) for part in calls), "the record has every result whole"
    before = seen(agent)
    agent.process.kill9()
    agent.start()
    assert seen(agent) == before
    assert said(agent, "how many facts do you know?") == "I know 1."


def all_at_once(request: Recorded) -> Reply:
    if request.messages[-1]["role"] != "tool":
        return Say("", calls=tuple(Call("read", {"path": f"big{number}.txt"}) for number in range(8)))
    return Say("that was a lot")


@pytest.mark.slow
def test_results_larger_than_the_window_are_shown_in_part(start: Start, provider: ScriptedProvider) -> None:
    """All in one step, and nothing before them that could be summed up."""
    model = Narrow(answer=all_at_once)
    agent = narrow(start, provider, model)
    assert said(agent, "look at them") == "that was a lot"
    assert model.largest <= WINDOW
    assert not model.summaries
    results = [one["content"] for one in model.talk[-1].messages if one["role"] == "tool"]
    assert len(results) == 8
    assert any("the runtime has left out" in one for one in results)
    before = seen(agent)
    agent.process.kill9()
    agent.start()
    assert seen(agent) == before


def test_a_message_larger_than_the_window_is_an_error_and_the_session_goes_on(
    reuse: Start, provider: ScriptedProvider
) -> None:
    model = Narrow()
    agent = narrow(reuse, provider, model)
    said(agent, "FACT-1: key-1")
    refused = agent.chat("FACT-2: key-2 " + prose(20_000), session_id="long")
    assert_problem(refused, 413, "message_too_long")
    assert said(agent, "how many facts do you know?") == "I know 1.", "what was refused left nothing"
    assert len(transcript(agent)) == 4


# ---------------------------------------------------------------- side by side, and for others


def test_sessions_are_compacted_side_by_side(reuse: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(reuse, provider, model)
    names = [fresh("side") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: fill(agent, name, 14), names))
        answers = list(pool.map(lambda name: said(agent, "how many facts do you know?", name), names))
    assert answers == ["I know 14."] * 4
    assert model.refused == 0
    assert all(markers(transcript(agent, name)) for name in names)


LOOKER = """description: Looks into things.
mode: all
inspectable: {inspectable}
prompt: You are the looker.
permissions: {{"*": allow}}
"""


def delegating(looker: Reader) -> Answer:
    """Lets the looker read, and repeats what it says."""

    def answer(request: Recorded) -> Reply:
        if "You are the looker" in str(request.messages[0]["content"]):
            return looker(request)
        if request.messages[-1]["role"] == "tool":
            return Say(json.loads(request.messages[-1]["content"])["data"]["output"])
        return Call("task", {"subagent_type": "looker", "prompt": f"read them all {request.last_user_text}"})

    return answer


def test_an_agent_that_another_one_calls_may_outgrow_its_window(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow(answer=delegating(Reader()))
    agent = narrow(start, provider, model)
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    for inspectable in ("false", "true"):
        model.summaries.clear()
        (agent.data_dir / "agents" / "looker.yaml").write_text(LOOKER.format(inspectable=inspectable))
        session = fresh("delegates")
        assert said(agent, f"inspectable {inspectable}", session) == "I have read all of them."
        assert len(model.summaries) >= 2
        assert not markers(transcript(agent, session)), "the caller's own conversation was never too long"
    assert model.refused == 0
    [child] = agent.sql("SELECT id, total_tokens FROM chat_sessions WHERE parent_id IS NOT NULL")
    made = [mark for mark in markers(transcript(agent, child["id"])) if mark["data"]["summary"]]
    assert len(made) == len(model.summaries)


# ---------------------------------------------------------------- asked for


def test_compaction_by_hand(reuse: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(reuse, provider, model)
    assert_problem(agent.post("/sessions/nobody/compact", {}), 404, "unknown_session")
    fill(agent, turns=3)
    reply = agent.post("/sessions/long/compact", {})
    assert reply.status_code == 200, reply.text[:500]
    body = reply.json()
    assert body["session_id"] == "long"
    assert len(FACT.findall(body["summary"])) == 3
    assert body["tokens_after"] < body["tokens_before"]
    [mark] = markers(transcript(agent))
    assert mark["data"] == {
        "summary": body["summary"],
        "tail_start_id": None,
        "auto": False,
        "summary_tokens": body["summary_tokens"],
        "spoken_to": "default",
    }
    assert_problem(agent.post("/sessions/long/compact", {}), 409, "nothing_to_compact")
    other = agent.client(**{"Authorization": "Bearer sesame", "X-Agent-User": "eve"})
    with other:
        assert_problem(other.post("/sessions/long/compact"), 404, "unknown_session")
    assert said(agent, "how many facts do you know?") == "I know 3."
    assert len(facts(model.talk[-1])) == 3
    assert len(transcript(agent)) == 9
