"""A person answers, over live HTTP: what is asked survives a crash, and a frontend goes on with the same message."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh, text_of, types

ASK = {"questions": [{"question": "Which colour?", "options": [{"label": "blue"}]}]}


def ask(agent: Runtime, *then: Any, **more: Any) -> tuple[str, dict[str, Any]]:
    """A chat that waits; its session and what is pending."""
    agent.provider.script.replace([Call("question", ASK, text="I wonder.", id="q"), *then])
    session = fresh("s")
    reply = agent.chat("paint", session_id=session, message_id="m", **more)
    assert reply.status_code == 202, reply.text
    assert reply.json()["status"] == "waiting"
    (pending,) = reply.json()["pending"]
    return session, pending


def test_a_question_holds_no_slot_and_the_agent_says_that_it_is_blocked(
    start: Start, provider: ScriptedProvider
) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    session, pending = ask(agent, Say("elsewhere"), Say("blue it is"))
    status = agent.status()
    assert (status["state"], status["sessions"]) == ("blocked", {"running": 0, "queued": 0, "waiting": 1})
    assert agent.chat("hi", session_id=fresh("s")).json()["response"] == "elsewhere"
    stands = agent.get(f"/sessions/{session}").json()["status"]
    assert (stands["state"], stands["pending"]) == ("waiting_on_user_input", [pending])
    path = f"/chat/{session}/answer"
    wrong = agent.post(path, {"id": "q", "answers": [["a"], ["b"]]})
    assert_problem(wrong, 422, "invalid_request", "answers")
    assert_problem(agent.post(path, {"id": "p", "answers": [["a"]]}), 409, "not_waiting")
    done = agent.post(path, {"id": "q", "answers": [["blue"]]})
    assert (done.status_code, done.json()["status"]) == (200, "running")
    again = agent.chat("paint", session_id=session, message_id="m").json()
    assert again["response"] == "blue it is"
    assert again["tool_outputs"][0]["output"]["data"] == {"answers": [["blue"]]}
    assert_problem(agent.post(path, {"id": "q", "answers": [["red"]]}), 409, "not_waiting")
    assert agent.status()["state"] == "idle"


@pytest.mark.slow
def test_a_question_and_its_answer_survive_a_crash(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    session, pending = ask(agent)
    agent.process.kill9()
    provider.script.replace([Hang(reply=Say("never heard")), Say("blue it is")])
    agent.start()
    assert agent.status()["state"] == "blocked"
    assert agent.get(f"/sessions/{session}").json()["status"]["pending"] == [pending]
    agent.chat("blocks", session_id=fresh("s"), wait=0)
    eventually(lambda: agent.status()["sessions"]["running"] == 1)
    assert agent.post(f"/chat/{session}/answer", {"id": "q", "answers": [["blue"]]}).status_code == 200
    agent.process.kill9()
    provider.script.replace([Say("blue it is")])
    agent.start()
    reply = agent.chat("paint", session_id=session, message_id="m")
    assert reply.json()["response"] == "blue it is"
    (call,) = [message for message in provider.completions[-1].messages if message["role"] == "tool"]
    assert "blue" in call["content"]


@pytest.mark.slow
def test_a_server_with_turns_that_wait_stops_at_once_and_they_wait_on(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_DRAIN_GRACE=10)
    session, pending = ask(agent)
    with agent.stream("GET", f"/chat/{session}/stream?follow=true") as stream:
        stream.until("tool-input-available")
        began = time.monotonic()
        agent.sigterm()
        with pytest.raises(httpx.RemoteProtocolError):  # the stream is cut off: the turn is not over
            stream.rest()
        assert agent.process.wait(8) == 0
        assert time.monotonic() - began < 8
    agent.start()
    assert agent.get(f"/sessions/{session}").json()["status"]["pending"] == [pending]


def frontend(session: str, message_id: str, *parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {
        "id": session,
        "messages": [{"id": message_id, "role": role, "parts": list(parts)}],
        "trigger": "submit-message",
    }


def test_a_frontend_goes_on_with_the_same_message(agent: Runtime) -> None:
    agent.provider.script.replace([Call("question", ASK, text="I wonder.", id="q"), Say("blue it is")])
    session = fresh("s")
    body = frontend(session, "m", {"type": "text", "text": "paint"})
    with agent.stream("POST", "/chat", body) as stream:
        while stream.next() is not None:
            pass
        first = stream.read
    assert stream.done
    assert types(first)[-2:] == ["finish-step", "finish"]
    finish = first[-1]
    assert isinstance(finish, c.Finish)
    assert finish.finishReason == "tool-calls"
    start = first[0]
    assert isinstance(start, c.Start)
    assert start.messageId
    answered = {"type": "tool-question", "toolCallId": "q", "state": "output-available", "input": ASK, "output": "blue"}
    said = {"type": "text", "text": "I wonder."}
    reply = frontend(session, start.messageId, {"type": "step-start"}, said, answered, role="assistant")
    with agent.stream("POST", "/chat", reply) as stream:
        while stream.next() is not None:
            pass
        second = stream.read
    again = second[0]
    assert isinstance(again, c.Start)
    assert again.messageId == start.messageId
    assert sum(isinstance(chunk, c.Start) for chunk in second) == 1
    assert text_of(second) == "blue it is"
    assert types(second)[-1] == "finish"
    assert_problem(agent.post("/chat", reply), 409, "not_waiting")
    (user, stored) = agent.get(f"/sessions/{session}/messages").json()["messages"]
    assert (user["role"], stored["id"]) == ("user", start.messageId)


def test_a_frontend_that_asks_again_after_a_crash_gets_one_whole_message(
    start: Start, provider: ScriptedProvider
) -> None:
    """It never learnt that its answer was taken: the turn goes on by itself, and the stream begins once."""
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    session, _ = ask(agent)
    (stored,) = [one for one in agent.get(f"/sessions/{session}/messages").json()["messages"] if one["role"] != "user"]
    provider.script.replace([Hang(reply=Say("never heard"))])
    agent.chat("blocks", session_id=fresh("s"), wait=0)
    eventually(lambda: agent.status()["sessions"]["running"] == 1)
    assert agent.post(f"/chat/{session}/answer", {"id": "q", "answers": [["blue"]]}).status_code == 200
    agent.process.kill9()
    provider.clear()
    provider.script.replace([Hang(after=1, reply=Say("blue it is"))])
    agent.start()
    provider.wait_for(1)
    answered = {"type": "tool-question", "toolCallId": "q", "state": "output-available", "input": ASK, "output": "blue"}
    body = frontend(session, stored["id"], {"type": "step-start"}, answered, role="assistant")
    with agent.stream("POST", "/chat", body) as stream:
        stream.until("start")
        provider.release()
        while stream.next() is not None:
            pass
        assert sum(isinstance(chunk, c.Start) for chunk in stream.read) == 1
        assert text_of(stream.read) == "blue it is"
