"""A stream is the turn itself: whole, valid, the same for every reader, and none the worse for one who leaves."""

from __future__ import annotations

import json

import httpx
import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Drop, Fail, Hang, Say

from ..live import TOKEN, Runtime, assert_problem, eventually, fresh, text_of, types


def test_an_answer_word_by_word(agent: Runtime) -> None:
    agent.provider.script.replace([Say("one two three", reasoning="let me think")])
    session, message = fresh("s"), fresh("m")
    body = {"message": "count", "session_id": session, "message_id": message}
    with agent.stream("POST", "/chat/stream", body) as stream:
        chunks = stream.rest()
    assert types(chunks) == [
        *("start", "start-step", "reasoning-start", *["reasoning-delta"] * 3, "reasoning-end"),
        *("text-start", *["text-delta"] * 3, "text-end", "message-metadata", "finish-step", "finish"),
    ]
    start, finish = chunks[0], chunks[-1]
    assert isinstance(start, c.Start)
    assert start.messageId is not None
    assert start.messageId.startswith("msg_")
    assert start.messageMetadata == {"session_id": session, "message_id": message}
    assert text_of(chunks) == "one two three"
    assert isinstance(finish, c.Finish)
    assert finish.finishReason == "stop"
    assert (finish.messageMetadata or {})["usage"]["output"] == 3


def test_a_tool_round_in_full(agent: Runtime) -> None:
    agent.provider.script.replace([
        Say("First this.", calls=(Call("write", {"path": "a.txt", "content": "alpha"}, id="one"),
                                  Call("read", {"path": "no-such-file"}, id="two"))),
        Say("Then that."),
    ])  # fmt: skip
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": fresh("s")}) as stream:
        chunks = stream.rest()
    assert types(chunks).count("start-step") == 2
    assert [chunk.toolCallId for chunk in chunks if isinstance(chunk, c.ToolInputStart)] == ["one", "two"]
    said = "".join(
        chunk.inputTextDelta for chunk in chunks if isinstance(chunk, c.ToolInputDelta) and chunk.toolCallId == "one"
    )
    assert json.loads(said) == {"path": "a.txt", "content": "alpha"}
    [done] = [chunk for chunk in chunks if isinstance(chunk, c.ToolOutputAvailable)]
    assert (done.toolCallId, done.output["type"]) == ("one", "output")
    [failed] = [chunk for chunk in chunks if isinstance(chunk, c.ToolOutputError)]
    assert failed.toolCallId == "two"
    assert "no-such-file" in failed.errorText


def test_a_task_is_replayed_from_its_first_chunk_while_it_runs_and_afterwards(agent: Runtime) -> None:
    agent.provider.script.replace([Call("glob", {"pattern": "*.none"}), Hang(after=2, reply=Say("one two three"))])
    task_id = agent.assign()
    path = f"/task/{task_id}/stream"
    with agent.stream("GET", path) as first:
        first.until("text-delta")
        first.until("text-delta")
        with agent.stream("GET", path) as late:
            late.until("text-delta")
            late.until("text-delta")
            assert late.read == first.read
            agent.provider.release()
            live = first.rest()
            assert late.rest() == live
    start = live[0]
    assert isinstance(start, c.Start)
    names = start.messageMetadata or {}
    assert names["task_id"] == task_id
    assert names["session_id"] == agent.record(task_id)["session_id"]

    with agent.stream("GET", path) as replay:
        chunks = replay.rest()
    again = chunks[0]
    assert isinstance(again, c.Start)
    assert again.messageId == start.messageId
    assert {**names, **(again.messageMetadata or {})} == again.messageMetadata
    assert text_of(chunks) == "one two three"
    assert [chunk for chunk in chunks if isinstance(chunk, c.ToolOutputAvailable)] == [
        chunk for chunk in live if isinstance(chunk, c.ToolOutputAvailable)
    ]
    assert chunks[-1].type == "finish"


def test_whoever_leaves_only_stops_watching(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(after=1, reply=Say("all of it")), Hang(after=1, reply=Say("all of this"))])
    body = {"message": "go", "session_id": fresh("s"), "message_id": fresh("m")}
    with agent.stream("POST", "/chat/stream", body) as stream:
        stream.until("text-delta")
    task_id = agent.assign()
    with agent.stream("GET", f"/task/{task_id}/stream") as stream:
        stream.until("text-delta")
    agent.provider.release()
    assert agent.result(task_id)["result"] == {"text": "all of this"}
    assert agent.post("/chat", body).json()["response"] == "all of it"
    assert len(agent.provider.completions) == 2


def test_a_json_caller_who_leaves_only_stops_waiting(agent: Runtime) -> None:
    agent.provider.clear()
    agent.provider.script.replace([Hang(reply=Say("anyway"))])
    body = {"message": "go", "session_id": fresh("s"), "message_id": fresh("m")}
    with agent.client(Authorization=f"Bearer {TOKEN}") as hasty, pytest.raises(httpx.ReadTimeout):
        hasty.post("/chat", json=body, timeout=0.2)
    agent.provider.wait_for(1)
    agent.provider.release()
    assert agent.post("/chat", body).json()["response"] == "anyway"


def test_a_reader_of_a_queued_message_is_told_its_place(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(reply=Say("first"))], otherwise=Say("second"))
    session = fresh("s")
    agent.chat("1", session_id=session, wait=0)
    agent.provider.wait_for(1)
    body = {"message": "2", "session_id": session, "message_id": "two"}
    with agent.stream("POST", "/chat/stream", body) as stream:
        place = stream.next()
        assert isinstance(place, c.DataChunk)
        assert (place.type, place.transient) == ("data-queue", True)
        assert place.data["message_id"] == "two"
        assert place.data["session_id"] == session
        assert place.data["position"] >= 1
        agent.provider.release()
        assert text_of(stream.rest()) == "second"


def test_a_failure_is_an_error_and_a_finish(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(401, "the key is no good")])
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": fresh("s")}) as stream:
        chunks = stream.rest()
    assert types(chunks)[-2:] == ["error", "finish"]
    error, finish = chunks[-2:]
    assert isinstance(error, c.ErrorChunk)
    assert "the key is no good" in error.errorText
    assert isinstance(finish, c.Finish)
    assert finish.finishReason == "error"


def test_retries_are_told_while_they_happen(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(500), Say("at last")])
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": fresh("s")}) as stream:
        chunks = stream.rest()
    [status] = [chunk for chunk in chunks if isinstance(chunk, c.DataChunk) and chunk.type == "data-status"]
    assert status.data["state"] == "retrying"
    assert status.transient is True
    assert text_of(chunks) == "at last"


def test_a_stream_that_breaks_off_keeps_what_was_said(agent: Runtime) -> None:
    agent.provider.script.replace([Drop(after=2, reply=Say("half of it"))])
    body = {"message": "go", "session_id": fresh("s"), "message_id": fresh("m")}
    with agent.stream("POST", "/chat/stream", body) as stream:
        chunks = stream.rest()
    assert text_of(chunks) == "half of "
    assert types(chunks)[-2:] == ["error", "finish"]
    problem = assert_problem(agent.post("/chat", body), 502, "model_unavailable")
    assert problem["response"] == "half of "


def test_the_replay_of_what_failed_or_was_cancelled_ends_as_it_ended(agent: Runtime) -> None:
    agent.provider.script.replace([Fail(401), Hang(after=1)])
    failed, cancelled = agent.assign(), fresh("task")
    agent.result(failed)
    agent.assign(task_id=cancelled)
    with agent.stream("GET", f"/task/{cancelled}/stream") as stream:
        stream.until("text-delta")
        agent.http.post(f"/task/{cancelled}/cancel")
        assert types(stream.rest())[-1] == "abort"
    for task_id, ending in ((failed, "finish"), (cancelled, "abort")):
        with agent.stream("GET", f"/task/{task_id}/stream") as stream:
            assert types(stream.rest())[-1] == ending


def test_pieces_reach_the_reader_while_the_model_still_speaks(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(after=3, reply=Say("a b c d"))])
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": fresh("s")}) as stream:
        while text_of(stream.read) != "a b c ":
            assert stream.next() is not None
        agent.provider.release()
        assert text_of(stream.rest()) == "a b c d"


def test_a_reader_who_does_not_read_delays_nobody(agent: Runtime) -> None:
    agent.provider.script.replace([Say(pieces=("x" * 1000,) * 3000)])
    task_id = agent.assign()
    with agent.stream("GET", f"/task/{task_id}/stream") as idle:
        assert agent.result(task_id)["result"] == {"text": "x" * 3_000_000}
        eventually(lambda: agent.status()["state"] == "idle")
        assert text_of(idle.rest()) == "x" * 3_000_000
