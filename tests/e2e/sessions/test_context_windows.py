"""What cannot fit into the window of the model in use is refused before it is sent, over live HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_common.protocol import ModelCard
from agent_testing import Call, Garbage, Say, ScriptedProvider
from agent_testing.provider import Recorded

from ..live import Runtime, assert_problem, assignment, fresh

SMALL = 16_000
MODELS = (
    "unknown",
    ModelCard(id="default", context_limit=128_000),
    ModelCard(id="small", context_limit=SMALL),
    ModelCard(id="smaller", context_limit=SMALL),
    ModelCard(id="small-gpt", context_limit=SMALL, upstream="gpt-4o"),
    ModelCard(id="ruled", context_limit=SMALL),
    ModelCard(id="ruled-gpt", context_limit=SMALL, upstream="gpt-4o"),
)
WORDS = "The quick brown fox jumps over the lazy dog. "
LONG = WORDS * 2150
"""About 21,500 tokens."""
RULES = ("-" * 78 + "\n") * 1000
"""1000 tokens that an estimate takes for forty thousand."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with ScriptedProvider(models=MODELS) as provider, Runtime(provider, tmp_path_factory.mktemp("w")) as runtime:
        agents = runtime.data_dir / "agents"
        agents.mkdir(exist_ok=True)
        (agents / "little.json").write_text(json.dumps({"mode": "all", "model": "small", "prompt": "You are little."}))
        assert runtime.get("/capabilities").status_code == 200  # the models are known from here on
        yield runtime


@pytest.fixture(autouse=True)
def quiet(agent: Runtime) -> None:
    agent.provider.clear()
    agent.provider.script.replace(lambda _: Say("ok"))


def asked(agent: Runtime) -> set[str]:
    """The models that were asked for anything."""
    return {request.fields["model"] for request in agent.provider.completions}


@pytest.mark.parametrize("model", ["small", "small-gpt"])
@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
def test_a_message_that_cannot_fit_is_refused_with_both_sizes(agent: Runtime, model: str, path: str) -> None:
    session = fresh("s")
    reply = agent.post(path, {"message": LONG, "model": model, "session_id": session})
    problem = assert_problem(reply, 413, "message_too_long")
    assert 20_000 < problem["message_tokens"] < 30_000
    assert problem["window_tokens"] == SMALL
    assert str(problem["message_tokens"]) in problem["detail"]
    assert str(SMALL) in problem["detail"]
    assert agent.provider.completions == []
    assert_problem(agent.get(f"/sessions/{session}"), 404, "unknown_session")
    assert agent.chat(LONG, session_id=session).json()["response"] == "ok", "a larger model takes it"


def test_where_the_window_is_not_known_the_provider_has_the_word(agent: Runtime) -> None:
    assert agent.chat(WORDS * 15_000, session_id=fresh("s"), model="unknown").json()["response"] == "ok"


def test_a_task_for_an_agent_with_a_small_window_is_refused(agent: Runtime) -> None:
    body = assignment(agent="little", input_data={"text": LONG})
    assert_problem(agent.post("/task", body), 413, "message_too_long")
    assert_problem(agent.get(f"/task/{body['task_id']}"), 404, "unknown_task")
    assert agent.provider.completions == []
    assert agent.run(input_data={"text": LONG})["status"] == "complete"


def test_a_subagent_with_a_small_window_is_not_called(agent: Runtime) -> None:
    call = Call("task", {"subagent_type": "little", "prompt": LONG})
    agent.provider.script.replace([call, Say("over")])
    (output,) = agent.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert output["state"] == "output-error"
    assert str(SMALL) in output["output"]
    assert asked(agent) == {"default"}


@pytest.mark.parametrize("model", ["ruled", "ruled-gpt"])
def test_what_only_looks_long_is_sent(agent: Runtime, model: str) -> None:
    """The models are this test's own: the runtime learns from the answer how many tokens their texts have."""
    assert agent.chat(RULES, session_id=fresh("s"), model=model).json()["response"] == "ok"


def test_a_switch_to_a_smaller_model_compacts_first(agent: Runtime) -> None:
    session = fresh("s")

    def answer(request: Recorded) -> Say:
        return Say("They spoke of foxes." if "<conversation>" in request.last_user_text else "ok")

    agent.provider.script.replace(answer)
    for _ in range(3):
        assert agent.chat(WORDS * 700, session_id=session).status_code == 200
    agent.provider.clear()
    assert agent.chat("and now?", session_id=session, model="smaller").json()["response"] == "ok"
    sent = [request for request in agent.provider.completions if request.fields["model"] == "smaller"]
    assert sent
    assert [len(request.body) for request in sent if len(request.body) > 4.5 * SMALL] == []
    assert any("They spoke of foxes." in said for said in sent[-1].texts)


def test_a_switch_that_cannot_be_made_to_fit_is_refused(agent: Runtime) -> None:
    session = fresh("s")
    assert agent.chat(LONG, session_id=session).status_code == 200

    def answer(request: Recorded) -> Any:
        return Garbage("{}", "application/json") if "<conversation>" in request.last_user_text else Say("ok")

    agent.provider.script.replace(answer)
    agent.provider.clear()
    problem = assert_problem(agent.chat("and now?", session_id=session, model="smaller"), 502, "context_overflow")
    assert str(SMALL) in problem["detail"]
    assert [one for one in agent.provider.completions if "<conversation>" not in one.last_user_text] == []
    agent.provider.script.replace(lambda _: Say("ok"))
    assert agent.chat("and now?", session_id=session, model="default").json()["response"] == "ok"
