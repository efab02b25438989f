"""A crash costs a task at most one step: it goes on where it was, and the model decides about what nobody knows."""

from __future__ import annotations

import json
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.soak.model import EFFECTS, FINAL, Model, Orders, answer_to
from tests.soak.talk import extends, repeats

from ..conftest import Start
from ..live import Runtime, assignment, eventually, text_of

MARKS = "marks.log"
LINGER = 0.25
SKILLS = f"""
    import time

    def mark(workspace, what, step, seconds):
        with open(workspace / "{MARKS}", "a") as file:
            file.write(f"{{what}}:{{step}}\\n")
        time.sleep(seconds)
        return {{"step": step}}

    NUMBERS = {{"step": {{"type": "integer"}}, "seconds": {{"type": "number"}}}}

    @skill(name="look", description="Look at a step.", parameters=NUMBERS, read_only=True)
    def look(step, seconds, *, workspace):
        return mark(workspace, "look", step, seconds)

    @skill(name="put", description="Put a step in its place.", parameters=NUMBERS, idempotent=True)
    def put(step, seconds, *, workspace):
        return mark(workspace, "put", step, seconds)
"""
KINDS = ("bash", "look", "put")
MOMENTS = ("while the model answers", "while the tool runs", "right after it")
STEPS = [(KINDS[step % 3], MOMENTS[step // 3 % 3]) for step in range(20)]


class Work:
    """One task with its model, and the moments at which it can be struck."""

    def __init__(self, agent: Runtime, orders: Orders) -> None:
        self.agent, self.orders, self.life = agent, orders, 1
        self.model = Model(lambda: self.life)
        agent.provider.script.replace(self.model)
        skills = agent.data_dir / "skills"
        skills.mkdir(exist_ok=True)
        self.body = assignment(task_id=orders.owner, input_data=orders.json(), timeout=300)

    def lines(self, name: str) -> list[str]:
        file = self.agent.data_dir / "workspace" / name
        return file.read_text().splitlines() if file.exists() else []

    def asked(self, step: int) -> bool:
        """Whether the model was asked for this step."""
        return any(ask.place.startswith(f"s{step}-") for ask in self.model.asks)

    def begun(self, step: int, kind: str) -> bool:
        """Whether the tool of this step has done what it does."""
        if kind == "bash":
            return any(line.startswith(f"{self.orders.owner}:{step}:") for line in self.lines(EFFECTS))
        return f"{kind}:{step}" in self.lines(MARKS)

    def crash(self) -> None:
        assert self.agent.process.kill9() == -9
        self.life += 1

    def strike(self, step: int, kind: str, moment: str) -> None:
        """Kills the server at this moment of this step."""
        if moment == "while the model answers":
            eventually(lambda: self.asked(step))
        else:
            eventually(lambda: self.begun(step, kind))
        if moment == "right after it":
            time.sleep(LINGER + 0.02)  # the aim: the tool ends now, and its result is on its way to the disk
        self.crash()


@pytest.fixture
def skilled(start: Start, tmp_path: Path) -> Runtime:
    folder = tmp_path / "skills"
    folder.mkdir()
    (folder / "steps.py").write_text(textwrap.dedent(SKILLS))
    return start(AGENT_MAX_ITERATIONS=80, AGENT_SKILLS_DIR=folder)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_task_survives_a_crash_in_each_of_its_steps(skilled: Runtime) -> None:
    orders = Orders("long", tuple(kind for kind, _ in STEPS), pace=0.02, linger=LINGER)
    work = Work(skilled, orders)
    assert skilled.post("/task", work.body).status_code == 202
    before = skilled.record("long")
    for step, (kind, moment) in enumerate(STEPS):
        work.strike(step, kind, moment)
        skilled.start()
        assert skilled.record("long")["status"] == "running", (step, kind, moment)

    record = skilled.result("long", wait=60)
    assert record["status"] == "complete", record
    assert record["result"] == {"text": answer_to(orders)}
    after = skilled.record("long")
    assert (after["session_id"], after["started_at"]) == (before["session_id"], before["started_at"])
    done = Counter(line.split(":")[1] for line in work.lines(EFFECTS))
    assert done == Counter(str(step) for step in orders.effects), "an effect is missing or happened twice"
    marks = Counter(work.lines(MARKS))
    for step, (kind, moment) in enumerate(STEPS):
        if kind != "bash":
            most = 1 if moment == "while the model answers" else 2
            assert 1 <= marks[f"{kind}:{step}"] <= most, (step, kind, moment)
    assert list(repeats("long", work.model.asks)) == []
    assert list(extends("long", work.model.asks)) == []
    assert [ask.place for ask in work.model.asks][-1] == FINAL
    assert_the_record_is_whole(skilled, work)


def assert_the_record_is_whole(agent: Runtime, work: Work) -> None:
    """The reply is one message: every call in it has its answer, and its stream says what is on record."""
    parts = agent.parts(agent.record(work.orders.owner)["session_id"])
    calls = [part for part in parts if "toolCallId" in part]
    assert {part["state"] for part in calls} <= {"output-available", "output-error"}
    assert len({part["toolCallId"] for part in calls}) == len(calls)
    with agent.stream("GET", f"/task/{work.orders.owner}/stream") as stream:
        said = text_of(stream.rest())
    assert said == "".join(part["text"] for part in parts if part["type"] == "text")


@pytest.mark.parametrize(("kind", "again"), [("look", 2), ("put", 2), ("bash", 1)])
def test_a_call_that_was_cut_off(skilled: Runtime, kind: str, again: int) -> None:
    """What may run again is run again; about anything else the model is told that nobody knows, and looks."""
    orders = Orders("cut", (kind,), linger=LINGER)
    work = Work(skilled, orders)
    skilled.post("/task", work.body)
    session = skilled.record("cut")["session_id"]
    eventually(lambda: any(part.get("state") == "input-available" for part in skilled.parts(session)))
    work.strike(0, kind, "while the tool runs")
    skilled.start()
    assert skilled.result("cut")["status"] == "complete"
    places = [ask.place for ask in work.model.asks]
    if kind == "bash":
        assert places == ["s0-bash-1", "s0-check-1", FINAL]
        [told] = [json.loads(m["content"]) for m in last_messages(skilled) if m.get("tool_call_id") == "s0-bash-1"]
        assert told["type"] == "error"
        assert "unknown" in told["error_text"]
        assert len(work.lines(EFFECTS)) == again
    else:
        assert places == [f"s0-{kind}-1", FINAL]
        assert work.lines(MARKS) == [f"{kind}:0"] * again


def last_messages(agent: Runtime) -> list[dict[str, Any]]:
    return agent.provider.completions[-1].messages


@pytest.mark.slow
def test_three_lives_without_a_step_are_the_end(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace(lambda _: Hang(after=2, reply=Say("never to the end")))
    body = assignment()
    agent.post("/task", body)
    for life in range(1, 4):
        provider.wait_for(life)
        assert agent.record(body["task_id"])["status"] == "running"
        assert agent.process.kill9() == -9
        agent.start()
    record = agent.record(body["task_id"])
    assert (record["status"], record["error_code"]) == ("failed", "interrupted")
    assert len(provider.completions) == 3
    agent.still_works()


@pytest.mark.slow
def test_a_completed_step_begins_the_count_anew(start: Start, provider: ScriptedProvider) -> None:
    """Two lives that complete nothing, one that does, and two again: it goes on."""
    agent = start()
    orders = Orders("slow", ("write", "write"))
    model = Model(lambda: 0)
    hangs = iter([True, True, False, True, True, True, False, False])

    def reply(request: Any) -> Any:
        answer = model(request)
        return Hang(after=1, reply=answer) if next(hangs) else answer

    provider.script.replace(reply)
    agent.post("/task", assignment(task_id="slow", input_data=orders.json()))
    for count in (1, 2, 4, 5, 6):
        provider.wait_for(count)
        assert agent.process.kill9() == -9
        agent.start()
    assert agent.result("slow")["status"] == "complete"
    assert [ask.place for ask in model.asks] == ["s0-write-1"] * 3 + ["s1-write-1"] * 4 + [FINAL]


@pytest.mark.parametrize(("late", "seconds"), [(False, 6.0), (True, 2.0)])
@pytest.mark.slow
def test_the_deadline_keeps_counting(start: Start, provider: ScriptedProvider, late: bool, seconds: float) -> None:
    """A task that is out of time when the server rises, or soon after, ends by its deadline."""
    agent = start()
    provider.script.replace(lambda _: Hang(after=2, reply=Say("never to the end")))
    body = assignment(timeout=seconds)
    agent.post("/task", body)
    provider.wait_for(1)
    began = time.monotonic()
    assert agent.process.kill9() == -9
    if late:
        eventually(lambda: time.monotonic() > began + seconds + 0.1)
    agent.start()
    record = agent.result(body["task_id"])
    assert (record["status"], record["error_code"]) == ("timeout", "deadline_exceeded")
    if not late:
        assert time.monotonic() - began < seconds + 2
    assert len(provider.completions) == (1 if late else 2)
    stored = agent.record(body["task_id"])
    assert stored["finished_at"] - stored["started_at"] >= seconds * 1000
    agent.still_works()


@pytest.mark.slow
def test_a_task_that_goes_on_can_be_watched_and_cancelled(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace(lambda _: Hang(after=2, reply=Say("never to the end")))
    body = assignment()
    agent.post("/task", body)
    provider.wait_for(1)
    assert agent.process.kill9() == -9
    agent.start()
    provider.wait_for(2)
    with agent.stream("GET", f"/task/{body['task_id']}/stream") as stream:
        stream.until("text-delta")
        assert agent.post(f"/task/{body['task_id']}/cancel", None).json()["status"] == "cancelled"
        assert stream.rest()[-1].type == "abort"
    agent.still_works()
