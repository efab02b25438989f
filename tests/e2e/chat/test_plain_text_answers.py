"""A person answers in plain text, as in any chat: no id, no second route."""

from __future__ import annotations

from typing import Any

import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh, in_background, text_of

COLOURS = [{"label": "Deep blue"}, {"label": "Red"}, {"label": "Green"}]
PICK = {"questions": [{"question": "Which colour?", "options": COLOURS}]}
SEVERAL = {"questions": [{"question": "Which colours?", "options": COLOURS, "multi_select": True}]}
OPEN = {"questions": [{"question": "Which colour?"}]}
RULE = [{"permission": "write", "pattern": "*", "action": "ask"}]
WRITE = {"path": "a.txt", "content": "hello"}


def asked(agent: Runtime, question: dict[str, Any], *then: Any) -> tuple[str, dict[str, Any]]:
    """A chat that waits for an answer to `question`; its session, and what is pending."""
    eventually(lambda: agent.status()["state"] == "idle")  # what other tests have left behind is over
    agent.provider.script.replace([Call("question", question, text="I wonder.", id="q"), *then])
    session = fresh("s")
    reply = agent.chat("paint", session_id=session, message_id="m1")
    assert reply.status_code == 202, reply.text
    [pending] = reply.json()["pending"]
    return session, pending


def heard(agent: Runtime) -> str:
    """What the model was told as the result of its call."""
    [result] = [one for one in agent.provider.completions[-1].messages if one["role"] == "tool"]
    return result["content"]


@pytest.mark.parametrize(
    ("question", "said", "taken"),
    [
        (OPEN, "a warm grey", ["a warm grey"]),
        (PICK, "deep BLUE", ["Deep blue"]),
        (PICK, "2", ["Red"]),
        (PICK, "none of these", ["none of these"]),
        (SEVERAL, "3, deep blue", ["Green", "Deep blue"]),
        (SEVERAL, "blue, but darker", ["blue, but darker"]),
    ],
)
def test_plain_text_answers_the_one_open_question(
    agent: Runtime, question: dict[str, Any], said: str, taken: list[str]
) -> None:
    session, _ = asked(agent, question, Say("painted"))
    reply = agent.chat(said, session_id=session, message_id="m2")
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert (body["response"], body["message_id"], body["session_id"]) == ("painted", "m2", session)
    assert body["tool_outputs"][0]["output"]["data"] == {"answers": [taken]}
    assert taken[0] in heard(agent)
    again = agent.chat(said, session_id=session, message_id="m2")  # the same message is the same answer
    assert (again.status_code, again.json()["response"]) == (200, "painted")
    assert_problem(agent.chat("other", session_id=session, message_id="m2"), 409, "message_conflict")


@pytest.mark.parametrize(("said", "runs"), [("Yes CODE.", True), ("no CODE", False), ("no CODE, use b.txt", False)])
def test_yes_and_no_with_its_code_answer_an_approval(agent: Runtime, said: str, *, runs: bool) -> None:
    session = fresh("s")
    agent.provider.script.replace([Say("hello"), Call("write", WRITE, id="w"), Say("done")])
    agent.chat("hi", session_id=session)
    assert agent.http.put(f"/sessions/{session}/permissions", json={"rules": RULE}).status_code == 200
    [waiting] = agent.chat("save it", session_id=session).json()["pending"]
    assert waiting["kind"] == "approval"
    refused = assert_problem(agent.chat("what would that do?", session_id=session), 409, "not_an_answer")
    assert refused["pending"][0]["tool"] == "write"
    assert f"write `yes {waiting['code']}` or `no {waiting['code']}`" in refused["detail"]
    reply = agent.chat(said.replace("CODE", waiting["code"]), session_id=session)
    assert (reply.status_code, reply.json()["response"]) == (200, "done"), reply.text
    assert (reply.json()["tool_outputs"][0]["state"] == "output-available") is runs
    assert ("use b.txt" in heard(agent)) is ("b.txt" in said)
    [kept] = agent.get(f"/sessions/{session}/permissions").json()["rules"]
    assert kept["action"] == "ask"


def test_what_cannot_be_an_answer_is_refused_and_shows_what_is_open(agent: Runtime) -> None:
    two = {"questions": [{"question": "Which colour?"}, {"question": "Which brush?"}]}
    session, pending = asked(agent, two, Say("painted"))
    for text, more in (("blue", {}), ("blue", {"model": "other"}), ("blue", {"agent": "plan"})):
        refused = assert_problem(agent.chat(text, session_id=session, **more), 409, "not_an_answer")
        assert refused["pending"] == [pending]
        assert f"/chat/{session}/answer" in refused["detail"]
    assert agent.get(f"/sessions/{session}").json()["status"]["pending"] == [pending]
    queued = agent.chat("later", session_id=session, on_busy="queue", wait=0)
    assert (queued.status_code, queued.json()["status"], queued.json()["pending"]) == (202, "queued", [pending])
    answered = {"id": pending["id"], "answers": [["blue"], ["broad"]]}
    assert agent.post(f"/chat/{session}/answer", answered).status_code == 200


DATA = {"type": "data-place", "data": {"page": 3}}


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        ({"message": "   "}, 422, "invalid_request"),
        ({"message": "\n\u200b"}, 422, "invalid_request"),
        ({"parts": [{"type": "text", "text": ""}]}, 422, "invalid_request"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": " "}]}]}, 422, "invalid_request"),
        ({"parts": [DATA, {"type": "text", "text": " "}]}, 409, "not_an_answer"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": ""}, DATA]}]}, 409, "not_an_answer"),
    ],
)
def test_blanks_are_no_answer(agent: Runtime, message: dict[str, Any], status: int, code: str) -> None:
    session, pending = asked(agent, OPEN, Say("painted"))
    body = {**message, "id" if "messages" in message else "session_id": session, "on_busy": "answer"}
    assert_problem(agent.post("/chat", body), status, code)
    assert agent.get(f"/sessions/{session}").json()["status"]["pending"] == [pending]
    reply = agent.chat("blue", session_id=session)
    assert (reply.status_code, reply.json()["response"]) == (200, "painted")


def test_every_202_and_data_queue_says_what_is_open(agent: Runtime) -> None:
    session, pending = asked(agent, OPEN, Say("painted"), Say("and then"), Say("and last"))
    again = agent.chat("paint", session_id=session, message_id="m1", wait=0)
    assert (again.status_code, again.json()["pending"]) == (202, [pending])
    with agent.stream("POST", "/chat/stream", {"message": "b", "session_id": session, "on_busy": "queue"}) as stream:
        place = stream.next()
        assert isinstance(place, c.DataChunk)
        assert place.type == "data-queue"
        assert place.data["pending"] == [pending]
        assert agent.chat("blue", session_id=session).json()["response"] == "painted"
        stream.rest()
    agent.provider.clear()
    agent.provider.script.replace([Hang(reply=Say("slow"))])
    running = agent.chat("slowly", session_id=session, wait=0)
    assert (running.status_code, running.json()["status"], running.json()["pending"]) == (202, "running", [])
    agent.provider.wait_for(1)
    agent.provider.release()


def test_a_stream_that_answers_goes_on_where_the_turn_waited(agent: Runtime) -> None:
    session, _ = asked(agent, OPEN, Say("painted"))
    body = {"message": "blue", "session_id": session, "message_id": "m2"}
    with agent.stream("POST", "/chat/stream", body) as stream:
        start = stream.next()
        assert isinstance(start, c.Start)
        metadata = start.messageMetadata
        assert isinstance(metadata, dict)
        assert (metadata["message_id"], metadata["pending"]) == ("m2", [])
        while stream.next() is not None:
            pass
    assert stream.done
    assert text_of(stream.read) == "painted"


def test_a_frontend_queues_unless_it_asks_to_answer(agent: Runtime) -> None:
    session, _ = asked(agent, OPEN, Say("painted"), Say("and then"))
    message: dict[str, Any] = {"id": "f1", "role": "user", "parts": [{"type": "text", "text": "blue"}]}
    body = {"id": session, "messages": [message]}
    plain = {"Accept": "application/json"}
    thread, got = in_background(lambda: agent.post("/chat", body, **plain))
    [waiting] = eventually(lambda: agent.get(f"/sessions/{session}").json()["queue"])
    assert waiting["message_id"] == "f1"
    reply = agent.post("/chat", {**body, "messages": [{**message, "id": "f2"}], "on_busy": "answer"}, **plain)
    assert (reply.status_code, reply.json()["response"]) == (200, "painted")
    thread.join(10)
    assert got[0].json()["response"] == "and then"


@pytest.mark.slow
def test_an_answer_in_plain_text_survives_a_crash(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    session, _ = asked(agent, PICK)
    calls = len(provider.completions)
    provider.script.replace([Hang(reply=Say("never heard"))])
    assert agent.chat("1", session_id=session, message_id="m2", wait=0).status_code == 202
    provider.wait_for(calls + 1)  # killed before it has asked the model, the turn would go on
    agent.process.kill9()
    provider.script.replace([Say("still here")])
    agent.start()
    again = agent.chat("1", session_id=session, message_id="m2")
    assert_problem(again, 500, "interrupted")
    assert again.json()["tool_outputs"][0]["output"]["data"] == {"answers": [["Deep blue"]]}
    reply = agent.chat("go on", session_id=session)
    assert reply.json()["response"] == "still here"
    told = [one["content"] for one in provider.completions[-1].messages if one["role"] == "user"]
    assert not [text for text in told if text.strip() == "1"], "the answer is told twice"
    texts = [one["parts"][0]["text"] for one in agent.get(f"/sessions/{session}/messages").json()["messages"]
             if one["role"] == "user"]  # fmt: skip
    assert texts == ["paint", "1", "go on"]
