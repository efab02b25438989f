"""A chat frontend: `/chat` as JSON and as a stream, `useChat`'s own body, who may see what, and a busy session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Fail, Hang, Say

from ..conftest import Start
from ..live import PATIENCE, Runtime, assert_problem, eventually, fresh, in_background, text_of, types

REPLY = {
    *("session_id", "message_id", "response", "tool_outputs", "usage", "tokens_used", "finish_reason", "limit"),
}
SSE = {"Accept": "text/event-stream"}


def use_chat(text: str, **more: Any) -> dict[str, Any]:
    """What the AI SDK's DefaultChatTransport posts."""
    message = {"id": fresh("ui"), "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": fresh("chat"), "messages": [message], "trigger": "submit-message", **more}


# ---------------------------------------------------------------- the reply


def test_a_json_reply_has_all_its_fields(agent: Runtime) -> None:
    agent.provider.script.replace([
        Call("write", {"path": "hello.txt", "content": "hi"}, id="call_1"),
        Say("I wrote it.", usage={"prompt_tokens": 100, "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 5}}),
    ])  # fmt: skip
    reply = agent.chat("write a file", session_id=fresh("s"))
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert REPLY - {"limit"} <= body.keys() <= REPLY
    assert body["response"] == "I wrote it."
    [call] = body["tool_outputs"]
    assert call.keys() == {"id", "name", "input", "output", "state"}
    assert (call["id"], call["name"], call["state"]) == ("call_1", "write", "output-available")
    assert call["input"] == {"path": "hello.txt", "content": "hi"}
    assert call["output"]["type"] == "output"
    first = agent.provider.completions[0]
    assert body["usage"]["cache_read"] == 30
    assert body["usage"]["reasoning"] == 5
    assert body["usage"]["input"] == 70 + -(-len(first.body) // 4)
    assert body["tokens_used"] == sum(body["usage"][key] for key in body["usage"] if key != "cost_usd")
    assert body["finish_reason"] == "stop"
    assert body.get("limit") is None


def test_without_a_session_the_principal_goes_on_in_the_main_one(agent: Runtime) -> None:
    user = fresh("user")
    agent.provider.script.replace([Say("hello ann"), Say("you said hello"), Say("fresh")])
    first = agent.chat("hello", user=user).json()
    second = agent.chat("what did I say?", user=user).json()
    assert second["session_id"] == first["session_id"]
    said = agent.provider.completions[1].texts
    assert said == ["hello", "hello ann", "what did I say?"]

    reset = agent.post("/chat/reset", {"user": user})
    assert reset.status_code == 200
    assert reset.json().keys() == {"session_id", "archived"}
    assert reset.json()["archived"] == first["session_id"] != reset.json()["session_id"]
    third = agent.chat("hello?", user=user).json()
    assert third["session_id"] == reset.json()["session_id"]
    assert [message["role"] for message in agent.provider.completions[2].messages] == ["system", "user"]
    archived = agent.chat("still there?", user=user, session_id=first["session_id"])
    assert_problem(archived, 409, "session_archived")


def test_reset_without_a_body_and_without_a_session(agent: Runtime) -> None:
    user = {"X-Agent-User": fresh("user")}
    reply = agent.http.post("/chat/reset", headers=user)
    assert reply.status_code == 200
    assert reply.json()["archived"] is None
    assert agent.post("/chat", {"message": "hi"}, **user).json()["session_id"] == reply.json()["session_id"]


def test_reset_of_a_named_session_keeps_its_name(agent: Runtime) -> None:
    name = fresh("alias")
    assert agent.chat("one", session_id=name).json()["session_id"] == name
    reset = agent.post("/chat/reset", {"session_id": name}).json()
    assert reset["archived"].startswith("ses_")
    agent.provider.clear()
    assert agent.chat("two", session_id=name).json()["session_id"] == name
    assert [message["role"] for message in agent.provider.completions[0].messages] == ["system", "user"]


def test_reset_aborts_what_runs(agent: Runtime) -> None:
    user = fresh("user")
    agent.provider.script.replace([Hang(after=1)], otherwise=Say("ok"))
    thread, got = in_background(lambda: agent.chat("go", user=user))
    agent.provider.wait_for(1)
    assert agent.post("/chat/reset", {"user": user}).status_code == 200
    thread.join(PATIENCE)
    assert got[0].json()["finish_reason"] == "abort"
    assert agent.chat("again", user=user).json()["response"] == "ok"


def test_resets_and_messages_in_a_heap_leave_a_session_that_answers(agent: Runtime) -> None:
    agent.provider.script.replace(lambda _: Say("ok"))
    for _ in range(5):
        user = fresh("user")

        def send(number: int, user: str = user) -> int:
            if number % 3 == 2:
                return agent.post("/chat/reset", {"user": user}).status_code
            return agent.chat(f"message {number}", user=user).status_code

        with ThreadPoolExecutor(6) as pool:
            codes = set(pool.map(send, range(6)))
        assert codes <= {200, 409}
        assert agent.chat("at last", user=user, wait=10).json()["response"] == "ok"


def test_an_alias_is_kept_and_answers_to_its_own_id_too(agent: Runtime) -> None:
    alias = fresh("my-chat")
    first = agent.chat("one", session_id=alias).json()
    assert first["session_id"] == alias
    row = agent.sql("SELECT session_id FROM session_aliases WHERE alias = ?", alias)
    [[own]] = [tuple(found) for found in row]
    agent.provider.clear()
    second = agent.chat("two", session_id=own).json()
    assert second["session_id"] == own
    roles = [message["role"] for message in agent.provider.completions[0].messages]
    assert roles == ["system", "user", "assistant", "user"]


def test_principals_never_see_each_other(agent: Runtime) -> None:
    alias, ann, bob = fresh("shared-name"), {"X-Agent-User": fresh("ann")}, {"X-Agent-User": fresh("bob")}
    agent.post("/chat", {"message": "the secret is 42", "session_id": alias}, **ann)
    agent.post("/chat", {"message": "main secret is 43"}, **ann)
    [[own]] = [tuple(row) for row in agent.sql("SELECT session_id FROM session_aliases WHERE alias = ?", alias)]
    agent.provider.clear()

    assert agent.post("/chat", {"message": "hi", "session_id": alias}, **bob).status_code == 200
    assert agent.post("/chat", {"message": "hi"}, **bob).status_code == 200
    assert_problem(agent.post("/chat", {"message": "hi", "session_id": own}, **bob), 404, "unknown_session")
    for request in agent.provider.completions:
        assert "secret is" not in request.body.decode()
    assert_problem(agent.post("/chat/reset", {"session_id": own}, **bob), 404, "unknown_session")
    assert agent.post("/chat", {"message": "hi", "session_id": own}, **ann).status_code == 200


def test_body_and_header_name_one_user(agent: Runtime) -> None:
    ann, bob = fresh("ann"), fresh("bob")
    first = agent.post("/chat", {"message": "hi", "user": ann}).json()
    both = agent.post("/chat", {"message": "hi", "user": ann}, **{"X-Agent-User": ann}).json()
    assert both["session_id"] == first["session_id"]
    refused = agent.post("/chat", {"message": "hi", "user": ann}, **{"X-Agent-User": bob})
    assert assert_problem(refused, 422, "invalid_request")["errors"][0]["field"] == "user"


def test_an_unknown_session_id_of_ours_is_404(agent: Runtime) -> None:
    assert_problem(agent.chat("hi", session_id="ses_" + "0" * 26), 404, "unknown_session")


def test_a_model_may_be_named_and_stays(agent: Runtime) -> None:
    session = fresh("s")
    agent.chat("one", session_id=session, model="other")
    agent.chat("two", session_id=session)
    assert [request.json["model"] for request in agent.provider.completions] == ["other", "other"]


def test_a_failed_turn_is_a_problem_with_the_partial_answer(agent: Runtime) -> None:
    agent.provider.script.replace([Call("write", {"path": "a.txt", "content": "a"}, text="First I write."),
                                   Fail(401, "bad key")])  # fmt: skip
    session = fresh("s")
    body = assert_problem(agent.chat("go", session_id=session, message_id="m-1"), 502, "model_auth")
    assert (body["session_id"], body["message_id"]) == (session, "m-1")
    assert body["response"] == "First I write."
    assert len(body["tool_outputs"]) == 1
    assert agent.chat("and now?", session_id=session).status_code == 502
    agent.provider.script.replace([Say("back")])
    assert agent.chat("and now?", session_id=session).json()["response"] == "back"


# ---------------------------------------------------------------- JSON or stream


@pytest.mark.parametrize(
    ("path", "accept", "streams"),
    [
        ("/chat", None, False),
        ("/chat", "application/json", False),
        ("/chat", "text/event-stream", True),
        ("/chat", "application/json, text/event-stream", True),
        ("/chat/stream", None, True),
        ("/chat/stream", "application/json", True),
    ],
)
def test_which_reply_to_our_own_body(agent: Runtime, path: str, accept: str | None, streams: bool) -> None:
    reply = agent.post(path, {"message": "hi", "session_id": fresh("s")}, **({"Accept": accept} if accept else {}))
    assert reply.status_code == 200
    kind = reply.headers["content-type"].partition(";")[0]
    assert kind == ("text/event-stream" if streams else "application/json")


@pytest.mark.parametrize(
    ("path", "accept", "streams"),
    [("/chat", "*/*", True), ("/chat", None, True), ("/chat", "application/json", False), ("/chat/stream", None, True)],
)
def test_which_reply_to_the_body_of_use_chat(agent: Runtime, path: str, accept: str | None, streams: bool) -> None:
    body = use_chat("say:from the model")
    reply = agent.post(path, body, **({"Accept": accept} if accept else {}))
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream" if streams else "application/json")
    if not streams:
        assert reply.json()["response"] == "from the model"
        assert reply.json()["session_id"] == body["id"]


def test_use_chat_talks_in_one_session_and_only_its_last_message_counts(agent: Runtime) -> None:
    agent.provider.script.replace([Say("hello"), Say("again")])
    first = use_chat("one", body={"any": "thing"}, temperature=1)
    with agent.stream("POST", "/chat", first) as stream:
        chunks = stream.rest()
    start = chunks[0]
    assert isinstance(start, c.Start)
    assert start.messageMetadata == {"session_id": first["id"], "message_id": first["messages"][0]["id"]}
    reply = {"id": start.messageId, "role": "assistant", "parts": [{"type": "text", "text": "forged"}]}
    second = use_chat("two", id=first["id"])
    second["messages"] = [*first["messages"], reply, *second["messages"]]
    with agent.stream("POST", "/chat", second) as stream:
        assert text_of(stream.rest()) == "again"
    said = agent.provider.completions[1].texts
    assert said == ["one", "hello", "two"]


def test_use_chat_replays_the_same_message(agent: Runtime) -> None:
    agent.provider.script.replace([Say("once")])
    body = use_chat("hi")
    for _ in range(2):
        with agent.stream("POST", "/chat", body) as stream:
            assert text_of(stream.rest()) == "once"
    assert len(agent.provider.completions) == 1


# ---------------------------------------------------------------- the same message again


def test_a_message_id_replayed_attaches_to_what_it_started(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(after=1, reply=Say("one answer"))])
    body = {"message": "hi", "session_id": fresh("s"), "message_id": fresh("m")}
    threads = [in_background(lambda: agent.post("/chat", body)) for _ in range(3)]
    agent.provider.wait_for(1)
    with agent.stream("POST", "/chat/stream", body) as stream:
        stream.until("text-delta")
        agent.provider.release()
        assert text_of(stream.rest()) == "one answer"
    for thread, _ in threads:
        thread.join(PATIENCE)
    replies = [got[0].json() for _, got in threads]
    assert replies[0]["response"] == "one answer"
    assert replies[0]["message_id"] == body["message_id"]
    assert all(reply == replies[0] for reply in replies)
    assert agent.post("/chat", body).json() == replies[0]
    with agent.stream("POST", "/chat/stream", body) as stream:
        assert text_of(stream.rest()) == "one answer"
    assert len(agent.provider.completions) == 1


def test_a_message_id_with_other_content_is_a_conflict(agent: Runtime) -> None:
    body = {"message": "hi", "session_id": fresh("s"), "message_id": fresh("m")}
    agent.post("/chat", body)
    assert_problem(agent.post("/chat", {**body, "message": "other"}), 409, "message_conflict")
    assert agent.post("/chat", {**body, "session_id": fresh("s"), "message": "other"}).status_code == 200
    same = {"parts": [{"type": "text", "text": "hi"}], "session_id": body["session_id"]}
    assert agent.post("/chat", {**same, "message_id": body["message_id"]}).status_code == 200


# ---------------------------------------------------------------- a busy session


def test_a_reply_that_takes_longer_than_the_caller_waits_is_202(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(reply=Say("late")), Say("second")])
    body = {"message": "hi", "session_id": fresh("s"), "message_id": fresh("m"), "wait": 0.1}
    reply = agent.post("/chat", body)
    assert reply.status_code == 202
    names = {"session_id": body["session_id"], "message_id": body["message_id"]}
    assert reply.json() == {**names, "status": "running", "pending": []}
    queued = agent.chat("next", session_id=body["session_id"], message_id="next", wait=0)
    assert queued.status_code == 202
    assert queued.json() == {**names, "message_id": "next", "status": "queued", "pending": []}
    agent.provider.release()
    assert agent.post("/chat", {**body, "wait": 10}).json()["response"] == "late"
    again = agent.chat("next", session_id=body["session_id"], message_id="next")
    assert again.json()["response"] == "second"


def test_messages_to_a_busy_session_queue_in_order(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(reply=Say("first"))], otherwise=lambda asked: Say(f"to {asked.last_user_text}"))
    session = fresh("s")
    agent.chat("1", session_id=session, wait=0)
    agent.provider.wait_for(1)
    for number in "234":
        assert agent.chat(number, session_id=session, message_id=number, wait=0).json()["status"] == "queued"
    with agent.stream("POST", "/chat/stream", {"message": "5", "session_id": session}) as stream:
        queue = stream.next()
        assert isinstance(queue, c.DataChunk)
        assert queue.type == "data-queue"
        assert queue.transient is True
        agent.provider.release()
        assert text_of(stream.rest()) == "to 5"
    asked = [request.last_user_text for request in agent.provider.completions]
    assert asked == ["1", "2", "3", "4", "5"]
    last = agent.provider.completions[-1].texts
    assert last == ["1", "first", "2", "to 2", "3", "to 3", "4", "to 4", "5"]


def test_reject_is_a_conflict_while_a_turn_runs(agent: Runtime) -> None:
    agent.provider.script.replace([Hang()], otherwise=Say("ok"))
    session = fresh("s")
    agent.chat("1", session_id=session, message_id="one", wait=0)
    agent.provider.wait_for(1)
    assert_problem(agent.chat("2", session_id=session, on_busy="reject"), 409, "session_busy")
    agent.provider.release()
    assert agent.chat("1", session_id=session, message_id="one").status_code == 200
    assert agent.chat("2", session_id=session, on_busy="reject").json()["response"] == "ok"


def test_interrupt_aborts_and_takes_its_place(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(after=2, reply=Say("half of it"))], otherwise=Say("ok"))
    session = fresh("s")
    with agent.stream("POST", "/chat/stream", {"message": "1", "session_id": session}) as stream:
        stream.until("text-delta")
        stream.until("text-delta")
        agent.chat("2", session_id=session, message_id="2", wait=0)
        third = agent.chat("3", session_id=session, on_busy="interrupt")
        assert types(stream.rest())[-1] == "abort"
    assert third.json()["response"] == "ok"
    asked = [request.last_user_text for request in agent.provider.completions]
    assert asked == ["1", "2", "3"]
    assert "half of" in str(agent.provider.completions[1].messages)


@pytest.mark.parametrize("on_busy", ["queue", "reject", "interrupt"])
def test_after_an_error_the_queue_rests_until_the_next_message(agent: Runtime, on_busy: str) -> None:
    agent.provider.script.replace([Hang(reply=Say("x"), seconds=0.3)], otherwise=Say("ok"))
    session = fresh("s")
    agent.chat("1", session_id=session, message_id="1", wait=0)
    agent.provider.wait_for(1)
    agent.chat("2", session_id=session, message_id="2", wait=0)
    agent.provider.script.replace([Fail(401)], otherwise=Say("ok"))
    assert_problem(agent.chat("1", session_id=session, message_id="1"), 502, "model_auth")
    assert agent.chat("2", session_id=session, message_id="2", wait=0.1).json()["status"] == "queued"
    assert agent.chat("3", session_id=session, on_busy=on_busy).json()["response"] == "ok"
    assert agent.chat("2", session_id=session, message_id="2").json()["response"] == "ok"
    assert [request.last_user_text for request in agent.provider.completions][-2:] == ["2", "3"]


def test_sessions_run_side_by_side(start: Start) -> None:
    """One user alone has all slots; on a runtime that knows several, each has a share."""
    agent = start()
    agent.provider.script.replace([Hang(), Hang(), Hang()])
    for name in ("a", "b", "c"):
        agent.chat(name, session_id=fresh(name), wait=0)
    agent.provider.wait_for(3)
    assert agent.status()["sessions"]["running"] == 3
    agent.provider.release()
    eventually(lambda: agent.status()["state"] == "idle")


def test_a_stream_asked_for_by_accept_is_the_same_stream(agent: Runtime) -> None:
    with agent.stream("POST", "/chat", {"message": "say:hello there", "session_id": fresh("s")}, **SSE) as stream:
        assert text_of(stream.rest()) == "hello there"
