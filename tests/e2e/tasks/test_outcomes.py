"""How a turn may end: every row of the outcomes table, each followed by a server that still takes work."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

import pytest

from agent_client import TurnFailed
from agent_client.sync import SyncAgent
from agent_testing import Call, Drop, Fail, Garbage, Hang, Say, ScriptedProvider
from tests.ports import free_port

from ..conftest import MODELS, Start
from ..live import TOKEN, Runtime, assert_problem, assignment, eventually, fresh


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime that loses patience with its model soon."""
    settings = {"AGENT_MODEL_IDLE_TIMEOUT": 0.5, "AGENT_MODEL": "priced", "AGENT_MAX_ROUNDS": 3}
    with (
        ScriptedProvider(models=MODELS) as provider,
        Runtime(provider, tmp_path_factory.mktemp("hasty"), **settings) as runtime,
    ):
        yield runtime


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("answer", "result", "promoted"),
    [
        ('{"result": {"total": 3}, "promote": {"key": [1]}}', {"total": 3}, {"key": [1]}),
        ('{"result": {"total": 3}}', {"total": 3}, {}),
        ('```json\n{"result": {"total": 3}}\n```', {"total": 3}, {}),
        ("It is three.", {"text": "It is three."}, {}),
        ('{"total": 3}', {"text": '{"total": 3}'}, {}),
        ('{"result": 3}', {"text": '{"result": 3}'}, {}),
        ("[1, 2]", {"text": "[1, 2]"}, {}),
    ],
)
def test_the_final_answer_is_json_or_prose(agent: Runtime, answer: str, result: object, promoted: object) -> None:
    agent.provider.script.replace([Say(answer)])
    found = agent.run()
    assert (found["status"], found["error_code"], found["limit"]) == ("complete", None, None)
    assert (found["result"], found["promote_to_blackboard"]) == (result, promoted)


@pytest.mark.parametrize(
    ("step", "limit"),
    [
        (Say(""), "empty_answer"),
        (Say("cut o", finish_reason="length"), "output"),
        (Say("cut o", finish_reason="content_filter"), "content_filter"),
    ],
)
def test_an_answer_that_is_none_says_so(agent: Runtime, step: Say, limit: str) -> None:
    agent.provider.script.replace([step])
    found = agent.run()
    assert (found["status"], found["limit"], found["result"]) == ("complete", limit, {"text": step.text})


BLANK = {
    "line ends": ("\n\n",),
    "blanks and tabs": ("  ", "\t ", "\r\n"),
    "blanks of other scripts": ("\u00a0\u3000", "\u2003"),
    "signs without a width": ("\u200b", "\ufeff\u2060"),
    "fillers and selectors": ("\u2800 \u3164", "\ufe0f\U000e0041\u034f"),
    "many": ("\n" * 6000,) * 3,
}


@pytest.mark.parametrize("pieces", BLANK.values(), ids=BLANK.keys())
def test_an_answer_without_a_visible_sign_is_marked_as_empty(agent: Runtime, pieces: tuple[str, ...]) -> None:
    agent.provider.script.replace(None, Say(pieces=pieces))
    found = agent.run()
    assert (found["status"], found["limit"], found["result"]["text"].strip()) == ("complete", "empty_answer", "")
    reply = agent.chat("go", session_id=fresh("s")).json()
    assert (reply["limit"], reply["response"].strip()) == ("empty_answer", "")


def test_an_endpoint_that_does_not_stream_is_understood(agent: Runtime) -> None:
    whole = {"choices": [{"message": {"role": "assistant", "content": "at once"}, "finish_reason": "stop"}]}
    agent.provider.script.replace([Garbage(json.dumps(whole), "application/json")])
    assert agent.run()["result"] == {"text": "at once"}


# ---------------------------------------------------------------- limits


def test_the_last_step_of_a_task_is_an_answer_without_tools(agent: Runtime) -> None:
    counter = iter(range(1000))

    def keeps_calling(_: object) -> Call:
        return Call("glob", {"pattern": f"nothing-{next(counter)}"}, text="Still looking.")

    agent.provider.script.replace(keeps_calling)
    found = agent.run()
    assert (found["status"], found["limit"], found["error_code"]) == ("complete", "iterations", None)
    assert found["result"] == {"text": "Still looking."}
    asked = agent.provider.completions
    assert len(asked) == 20
    assert {request.json["tool_choice"] for request in asked[:19]} == {"auto"}
    assert asked[19].json["tool_choice"] == "none"
    assert asked[19].json["tools"] == asked[0].json["tools"]
    for before, after in itertools.pairwise(asked):
        assert after.messages[: len(before.messages)] == before.messages
    agent.still_works()


def test_the_last_round_of_a_chat_is_an_answer_without_tools(hasty: Runtime) -> None:
    hasty.provider.clear()
    hasty.provider.script.replace([Call("glob", {"pattern": str(n)}) for n in range(2)], otherwise=Say("so far"))
    body = hasty.chat("go", session_id=fresh("s")).json()
    assert (body["response"], body["limit"], body["finish_reason"]) == ("so far", "iterations", "stop")
    assert [request.json["tool_choice"] for request in hasty.provider.completions] == ["auto", "auto", "none"]


def test_calls_that_repeat_themselves_are_warned_about_then_stopped(agent: Runtime) -> None:
    agent.provider.script.replace(lambda _: Call("glob", {"pattern": "the-same-again"}, text="Once more."))
    found = agent.run()
    assert found["status"] == "complete"
    assert found["limit"] is not None
    asked = agent.provider.completions
    assert len(asked) < 20
    assert asked[-1].json["tool_choice"] == "none"
    told = [message["content"] for message in asked[-1].messages if message["role"] == "tool"]
    assert "warning" not in told[0]
    assert "warning" in told[-1]
    agent.still_works()


def test_a_budget_of_tokens_ends_with_what_there_is(agent: Runtime) -> None:
    spent = {"prompt_tokens": 400, "completion_tokens": 100}
    steps = [Call("write", {"path": f"{n}.txt", "content": "x"}, text=f"Step {n}.") for n in range(9)]
    agent.provider.script.replace([Say(step.text, calls=(step,), usage=spent) for step in steps])
    found = agent.run(token_budget={"max_tokens": 1200, "used_tokens": 300})
    assert (found["status"], found["error_code"], found["limit"]) == ("failed", "budget_exhausted", "tokens")
    assert found["tokens_used"] == 1000
    assert found["error"]
    assert found["result"]["partial"] is True
    assert "Step" in found["result"]["text"]
    assert len(agent.provider.completions) == 2
    agent.still_works()


def test_a_budget_that_is_just_enough_is_enough(agent: Runtime) -> None:
    agent.provider.script.replace([Say("done", usage={"prompt_tokens": 400, "completion_tokens": 100})])
    found = agent.run(token_budget={"max_tokens": 500})
    assert (found["status"], found["limit"]) == ("complete", None)


def test_a_budget_that_was_spent_before_buys_nothing(agent: Runtime) -> None:
    found = agent.run(token_budget={"max_tokens": 500, "used_tokens": 500})
    assert (found["status"], found["error_code"]) == ("failed", "budget_exhausted")
    assert agent.provider.completions == []


def test_a_budget_of_dollars_ends_with_what_there_is(hasty: Runtime) -> None:
    hasty.provider.clear()
    spent = {"prompt_tokens": 1000, "completion_tokens": 500}  # two dollars at the catalog's price
    steps = [Call("glob", {"pattern": str(n)}, text=f"Step {n}.") for n in range(9)]
    hasty.provider.script.replace([Say(step.text, calls=(step,), usage=spent) for step in steps])
    found = hasty.run(token_budget={"max_cost_usd": 3.5, "estimated_cost_usd": 1.0})
    assert (found["status"], found["error_code"], found["limit"]) == ("failed", "budget_exhausted", "cost")
    assert found["usage"]["cost_usd"] == pytest.approx(4.0)
    assert found["result"]["partial"] is True
    assert len(hasty.provider.completions) == 2
    hasty.still_works()


def test_the_cost_of_a_priced_model_is_told(hasty: Runtime) -> None:
    hasty.provider.script.replace([Say("so", usage={"prompt_tokens": 100, "completion_tokens": 50})])
    assert hasty.chat("go", session_id=fresh("s")).json()["usage"]["cost_usd"] == pytest.approx(0.2)


def test_a_limit_on_the_cost_of_an_unpriced_model_is_refused(agent: Runtime) -> None:
    body = assignment(token_budget={"max_cost_usd": 1.0})
    assert_problem(agent.post("/task", body), 422, "unpriced_model", "token_budget.max_cost_usd")
    assert_problem(agent.get(f"/task/{body['task_id']}"), 404, "unknown_task")
    assert agent.run(token_budget={"max_tokens": 100_000})["status"] == "complete"


def test_a_limit_on_the_cost_is_judged_once_and_only_by_a_mesh_that_answers(
    start: Start, provider: ScriptedProvider
) -> None:
    agent = start(AGENT_MODEL="priced")
    body = assignment(token_budget={"max_cost_usd": 1000.0})
    assert agent.post("/task", body).status_code == 202
    agent.result(body["task_id"])
    agent.env["AGENT_LLM_BASE_URL"] = f"http://127.0.0.1:{free_port()}/v1"
    agent.start()
    assert agent.post("/task", body).status_code == 200
    unpriced = agent.post("/task", {**body, "task_id": fresh("task")})
    assert_problem(unpriced, 503, "mesh_unavailable")
    assert "retry-after" in unpriced.headers


# ---------------------------------------------------------------- deadlines


def test_the_deadline_passes_while_the_model_hangs(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(after=2, reply=Say("half of it"))])
    started = time.monotonic()
    found = agent.run(timeout=1.0)
    assert 1 <= time.monotonic() - started < 30
    assert (found["status"], found["error_code"], found["limit"]) == ("timeout", "deadline_exceeded", "deadline")
    assert 1000 <= found["duration_ms"] < 30_000
    assert found["result"]["partial"] is True
    assert found["result"]["text"] == "half of "
    agent.still_works()


def test_the_deadline_passes_while_a_tool_runs(agent: Runtime) -> None:
    agent.provider.script.replace([Call("bash", {"command": "echo $$; sleep 300"}, text="I wait.")])
    started = time.monotonic()
    found = agent.run(timeout=2.0)
    assert 2 <= time.monotonic() - started < 30
    assert (found["status"], found["error_code"]) == ("timeout", "deadline_exceeded")
    [call] = [part for part in agent.parts(found["session_id"]) if part["type"] == "tool-bash"]
    assert call["state"] == "output-error"
    assert found["result"]["tool_calls"] == 1
    agent.still_works()


def test_the_deadline_passes_while_the_model_is_asked_again(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(429, retry_after=30)])
    started = time.monotonic()
    found = agent.run(timeout=0.5)
    assert time.monotonic() - started < 10
    assert (found["status"], found["error_code"]) == ("timeout", "deadline_exceeded")


def test_the_status_says_why_a_model_is_asked_again(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(429, "slow down", retry_after=30)])
    task_id = agent.assign()
    assert "slow down" in eventually(lambda: agent.status()["retrying"])
    agent.post(f"/task/{task_id}/cancel", {})
    assert agent.result(task_id)["status"] == "cancelled"
    assert agent.status()["retrying"] is None


@pytest.mark.slow
def test_a_chat_turn_that_takes_too_long_is_504(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_TURN_TIMEOUT=0.3)
    provider.script.replace([Hang(after=1, reply=Say("half of it")), Hang(after=1, reply=Say("half of it"))])
    problem = assert_problem(agent.chat("go"), 504, "deadline_exceeded")
    assert problem["response"] == "half "
    assert problem["session_id"]
    with SyncAgent(agent.url, TOKEN) as client, pytest.raises(TurnFailed) as caught:
        client.ask("go")
    assert (caught.value.code, caught.value.reply.text) == ("deadline_exceeded", "half ")
    agent.still_works()


def test_a_running_tool_is_cancelled_within_a_second(agent: Runtime) -> None:
    agent.provider.script.replace([Call("bash", {"command": "sleep 300"})])
    task_id = agent.assign()
    with agent.stream("GET", f"/task/{task_id}/stream") as stream:
        stream.until("tool-input-available")
        record = agent.http.post(f"/task/{task_id}/cancel", timeout=1).json()
        stream.rest()
    assert (record["status"], record["error_code"]) == ("cancelled", "cancelled")
    agent.still_works()


# ---------------------------------------------------------------- the provider fails


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Fail(401, "no such key"), "model_auth"),
        (Fail(403, "not for you"), "model_auth"),
        (Fail(404, "no such route"), "model_config"),
        (Fail(400, "bad parameter"), "model_config"),
        (Fail(400, "too long", code="context_length_exceeded"), "context_overflow"),
        (Fail(429, "out of money", code="insufficient_quota"), "model_quota"),
    ],
)
def test_a_refusal_is_final_and_typed(agent: Runtime, step: Fail, code: str) -> None:
    agent.provider.script.replace([step])
    found = agent.run()
    assert (found["status"], found["error_code"]) == ("failed", code)
    assert step.message in found["error"]
    assert len(agent.provider.completions) == 1
    agent.provider.script.replace([step])
    assert_problem(agent.chat("go", session_id=fresh("s")), 502, code)
    agent.still_works()


@pytest.mark.parametrize("step", [Fail(500), Fail(503), Fail(429, retry_after=0.05), Drop(after=0), Garbage()])
def test_a_hiccup_before_the_first_token_is_got_over(agent: Runtime, step: Fail | Drop | Garbage) -> None:
    agent.provider.script.replace([step, Say("at last")])
    found = agent.run()
    assert (found["status"], found["result"]) == ("complete", {"text": "at last"})
    assert len(agent.provider.completions) == 2


@pytest.mark.parametrize(
    "step",
    [
        Fail(500),
        Fail(503, retry_after=3600),
        Drop(after=0),
        Garbage(),
        Garbage("<html>proxy says no</html>", "text/html"),
        Garbage("", "text/event-stream"),
        Garbage('{"choices": []}', "application/json"),
        Garbage('data: {"choices": 5}\n\ndata: [DONE]\n\n'),
        Garbage('data: {"choices": [{"delta": {"content": 5}}]}\n\ndata: [DONE]\n\n'),
        Garbage('data: {"choices": [{"delta": {"content": "x"}}]}\n\n', length=1000),
        Drop(after=2, clean=True),
    ],
)
def test_a_provider_that_stays_broken_is_unavailable(agent: Runtime, step: Fail | Drop | Garbage) -> None:
    agent.provider.script.replace(lambda _: step)
    found = agent.run()
    assert (found["status"], found["error_code"]) == ("failed", "model_unavailable")
    assert found["error"]
    agent.still_works()


def test_retry_after_is_waited_for(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(429, retry_after=0.6), Say("at last")])
    assert agent.run()["status"] == "complete"
    first, second = agent.provider.completions
    assert 0.6 <= second.received_at - first.received_at < 1.6


def test_a_model_that_falls_silent_is_given_up(hasty: Runtime) -> None:
    hasty.provider.script.replace([Hang(after=2, reply=Say("half of it"))])
    found = hasty.run()
    assert (found["status"], found["error_code"]) == ("failed", "model_unavailable")
    assert found["result"]["text"] == "half of "
    hasty.still_works()


@pytest.mark.slow
def test_nobody_listens_where_the_model_should_be(start: Start, provider: ScriptedProvider) -> None:
    port = free_port()
    agent = start(AGENT_LLM_BASE_URL=f"http://127.0.0.1:{port}/v1")
    found = agent.run()
    assert (found["status"], found["error_code"]) == ("failed", "model_unavailable")
    assert_problem(agent.chat("go"), 502, "model_unavailable")
    assert agent.get("/capabilities").status_code == 200
    status = agent.status()
    assert (status["state"], status["mesh"]) == ("idle", "unreachable")
    assert agent.get("/readyz").status_code == 200
    with ScriptedProvider([Say("back")], port=port):
        assert agent.run()["result"] == {"text": "back"}


# ---------------------------------------------------------------- further attempts


def test_a_stream_that_drops_is_tried_again_where_the_task_allows_it(agent: Runtime) -> None:
    agent.provider.script.replace([Drop(after=2, reply=Say("half of it")), Say("all of it")])
    found = agent.run(max_retries=1)
    assert (found["status"], found["result"]) == ("complete", {"text": "all of it"})
    record = agent.record(found["task_id"])
    assert record["attempts"] == 2
    assert len(agent.provider.completions) == 2
    assert "half of" not in str(agent.provider.completions[1].messages)


def test_without_retries_a_stream_that_drops_is_a_failure(agent: Runtime) -> None:
    agent.provider.script.replace([Drop(after=2, reply=Say("half of it"))])
    found = agent.run()
    assert (found["status"], found["error_code"]) == ("failed", "model_unavailable")
    assert found["result"]["text"] == "half of "
    assert len(agent.provider.completions) == 1
    agent.still_works()


def test_attempts_run_out(agent: Runtime) -> None:
    agent.provider.script.replace(lambda _: Drop(after=1))
    found = agent.run(max_retries=1)
    assert (found["status"], found["error_code"]) == ("failed", "model_unavailable")
    assert agent.record(found["task_id"])["attempts"] == 2
    assert len(agent.provider.completions) == 2


def test_what_no_attempt_can_mend_is_not_tried_again(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(401)])
    assert agent.run(max_retries=5)["error_code"] == "model_auth"
    assert len(agent.provider.completions) == 1


def test_an_attempt_goes_on_after_the_tools_that_ran(agent: Runtime) -> None:
    agent.provider.script.replace([
        Call("bash", {"command": "echo once >> ran.txt"}),
        Drop(after=1, reply=Say("so it goes on")),
        Say("done"),
    ])  # fmt: skip
    found = agent.run(max_retries=1)
    assert found["result"] == {"text": "done"}
    assert (agent.data_dir / "workspace/ran.txt").read_text() == "once\n"


# ---------------------------------------------------------------- the model's own mistakes


def test_broken_arguments_are_told_to_the_model(agent: Runtime) -> None:
    agent.provider.script.replace([Call("read", '{"path": "a.tx', id="c1"), Say("sorry")])
    body = agent.chat("go", session_id=fresh("s")).json()
    assert body["response"] == "sorry"
    [call] = body["tool_outputs"]
    assert (call["name"], call["state"]) == ("read", "output-error")
    assert "JSON" in call["output"]
    [told] = [message for message in agent.provider.completions[1].messages if message["role"] == "tool"]
    assert told["tool_call_id"] == "c1"
    assert "JSON" in told["content"]
    [assistant] = [m for m in agent.provider.completions[1].messages if m["role"] == "assistant"]
    assert assistant["tool_calls"][0]["id"] == "c1"


def test_a_model_that_only_stutters_is_stopped(agent: Runtime) -> None:
    agent.provider.script.replace(lambda _: Call("read", "{{{", text="Hm."))
    found = agent.run()
    assert found["status"] == "complete"
    assert found["limit"] is not None
    assert agent.provider.completions[-1].json["tool_choice"] == "none"
    assert len(agent.provider.completions) <= 4


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (Call("no_such_tool", {"a": 1}), "no_such_tool"),
        (Call("read", {}), "path"),
        (Call("read", {"path": {}}), "path"),
        (Call("read", {"path": "../../../etc/shadow"}), "path"),
        (Call("read", "[1]"), "object"),
        (Call("read", ""), "path"),
        (Call("bash", {"command": "exit 3", "volume": 11}), "volume"),
    ],
)
def test_a_call_that_cannot_be_made_is_an_answer_to_the_model(agent: Runtime, call: Call, word: str) -> None:
    agent.provider.script.replace([call, Say("I see")])
    body = agent.chat("go", session_id=fresh("s")).json()
    assert body["response"] == "I see"
    assert [output["state"] for output in body["tool_outputs"]] == ["output-error"]
    assert word in agent.provider.completions[1].messages[-1]["content"]


def test_a_command_that_fails_is_an_output_that_says_so(agent: Runtime) -> None:
    agent.provider.script.replace([Call("bash", {"command": "echo no >&2; exit 3"}), Say("I see")])
    [call] = agent.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert call["output"]["data"]["exit_code"] == 3
    assert call["output"]["data"]["stderr"] == "no\n"


@pytest.mark.slow
def test_a_tool_that_never_returns_meets_its_own_deadline(agent: Runtime) -> None:
    agent.provider.script.replace([Call("bash", {"command": "echo on; sleep 300", "timeout_ms": 2000}), Say("I see")])
    [call] = agent.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert call["state"] == "output-available"
    assert call["output"]["data"]["timed_out"] is True
    assert call["output"]["data"]["stdout"] == "on\n"


def test_two_calls_with_one_id_are_two_calls(agent: Runtime) -> None:
    agent.provider.script.replace([
        Call("glob", {"pattern": "a"}, id="same"), Call("glob", {"pattern": "b"}, id="same"), Say("done"),
    ])  # fmt: skip
    outputs = agent.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert len({output["id"] for output in outputs}) == 2
    told = [message["tool_call_id"] for message in agent.provider.completions[2].messages if message["role"] == "tool"]
    assert len(set(told)) == 2
