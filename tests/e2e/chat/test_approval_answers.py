"""An approval runs the call that was shown to the person who gave it, and no other: not the call of a later turn with
the same id, and not what waits while a text or another member of a group says yes to something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh

RULE = [{"permission": "bash", "pattern": "*", "action": "ask"}]
CALL_ID = "call_0"
"""What a provider that numbers anew gives to the first call of each turn."""
QUESTION = {"questions": [{"question": "Shall I take the shorter one? yes or no"}]}


def asking(agent: Runtime) -> str:
    """A session in which every command needs an approval."""
    session = fresh("s")
    agent.provider.script.replace([Say("hello")])
    assert agent.chat("hi", session_id=session).status_code == 200
    assert agent.http.put(f"/sessions/{session}/permissions", json={"rules": RULE}).status_code == 200
    return session


def ask(agent: Runtime, session: str, command: str, *beside: Call, **more: Any) -> dict[str, Any]:
    """Let the model call `bash`, always under the same id; what waits for a person then."""
    calls = (Call("bash", {"command": command}, id=CALL_ID), *beside)
    agent.provider.script.replace([Say(calls=calls), Say("done")])
    reply = agent.chat(f"run {command}", session_id=session, **more)
    assert reply.status_code == 202, reply.text
    return next(one for one in reply.json()["pending"] if one["kind"] == "approval")


def answer(agent: Runtime, session: str, **given: Any) -> Any:
    return agent.post(f"/chat/{session}/answer", given)


def idle(agent: Runtime, session: str) -> None:
    eventually(lambda: agent.get(f"/sessions/{session}").json()["status"]["state"] == "idle")


def made(agent: Runtime, name: str) -> bool:
    return (agent.data_dir / "workspace" / name).exists()


def assistant(agent: Runtime, session: str) -> dict[str, Any]:
    """The last message of the agent, as a page keeps it."""
    return [one for one in agent.get(f"/sessions/{session}/messages").json()["messages"] if one["role"] != "user"][-1]


def approved(message: dict[str, Any]) -> dict[str, Any]:
    """The page's copy of a message, in which its person has pressed yes."""
    parts = [
        {**part, "state": "approval-responded", "approval": {**part["approval"], "approved": True}}
        if part.get("state") == "approval-requested" else part
        for part in message["parts"]
    ]  # fmt: skip
    return {**message, "parts": parts}


def post_page(agent: Runtime, session: str, message: dict[str, Any], **more: Any) -> Any:
    body = {"id": session, "messages": [message], "trigger": "submit-message", **more}
    return agent.post("/chat", body, Accept="application/json")


def next_turn(agent: Runtime, session: str, name: str) -> None:
    ask(agent, session, f"touch {name}")


def rewound_turn(agent: Runtime, session: str, name: str) -> None:
    """The same message is answered anew, with another command."""
    agent.provider.script.replace([Call("bash", {"command": f"touch {name}"}, id=CALL_ID), Say("done")])
    message = {"id": "again", "role": "user", "parts": [{"type": "text", "text": "run it"}]}
    body = {"id": session, "messages": [message], "trigger": "regenerate-message"}
    reply = agent.post("/chat", body, Accept="application/json")
    assert reply.status_code == 202, reply.text


def finished(output: Any, type: str = "tool-read", **more: Any) -> dict[str, Any]:
    return {"type": type, "toolCallId": fresh("c"), "state": "output-available", "input": {}, "output": output, **more}


@pytest.mark.parametrize(
    "before",
    [
        [finished({"content": "x" * 200_000})] * 45,
        [finished({"rows": [[1, 2, 3]] * 60_000}, "dynamic-tool", toolName="docs__search")],
        [finished({"answers": [["blue"]]}, "tool-question"), finished("x" * 7_000_000)] * 2,
    ],
    ids=["nine megabytes", "240,000 values", "two of seven megabytes"],
)
def test_a_page_approves_with_a_message_that_repeats_the_results_of_a_long_turn(
    agent: Runtime, before: list[dict[str, Any]]
) -> None:
    session, name = asking(agent), fresh("made")
    ask(agent, session, f"touch {name}")
    page = approved(assistant(agent, session))
    reply = post_page(agent, session, {**page, "parts": [*before, *page["parts"]]})
    assert (reply.status_code, reply.json().get("response")) == (200, "done"), reply.text[:300]
    assert made(agent, name)


@pytest.mark.parametrize("then", [next_turn, rewound_turn])
@pytest.mark.parametrize("decision", ["once", "reject"])
def test_an_old_answer_runs_nothing_in_a_later_turn(
    agent: Runtime, then: Callable[[Runtime, str, str], None], decision: str
) -> None:
    session, first, second = asking(agent), fresh("first"), fresh("second")
    old = ask(agent, session, f"touch {first}", message_id="again")
    page = approved(assistant(agent, session))
    assert answer(agent, session, id=old["id"], decision=decision).status_code == 200
    idle(agent, session)
    assert made(agent, first) is (decision == "once")
    then(agent, session, second)
    [new] = agent.get(f"/sessions/{session}").json()["status"]["pending"]
    assert new["tool_call_id"] == old["tool_call_id"]
    for again in (old["id"], CALL_ID, f"approval_{CALL_ID}"):
        assert_problem(answer(agent, session, id=again, decision="once"), 409, "not_waiting")
    assert_problem(post_page(agent, session, page), 409, "not_waiting")
    assert_problem(agent.chat(f"yes {old['code']}", session_id=session), 409, "not_an_answer")
    assert not made(agent, second)
    assert new["id"] != old["id"]
    assert agent.get(f"/sessions/{session}").json()["status"]["pending"] == [new]
    assert post_page(agent, session, approved(assistant(agent, session))).json()["response"] == "done"
    assert made(agent, second)


def test_an_old_answer_runs_nothing_after_a_restart_or_in_a_fork(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    session = asking(agent)
    old = ask(agent, session, "touch first")
    page = approved(assistant(agent, session))
    assert answer(agent, session, id=old["id"], decision="reject").status_code == 200
    idle(agent, session)
    fork = agent.post(f"/sessions/{session}/fork", {}).json()["session_id"]
    assert agent.http.put(f"/sessions/{fork}/permissions", json={"rules": RULE}).status_code == 200
    agent.process.kill9()
    agent.start()
    for branch in (session, fork):
        ask(agent, branch, "touch second")
        assert_problem(answer(agent, branch, id=old["id"], decision="once"), 409, "not_waiting")
        assert_problem(post_page(agent, branch, page), 409, "not_waiting")
        assert_problem(agent.chat(f"yes {old['code']}", session_id=branch), 409, "not_an_answer")
    assert not made(agent, "first")
    assert not made(agent, "second")
    assert provider.completions


def test_one_call_that_is_asked_for_twice_has_two_approvals(agent: Runtime) -> None:
    """The same command under the same id, in the next step and in the next turn."""
    session = asking(agent)
    same = Call("bash", {"command": "echo again"}, id=CALL_ID)
    agent.provider.script.replace([same, same, Say("done"), same, Say("done")])
    seen = [agent.chat("go", session_id=session).json()["pending"][0]]
    for _ in range(2):
        reply = agent.chat(f"yes {seen[-1]['code']}", session_id=session)
        if reply.status_code == 200:
            reply = agent.chat("go on", session_id=session)
        seen.append(reply.json()["pending"][0])
    assert len({one["id"] for one in seen}) == len({one["code"] for one in seen}) == 3
    for old in seen[:-1]:
        assert_problem(answer(agent, session, id=old["id"], decision="once"), 409, "not_waiting")
    assert agent.chat(f"yes {seen[-1]['code']}", session_id=session).json()["response"] == "done"


def test_an_old_answer_to_a_question_answers_no_later_one(agent: Runtime) -> None:
    session = fresh("s")
    asked = Call("question", QUESTION, id=CALL_ID)
    agent.provider.script.replace([asked, Say("thanks"), asked, Say("thanks")])
    [old] = agent.chat("paint", session_id=session).json()["pending"]
    message = assistant(agent, session)
    given = {"state": "output-available", "output": {"answers": [["yes"]]}}
    parts = [part | given if part["type"] == "tool-question" else part for part in message["parts"]]
    page = {**message, "parts": parts}
    assert post_page(agent, session, page).json()["response"] == "thanks"
    [new] = agent.chat("and now", session_id=session).json()["pending"]
    assert new["id"] != old["id"]
    assert_problem(answer(agent, session, id=old["id"], answers=[["yes"]]), 409, "not_waiting")
    assert_problem(post_page(agent, session, page), 409, "not_waiting")
    assert answer(agent, session, id=new["id"], answers=[["no"]]).status_code == 200
    idle(agent, session)


@pytest.mark.parametrize("with_question", [False, True])
def test_a_bare_word_approves_nothing(agent: Runtime, *, with_question: bool) -> None:
    """It may be meant for something else that the model has asked."""
    session, name = asking(agent), fresh("file")
    beside = [Call("question", QUESTION, id="q")] if with_question else []
    waiting = ask(agent, session, f"touch {name}", *beside)
    for text in ("ok", "OK!", "y", "yes", "once", "always", "yes!!!..", "no", "no, use b.txt"):
        refused = assert_problem(agent.chat(text, session_id=session), 409, "not_an_answer")
        assert f"`yes {waiting['code']}` or `no {waiting['code']}`" in refused["detail"]
        assert waiting in refused["pending"]
    assert agent.post(f"/chat/{session}/abort", {}).status_code == 200
    assert not made(agent, name)


def test_a_text_approves_with_the_code_that_every_list_shows(agent: Runtime) -> None:
    session, name = asking(agent), fresh("file")
    agent.provider.script.replace([Call("bash", {"command": f"touch {name}"}, id=CALL_ID), Say("done")])
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": session}) as stream:
        told, request = stream.until("data-approval"), stream.until("tool-approval-request")
        assert isinstance(told, c.DataChunk)
        assert isinstance(request, c.ToolApprovalRequest)
        code = told.data["code"]
        assert re.fullmatch("[A-Z][0-9]", code)
        eventually(lambda: agent.get(f"/sessions/{session}").json()["status"].get("pending"))
        [listed] = [one for one in agent.get("/pending").json()["pending"] if one["session_id"] == session]
        [shown] = agent.get(f"/sessions/{session}").json()["status"]["pending"]
        assert told.id == request.approvalId == listed["id"] == shown["id"]
        assert listed["code"] == shown["code"] == code
        wrong = "yes A3" if code != "A3" else "yes C3"
        for text in (wrong, f"always {code}", f"yes {code} but quietly", f"yes, {code}x", code):
            assert_problem(agent.chat(text, session_id=session), 409, "not_an_answer")
        assert not made(agent, name)
        assert agent.chat(f"Yes {code.lower()}.", session_id=session).json()["response"] == "done"
    assert made(agent, name)
    assert agent.get(f"/sessions/{session}/permissions").json()["rules"][0]["action"] == "ask"


def test_an_approval_that_waits_over_a_restart_is_streamed_as_before(start: Start) -> None:
    agent = start()
    session = asking(agent)
    waiting = ask(agent, session, "touch made")
    seen: list[list[dict[str, Any]]] = []
    for _ in range(2):
        with agent.stream("GET", f"/chat/{session}/stream") as stream:
            stream.until("tool-approval-request")
            seen.append([one.model_dump(exclude_none=True) for one in stream.read[-2:]])
        agent.process.kill9()
        agent.start()
    assert seen[0] == seen[1]
    assert [one["type"] for one in seen[1]] == ["data-approval", "tool-approval-request"]
    assert seen[1][0]["data"]["code"] == waiting["code"]


def test_a_text_chooses_among_several_by_their_codes(agent: Runtime) -> None:
    session, names = asking(agent), [fresh("file") for _ in range(3)]
    calls = (Call("bash", {"command": f"touch {name}"}, id=name) for name in names)
    agent.provider.script.replace([Say(calls=(*calls, Call("question", QUESTION, id="q"))), Say("done")])
    pending = agent.chat("go", session_id=session).json()["pending"]
    codes = {one["tool_call_id"]: one.get("code") for one in pending}
    assert len(set(codes.values())) == 4
    assert agent.chat(f"no {codes[names[0]]}: not that one", session_id=session).json()["status"] == "waiting"
    assert agent.chat(f"yes {codes[names[2]]}", session_id=session).json()["status"] == "waiting"
    assert agent.chat(f"yes {codes[names[1]]}", session_id=session).json()["status"] == "waiting"
    reply = agent.chat("no", session_id=session)  # the question is alone now
    assert (reply.status_code, reply.json()["response"]) == (200, "done"), reply.text
    assert [made(agent, name) for name in names] == [False, True, True]
    results = [one["content"] for one in agent.provider.completions[-1].messages if one["role"] == "tool"]
    assert "not that one" in results[0]


def test_only_the_member_of_a_group_who_was_asked_answers(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    session = asking(agent)
    waiting = ask(agent, session, "touch made", sender="ann")
    page = approved(assistant(agent, session))
    yes = f"yes {waiting['code']}"
    agent.process.kill9()
    provider.script.replace([Say("done"), Call("question", QUESTION, id="q"), Say("thanks")])
    agent.start()
    [listed] = agent.get("/pending").json()["pending"]
    assert (listed["sender"], listed["code"]) == ("ann", waiting["code"])
    for refused in (
        agent.chat(yes, session_id=session, sender="ben"),
        agent.chat(yes, session_id=session),
        answer(agent, session, id=waiting["id"], decision="once", sender="ben"),
        post_page(agent, session, page, sender="ben"),
    ):
        problem = assert_problem(refused, 409, "wrong_sender")
        assert "ann was asked" in problem["detail"]
    assert not made(agent, "made")
    assert agent.chat(yes, session_id=session, sender="ann").json()["response"] == "done"
    assert made(agent, "made")
    assert agent.chat("and now", session_id=session, sender="ben").status_code == 202
    assert_problem(agent.chat("no", session_id=session, sender="ann"), 409, "wrong_sender")
    assert agent.chat("no", session_id=session, sender="ben").json()["response"] == "thanks"
