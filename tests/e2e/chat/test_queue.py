"""A queue is bounded, keeps its order, and what waits in it can be called back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_common.protocol import chunks as c
from agent_testing import Hang, Say, ScriptedProvider

from ..live import Runtime, assert_problem, assignment, eventually, fresh


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """One turn at a time, two may wait."""
    settings = {"AGENT_MAX_CONCURRENT_TURNS": 1, "AGENT_MAX_QUEUE": 2}
    with ScriptedProvider() as provider, Runtime(provider, tmp_path_factory.mktemp("narrow"), **settings) as runtime:
        yield runtime


@pytest.fixture
def busy(narrow: Runtime) -> Iterator[Runtime]:
    """With a task that runs until it is released."""
    narrow.provider.clear()
    narrow.provider.script.replace([Hang(reply=Say("first"))], otherwise=lambda asked: Say("next"))
    narrow.assign()
    narrow.provider.wait_for(1)
    yield narrow
    narrow.provider.release()
    eventually(lambda: narrow.status()["state"] == "idle")


def test_a_full_queue_says_when_to_come_back(busy: Runtime) -> None:
    second, third = assignment(), assignment()
    for behind, body in enumerate((second, third), 1):
        reply = busy.post("/task", body)
        assert reply.status_code == 202
        assert reply.json()["status"] == "queued"
        assert reply.json()["queued_behind"] == behind
    status = busy.status()
    assert status["sessions"] == {"running": 1, "queued": 2, "waiting": 0}
    assert status["queue_limit"] == 2

    fourth = assignment()
    refusals = (busy.post("/task", fourth), busy.chat("hi", session_id=fresh("s")), busy.post("/chat/stream",
                {"message": "hi", "session_id": fresh("s")}))  # fmt: skip
    for refused in refusals:
        assert_problem(refused, 429, "queue_full")
        assert int(refused.headers["retry-after"]) > 0
    assert_problem(busy.get(f"/task/{fourth['task_id']}"), 404, "unknown_task")
    assert busy.post("/task", second).status_code == 200, "a replay takes no place in the queue"

    waiting = busy.get("/result", task_id=second["task_id"])
    assert (waiting.status_code, waiting.json()["status"]) == (202, "queued")
    record = busy.record(third["task_id"])
    assert (record["status"], record["started_at"], record["attempts"]) == ("queued", None, 0)

    busy.provider.release()
    assert busy.result(second["task_id"])["status"] == "complete"
    assert busy.result(third["task_id"])["status"] == "complete"
    first, then = busy.record(second["task_id"]), busy.record(third["task_id"])
    assert first["started_at"] <= first["finished_at"] <= then["started_at"] <= then["finished_at"]
    assert busy.post("/task", fourth).status_code == 202
    assert busy.result(fourth["task_id"])["status"] == "complete"


def test_a_queued_task_can_be_called_back(busy: Runtime) -> None:
    queued, behind = busy.assign(), busy.assign()
    with busy.stream("GET", f"/task/{queued}/stream") as stream:
        place = stream.next()
        assert isinstance(place, c.DataChunk)
        assert place.type == "data-queue"
        reply = busy.http.post(f"/task/{queued}/cancel")
        assert stream.until("abort")
        assert stream.next() is None
        assert stream.done
    assert reply.status_code == 200
    record = reply.json()
    assert (record["status"], record["error_code"], record["started_at"]) == ("cancelled", "cancelled", None)
    assert record["finished_at"] is not None
    assert busy.http.post(f"/task/{queued}/cancel").json() == record
    assert busy.result(queued)["status"] == "cancelled"
    with busy.stream("GET", f"/task/{queued}/stream") as again:
        assert again.until("abort")
        assert again.next() is None
    assert busy.status()["sessions"]["queued"] == 1
    busy.provider.release()
    assert busy.result(behind)["status"] == "complete"
    assert len(busy.provider.completions) == 2


def test_time_in_the_queue_does_not_count_against_the_deadline(busy: Runtime) -> None:
    queued = busy.assign(timeout=1.5)
    waited = busy.get("/result", task_id=queued, wait=1.6)
    assert (waited.status_code, waited.json()["status"]) == (202, "queued")
    busy.provider.release()
    assert busy.result(queued)["status"] == "complete"


def test_sessions_share_the_slots_in_the_order_of_arrival(busy: Runtime) -> None:
    reply = busy.chat("chat", session_id=fresh("s"), message_id="c", wait=0)
    assert (reply.status_code, reply.json()["status"]) == (202, "queued")
    task_id = busy.assign(input_data={"ask": "the task"})
    busy.provider.release()
    busy.result(task_id)
    asked = [request.last_user_text for request in busy.provider.completions[1:]]
    assert asked[0] == "chat"
    assert "the task" in asked[1]


def test_a_message_that_waits_for_a_slot_keeps_its_session_busy(busy: Runtime) -> None:
    session = fresh("s")
    busy.chat("waits", session_id=session, message_id="waits", wait=0)
    assert_problem(busy.chat("impatient", session_id=session, on_busy="reject"), 409, "session_busy")
    pushy = busy.chat("pushy", session_id=session, message_id="pushy", on_busy="interrupt", wait=0)
    assert pushy.json()["status"] == "queued"
    busy.provider.release()
    assert busy.chat("pushy", session_id=session, message_id="pushy").json()["finish_reason"] == "stop"
    assert busy.chat("waits", session_id=session, message_id="waits").json()["finish_reason"] == "stop"
    assert [request.last_user_text for request in busy.provider.completions[1:]] == ["waits", "pushy"]
