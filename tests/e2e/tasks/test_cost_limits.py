"""An explicit limit on cost binds whichever agent and model do the work, over live HTTP."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import ModelCard, Pricing
from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, assignment, eventually

pytestmark = pytest.mark.slow

DOLLAR = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000}
"""What a call of `priced` reports that costs one US dollar."""
CENT = {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}
LIMIT = {"max_cost_usd": 2.5}


def manifest(agent: Runtime, name: str, **fields: Any) -> None:
    folder = agent.data_dir / "agents"
    folder.mkdir(exist_ok=True)
    known = {"mode": "all", "permissions": {"*": "allow"}, "prompt": f"You are {name}."}
    (folder / f"{name}.json").write_text(json.dumps({**known, **fields}))


def delegate(*names: str, usage: Any = DOLLAR) -> Any:
    """A caller that hands work to these agents, one in each step; every other agent answers at once."""

    def answer(request: Any) -> Any:
        system = str(request.messages[0]["content"])
        if "You are child" in system:
            return Say("done", usage=usage)
        made = sum(message["role"] == "tool" for message in request.messages)
        if made < len(names):
            call = Call("task", {"subagent_type": names[made], "prompt": "work"})
            return Say("", calls=(call,), usage=usage)
        return Say("over", usage=usage)

    return answer


@pytest.fixture
def priced(start: Start) -> Runtime:
    return start(AGENT_MODEL="priced")


def test_the_model_of_the_named_agent_is_the_one_that_needs_a_price(priced: Runtime) -> None:
    manifest(priced, "cheap-talker", model="default")
    body = assignment(agent="cheap-talker", token_budget=LIMIT)
    assert_problem(priced.post("/task", body), 422, "unpriced_model", "token_budget.max_cost_usd")
    assert_problem(priced.get(f"/task/{body['task_id']}"), 404, "unknown_task")
    assert priced.provider.completions == []
    assert priced.run(agent="cheap-talker", token_budget={"max_tokens": 10_000})["status"] == "complete"


def test_an_agent_with_a_priced_model_may_work_though_the_default_has_none(start: Start) -> None:
    agent = start()
    manifest(agent, "accountant", model="priced")
    assert agent.run(agent="accountant", token_budget={"max_cost_usd": 1000})["status"] == "complete"


@pytest.mark.parametrize("inspectable", [False, True])
def test_a_subagent_whose_model_has_no_price_is_refused(priced: Runtime, inspectable: bool) -> None:
    manifest(priced, "child", model="default", inspectable=inspectable)
    priced.provider.script.replace(delegate("child"))
    found = priced.run(token_budget={"max_cost_usd": 100})
    assert found["status"] == "complete"
    assert {request.fields["model"] for request in priced.provider.completions} == {"priced"}
    (envelope,) = [message for message in priced.provider.completions[-1].messages if message["role"] == "tool"]
    assert "unpriced_model" in envelope["content"]
    assert "child" in envelope["content"]


def test_a_subagent_of_a_task_without_such_a_limit_may_use_any_model(priced: Runtime) -> None:
    manifest(priced, "child", model="default")
    priced.provider.script.replace(delegate("child"))
    assert priced.run(token_budget={"max_tokens": 100_000})["status"] == "complete"
    assert {request.fields["model"] for request in priced.provider.completions} == {"priced", "default"}


@pytest.mark.parametrize("inspectable", [False, True])
def test_what_subagents_spend_counts_to_their_callers_limit(priced: Runtime, inspectable: bool) -> None:
    manifest(priced, "child", model="priced", inspectable=inspectable)
    priced.provider.script.replace(delegate("child", "child", "child"))
    found = priced.run(token_budget=LIMIT)
    assert (found["error_code"], found["limit"]) == ("budget_exhausted", "cost")
    assert len(priced.provider.completions) == 3  # caller, child, caller: the second child is not called any more


def test_what_subagents_spent_in_an_earlier_life_counts_too(priced: Runtime) -> None:
    manifest(priced, "child", model="priced", inspectable=True)
    work = delegate("child")

    def hang_at_the_end(request: Any) -> Any:
        answer = work(request)
        return Hang(after=0, reply=answer) if isinstance(answer, Say) and answer.text == "over" else answer

    priced.provider.script.replace(hang_at_the_end)
    task_id = priced.assign(token_budget=LIMIT, timeout=60)
    priced.provider.wait_for(3)
    priced.process.kill9()
    priced.provider.release()
    priced.provider.clear()
    priced.provider.script.replace(delegate("child", "child"))
    priced.start()
    found = priced.result(task_id)
    assert (found["error_code"], found["limit"]) == ("budget_exhausted", "cost")
    assert len(priced.provider.completions) == 1


def test_a_price_that_is_gone_when_the_work_goes_on_ends_it(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MODEL="priced")
    provider.script.replace([Call("glob", {"pattern": "*"}), Hang(after=0, reply=Say("never"))])
    task_id = agent.assign(token_budget={"max_cost_usd": 1000}, timeout=60)
    provider.wait_for(2)
    agent.process.kill9()
    with ScriptedProvider(models=("default", "priced")) as unpriced:
        agent.env["AGENT_LLM_BASE_URL"] = unpriced.url
        agent.start()
        found = agent.result(task_id)
        assert (found["status"], found["error_code"]) == ("failed", "unpriced_model")
        assert unpriced.completions == []


def test_a_summary_is_written_by_a_model_with_a_price(tmp_path: Path) -> None:
    small = ModelCard(id="priced", context_limit=12_000, max_output_tokens=1000, pricing=Pricing(input=1, output=1))
    compaction = json.dumps({"model": "default", "tail_turns": 1})
    with (
        ScriptedProvider(models=("default", small)) as provider,
        Runtime(provider, tmp_path, AGENT_MODEL="priced", AGENT_COMPACTION=compaction) as agent,
    ):
        (agent.data_dir / "workspace" / "long.txt").write_text("all work and no play\n" * 500)

        def answer(request: Any) -> Any:
            if "<conversation>" in request.last_user_text:
                return Say("It read a file.")
            made = sum(message["role"] == "tool" for message in request.messages)
            summed = any("It read a file." in said for said in request.texts)
            return Say("over") if summed or made >= 9 else Call("read", {"path": "long.txt", "offset": made})

        provider.script.replace(answer)
        assert agent.run(token_budget={"max_cost_usd": 1000}, timeout=60)["status"] == "complete"
        summaries = [request for request in provider.completions if "<conversation>" in request.last_user_text]
        assert summaries
        assert {request.fields["model"] for request in provider.completions} == {"priced"}
        eventually(lambda: agent.status()["sessions"]["running"] == 0)


ASKING = """
    from agent_runtime.skills import skill

    @skill(name="ask", description="Ask a model.", parameters={"model": {"type": "string"}})
    async def ask(model: str, *, mesh_client=None):
        return await mesh_client.chat([{"role": "user", "content": "question of a skill"}], model=model)
"""


@pytest.fixture
def skilled(start: Start, tmp_path: Path) -> Runtime:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "ask.py").write_text(textwrap.dedent(ASKING))
    return start(AGENT_MODEL="priced", AGENT_SKILLS_DIR=tmp_path / "skills")


def ask(times: int, model: str = "priced", last: Any = None) -> Any:
    """An agent that calls the skill this often, one call a step."""

    def answer(request: Any) -> Any:
        if "question of a skill" in str(request.messages[-1]["content"]):
            return Say("answer", usage=DOLLAR)
        made = sum(message["role"] == "tool" for message in request.messages)
        if made < times:
            return Say("", calls=(Call("ask", {"model": model}),), usage=CENT)
        return last or Say("over", usage=CENT)

    return answer


def test_the_model_calls_of_skills_count_to_the_limit(skilled: Runtime) -> None:
    skilled.provider.script.replace(ask(5))
    found = skilled.run(token_budget=LIMIT)
    assert (found["error_code"], found["limit"]) == ("budget_exhausted", "cost")
    asked = [request for request in skilled.provider.completions if "question of" in str(request.messages[-1])]
    assert len(asked) == 3  # 2.5 dollars allow a third call


def test_a_skill_that_asks_on_behind_the_limit_is_refused(skilled: Runtime) -> None:
    """One call of a tool asks again and again."""
    (Path(skilled.env["AGENT_SKILLS_DIR"]) / "ask.py").write_text(
        textwrap.dedent(ASKING).replace("    return await", "    for _ in range(9):\n        await")
    )
    skilled.process.kill9()
    skilled.start()
    skilled.provider.script.replace(ask(1))
    found = skilled.run(token_budget=LIMIT)
    assert (found["error_code"], found["limit"]) == ("budget_exhausted", "cost")
    asked = [request for request in skilled.provider.completions if "question of" in str(request.messages[-1])]
    assert len(asked) == 3


def test_a_skill_may_not_ask_a_model_without_a_price(skilled: Runtime) -> None:
    skilled.provider.script.replace(ask(1, model="default"))
    assert skilled.run(token_budget={"max_cost_usd": 100})["status"] == "complete"
    assert {request.fields["model"] for request in skilled.provider.completions} == {"priced"}
    (envelope,) = [message for message in skilled.provider.completions[-1].messages if message["role"] == "tool"]
    assert "no known price" in envelope["content"]


def test_what_skills_asked_in_an_earlier_life_counts_too(skilled: Runtime) -> None:
    skilled.provider.script.replace(ask(2, last=Hang(after=0, reply=Say("over"))))
    task_id = skilled.assign(token_budget=LIMIT, timeout=60)
    skilled.provider.wait_for(5)
    skilled.process.kill9()
    skilled.provider.release()
    skilled.provider.clear()
    skilled.provider.script.replace(ask(5))
    skilled.start()
    found = skilled.result(task_id)
    assert (found["error_code"], found["limit"]) == ("budget_exhausted", "cost")
    asked = [request for request in skilled.provider.completions if "question of" in str(request.messages[-1])]
    assert len(asked) == 1
