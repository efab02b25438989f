"""Tasks that come to the guest by its own face, and their results over the channel: a live runtime, and every line."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing import Hang, Say
from tests.e2e.conftest import Start
from tests.e2e.live import TOKEN, Runtime, assert_problem, eventually

from .host import Host, Peer, request
from .test_guest import mediated

ANN = {"X-Agent-User": "ann", "Authorization": f"Bearer {TOKEN}"}


def attach(host: Host, verdicts: dict[str, str] | None = None, **fields: Any) -> Peer:
    peer = host.accept()
    peer.attach(verdicts, task_results=True, **fields)
    return peer


def acknowledge(peer: Peer, report: dict[str, Any]) -> None:
    peer.send({"ctl": "task_ack", "task_id": report["task_id"], "user": report["user"]})


def waiting(agent: Runtime) -> int:
    return agent.sql("SELECT count(*) FROM task_reports")[0][0]


@pytest.mark.slow
def test_the_end_of_a_task_is_reported_until_it_is_acknowledged(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    agent.provider.script.replace(None, otherwise=Say('{"result": {"total": 42}}'))
    peer = attach(host)
    with agent.client(**ANN) as ann:
        body = {"task_id": "sum-1", "workflow_id": "w", "step_id": "s", "task_type": "sum", "input_data": {}}
        ann.post("/task", json={**body, "result_url": "https://example.org/a b".replace(" ", "%20")})
    first = peer.until(ctl="task_result")
    assert (first["task_id"], first["user"], first["result_url"]) == ("sum-1", "ann", "https://example.org/a%20b")
    assert (first["result"]["status"], first["result"]["result"]) == ("complete", {"total": 42})
    peer.close()
    again = attach(host)
    assert again.until(ctl="task_result") == first
    agent.process.kill9()
    agent.start()
    last = attach(host, epoch=2)
    assert last.until(ctl="task_result") == first
    acknowledge(last, first)
    eventually(lambda: not waiting(agent))
    last.close()
    peer = attach(host, epoch=3)
    agent.run(task_id="next")
    assert peer.until(ctl="task_result")["task_id"] == "next"


def test_a_strict_host_sees_no_such_frame_and_work_is_not_reported_twice(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    ready = peer.until(signal="ready")
    assert " tasks=1" in ready["detail"]
    agent.run(task_id="before")
    peer.send(request("work-1", "{}", content_kind="json"))
    peer.result("work-1")
    peer.until(signal="completed")
    agent.run(task_id="after")
    assert peer.quiet()
    assert all("ctl" not in frame for frame in peer.seen)
    assert waiting(agent) == 2
    peer.close()
    older = host.accept()
    older.attach()  # extensions, but not this one
    older.result("work-1")  # it was not acknowledged
    older.until(signal="completed")
    assert older.quiet()
    assert not [frame for frame in older.seen if frame.get("ctl") == "task_result"]
    older.close()
    newer = attach(host, verdicts={"work-1": "forget"}, epoch=2)
    assert [newer.until(ctl="task_result")["task_id"] for _ in range(2)] == ["before", "after"]
    newer.send(request("work-2", "{}", content_kind="json"))
    newer.result("work-2")
    assert waiting(agent) == 2


@pytest.mark.slow
def test_every_way_in_which_a_task_ends_is_reported(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MAX_CONCURRENT_TURNS=1)
    peer = attach(host)
    agent.provider.script.replace([Hang(after=0)], otherwise=Hang(after=0))
    running = agent.assign(task_id="running")
    agent.provider.wait_for(1)
    queued = agent.assign(task_id="queued")
    late = agent.assign(task_id="late", timeout=0.2)
    assert agent.post(f"/task/{queued}/cancel", {}).status_code == 200
    assert peer.until(ctl="task_result")["result"]["status"] == "cancelled"
    assert agent.post(f"/task/{running}/cancel", {}).status_code == 200
    ended = [peer.until(ctl="task_result") for _ in range(2)]
    assert {one["task_id"]: one["result"]["status"] for one in ended} == {running: "cancelled", late: "timeout"}
    for lives in range(3):  # a task that never gets further is given up by the recovery
        if lives == 0:
            agent.assign(task_id="doomed", timeout=600)
            agent.provider.wait_for(3)
        agent.process.kill9()
        agent.start()
        peer = attach(host, epoch=lives + 2)
    assert peer.until(ctl="task_result", task_id="doomed")["result"]["error_code"] == "interrupted"


def test_a_result_too_large_for_the_line_is_cut_and_holds_up_no_other(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    deep = '{"result": {"a": ' + "[" * 70 + "]" * 70 + "}}"
    replies = [Say('{"result": {"text": "' + "x" * 5000 + '"}}'), Say(deep), Say('{"result": {"total": 42}}')]
    agent.provider.script.replace(list(replies))
    for number in range(3):
        agent.run(task_id=f"task-{number}")
    peer = attach(host, max_line=4096)
    found = [peer.until(ctl="task_result") for _ in range(3)]
    assert [one.get("truncated", False) for one in found] == [True, True, False]
    assert [one["result"].get("result") for one in found] == [None, None, {"total": 42}]
    assert {one["result"]["status"] for one in found} == {"complete"}


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "https://ann:secret@example.org/", "https://", "https://exa mple.org/", "nonsense"]
)
def test_a_malformed_result_url_is_refused_by_name(agent: Runtime, url: str) -> None:
    reply = agent.post("/task", _assignment(result_url=url))
    assert_problem(reply, 422, "invalid_request", "result_url")


def test_without_a_channel_a_result_url_is_refused_and_nothing_is_kept(agent: Runtime) -> None:
    reply = agent.post("/task", _assignment(result_url="https://example.org/"))
    problem = assert_problem(reply, 422, "invalid_request", "result_url")
    assert "no channel to a host" in problem["detail"]
    agent.run()
    assert waiting(agent) == 0


def test_a_host_that_takes_no_results_makes_a_result_url_impossible(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    host.accept().attach()
    eventually(lambda: agent.status()["channel"] == "ready")
    problem = assert_problem(
        agent.post("/task", _assignment(result_url="https://example.org/")), 422, "invalid_request", "result_url"
    )
    assert "does not take results" in problem["detail"]


def _assignment(**changes: Any) -> dict[str, Any]:
    body = {"workflow_id": "w", "step_id": "s", "task_type": "sum", "input_data": {}}
    return {**body, **changes}
