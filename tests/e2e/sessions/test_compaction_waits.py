"""What goes on while a summary is written, over live HTTP: aborts, crashes, messages; and who pays for it."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from agent_common.protocol import ModelCard, Pricing, Usage
from agent_testing import Call, Fail, Hang, Recorded, Say, ScriptedProvider
from agent_testing import Step as Reply

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh, in_background
from ..narrow import Narrow, failing, prose, summary_of
from ..node import PACKAGES, run_node
from .test_compaction import WINDOW, fill, markers, narrow, said, seen, transcript

pytestmark = pytest.mark.slow

# ---------------------------------------------------------------- aborts and crashes


def holding(model: Narrow) -> None:
    """The next summary hangs; the ones behind it come."""
    model.sum_up = failing(Hang(after=1, reply=Say("never to be heard")))


def upto_the_summary(agent: Runtime, model: Narrow, **more: Any) -> str:
    """Talks until a summary is asked for that does not come; the message that waits for it."""
    holding(model)
    for turn in range(40):
        message = f"FACT-{turn}: key-{turn} {prose(400)}"
        body = {"message": message, "session_id": "long", **more}
        thread, got = in_background(lambda body=body: _posted(agent, body))
        eventually(lambda thread=thread: model.summaries or not thread.is_alive())
        if model.summaries:
            return message
        thread.join()
        assert got[0].status_code == 200
    raise AssertionError("it was never compacted")


def _posted(agent: Runtime, body: Any) -> httpx.Response | None:
    try:
        return agent.post("/chat", body)
    except httpx.TransportError:  # the server was killed
        return None


def test_an_abort_while_the_summary_is_written(reuse: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(reuse, provider, model)
    upto_the_summary(agent, model)
    assert agent.post("/chat/long/abort", {}).json()["aborted"] is True
    assert not markers(transcript(agent))
    count = sum("FACT-" in str(one["parts"]) for one in transcript(agent) if one["role"] == "user")
    assert said(agent, "how many facts do you know?") == f"I know {count}."
    fill(agent, turns=2)
    assert len(markers(transcript(agent))) == 1


def test_a_crash_while_the_summary_is_written(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(start, provider, model)
    upto_the_summary(agent, model)
    agent.process.kill9()
    provider.release()
    agent.start()
    assert not markers(transcript(agent))
    count = sum("FACT-" in str(one["parts"]) for one in transcript(agent) if one["role"] == "user")
    assert said(agent, "how many facts do you know?") == f"I know {count}."
    fill(agent, turns=2)
    assert len(markers(transcript(agent))) == 1


class Worker:
    """A task that reads file after file. `hang_at` says which of its calls does not come back, once."""

    def __init__(self) -> None:
        self.read = 0
        self.hang_behind_summary = False
        self.hung = False
        self.model: Narrow

    def __call__(self, request: Recorded) -> Reply:
        if self.hang_behind_summary and self.model.summaries and not self.hung:
            self.hung = True
            return Hang(reply=Say("never to be heard"))
        self.read = 1 + max((number for number in range(20) if f"this is big{number}.txt" in str(request.messages)),
                            default=self.read)  # fmt: skip
        return Call("read", {"path": f"big{self.read}.txt"}) if self.read < 9 else Say("read them all")


def summed_up(agent: Runtime, session: str) -> list[dict[str, Any]]:
    """The markers with a summary of their own; others only show results in part."""
    return markers([one for one in transcript(agent, session) if "model" in one["metadata"]])


@pytest.mark.parametrize("when", ["while the summary is written", "right behind the marker"])
def test_a_task_goes_on_behind_a_crash(start: Start, provider: ScriptedProvider, when: str) -> None:
    worker = Worker()
    model = worker.model = Narrow(answer=worker)
    if "while" in when:
        holding(model)
    else:
        worker.hang_behind_summary = True
    agent = narrow(start, provider, model)
    task_id = agent.assign(input_data={"ask": "read them all. FACT-1: key-1"})
    eventually(lambda: worker.hung or ("while" in when and model.summaries))
    session = agent.record(task_id)["session_id"]
    found = summed_up(agent, session)
    assert len(found) == ("right" in when)
    before = seen(agent, session) if found else b""
    agent.process.kill9()
    provider.release()
    made = len(model.summaries)
    asked = len(model.talk)
    agent.start()
    record = agent.result(task_id)
    assert (record["status"], record["result"]) == ("complete", {"text": "read them all"})
    if before:
        first = model.talk[asked].messages[1:]
        assert first == json.loads(b"{" + before)["messages"][: len(first)], "it goes on from where it was, unsummed"
    marks = summed_up(agent, session)
    assert len(marks) == len(found) + len(model.summaries) - made
    steps = [mark["data"]["tail_start_step"] for mark in marks]
    assert steps == sorted(set(steps)), "nothing was summed up twice"
    [reply] = [one for one in transcript(agent, session) if one["role"] == "assistant" and not markers([one])]
    paths = [part["input"]["path"] for part in reply["parts"] if part["type"] == "tool-read"]
    assert paths == [f"big{number}.txt" for number in range(1, 9)], "nothing was done twice or left out"
    agent.still_works()


# ---------------------------------------------------------------- by hand


def test_what_is_sent_while_a_session_is_compacted_queues(reuse: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(reuse, provider, model)
    fill(agent, turns=3)
    model.sum_up = lambda request: Hang(after=1, reply=summary_of(request))
    compacting, compacted = in_background(lambda: agent.post("/sessions/long/compact", {}))
    eventually(lambda: model.summaries)
    queued = agent.chat("FACT-7: key-7", session_id="long", wait=0)
    assert queued.status_code == 202
    assert queued.json()["status"] == "queued"
    assert_problem(agent.post("/sessions/long/compact", {}), 409, "session_busy")
    assert_problem(agent.post("/sessions/long/fork", {}), 409, "session_busy")
    assert said(agent, "hello", "another"), "other sessions go on"
    provider.release()
    compacting.join(10)
    assert compacted[0].status_code == 200
    assert said(agent, "how many facts do you know?") == "I know 4."
    assert model.talk[-1].texts[1].endswith("FACT-7: key-7")


def test_a_session_at_work_is_not_compacted(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    provider.script.replace([Say("ok"), Hang(after=1), Say("## Facts"), Say("ok")])
    agent.chat("hello", session_id="long")
    agent.chat("go", session_id="long", wait=0)
    provider.wait_for(2)
    assert_problem(agent.post("/sessions/long/compact", {}), 409, "session_busy")
    provider.release()
    eventually(lambda: agent.get("/sessions/long").json()["status"]["state"] == "idle")
    assert agent.post("/sessions/long/compact", {}).status_code == 200


def test_by_hand_a_failure_is_told_and_changes_nothing(reuse: Start, provider: ScriptedProvider) -> None:
    model = Narrow(sum_up=failing(Fail(400, "no such parameter"), Fail(400, "no such parameter"), *[Say("")] * 4))
    agent = narrow(reuse, provider, model, AGENT_COMPACTION='{"retry_on_transient": 0}', AGENT_MODEL_ATTEMPTS=1)
    fill(agent, turns=2)
    before = seen(agent)
    for why in ("no such parameter", "the summary is empty"):
        assert why in assert_problem(agent.post("/sessions/long/compact", {}), 502, "model_unavailable")["detail"]
    assert seen(agent) == before
    assert len(transcript(agent)) == 4
    assert agent.post("/sessions/long/compact", {}).status_code == 200


def test_a_server_ends_while_a_session_is_compacted(start: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(start, provider, model, AGENT_DRAIN_GRACE=0.2)
    fill(agent, turns=2)
    holding(model)
    before = seen(agent)
    thread, got = in_background(lambda: agent.post("/sessions/long/compact", {}))
    eventually(lambda: model.summaries)
    begun = time.monotonic()
    agent.sigterm()
    assert agent.process.wait(10) == 0
    assert time.monotonic() - begun < 3
    thread.join(5)
    assert_problem(got[0], 503, "not_ready")
    agent.start()
    assert seen(agent) == before
    assert said(agent, "how many facts do you know?") == "I know 2."


# ---------------------------------------------------------------- what it costs


def test_a_summary_counts_against_the_budget_and_is_in_the_sums(start: Start, provider: ScriptedProvider) -> None:
    spent: dict[int, int] = {}
    for most in (10**9, 60_000):
        worker = Worker()
        model = worker.model = Narrow(answer=worker)
        agent = narrow(start, provider, model)
        record = agent.run(input_data={"ask": fresh("read")}, token_budget={"max_tokens": most})
        [row] = agent.sql("SELECT total_tokens FROM chat_sessions WHERE id = ?", record["session_id"])
        spent[most] = row[0]
        assert row[0] == record["tokens_used"] > Usage.model_validate(record["usage"]).total
        assert summed_up(agent, record["session_id"])
        if most == 60_000:
            assert record["error_code"] == "budget_exhausted"
        else:
            assert record["status"] == "complete"
        agent.process.kill9()
    assert spent[60_000] < spent[10**9]


PRICED = ModelCard(id="default", context_limit=WINDOW, pricing=Pricing(input=10, output=20))
CHEAP = ModelCard(id="cheap", context_limit=100_000, pricing=Pricing(input=1, output=2))
VECTORS = ModelCard(id="vectors", context_limit=8192, pricing=Pricing(input=0, output=0), capabilities=["embeddings"])


def test_the_cheapest_model_sums_up_and_the_cost_is_its_own(tmp_path: Any) -> None:
    with ScriptedProvider(models=(PRICED, CHEAP, VECTORS)) as provider, Runtime(provider, tmp_path / "data") as agent:
        model = Narrow(window=100_000, factor=1)
        narrow(lambda **_: agent, provider, model)
        eventually(lambda: "cheap" in agent.get("/capabilities").json()["models"])
        fill(agent, turns=20)
        assert {request.fields["model"] for request in model.summaries} == {"cheap"}
        assert {request.fields["model"] for request in model.talk} == {"default"}
        total = agent.get("/sessions/long").json()["cost_usd"]
        costs = [one["metadata"]["usage"]["cost_usd"] for one in transcript(agent) if "usage" in one["metadata"]]
        assert total == pytest.approx(sum(costs))


# ---------------------------------------------------------------- the AI SDK


def test_the_sdk_takes_what_a_compaction_says(reuse: Start, provider: ScriptedProvider) -> None:
    model = Narrow()
    agent = narrow(reuse, provider, model)
    lines = list[str]()
    while not any("data-compaction" in line for line in lines):
        body = {"message": prose(500), "session_id": "long"}
        with agent.http.stream("POST", "/chat/stream", json=body) as response:
            lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: {")]
    told = [json.loads(line) for line in lines if "data-compaction" in line or "data-status" in line]
    assert [one["type"] for one in told] == ["data-status", "data-compaction"]
    assert all(one["transient"] is True for one in told)
    assert told[1]["data"] == markers(transcript(agent))[0]["data"]
    for sdk in PACKAGES:
        done = run_node(agent, "vocabulary.mjs", sdk=sdk, given="\n".join(lines))
        assert done.returncode == 0, done.stderr
