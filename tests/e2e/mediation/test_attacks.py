"""Hosts without manners, people in the same session, crashes and floods: no work is lost, doubled or left open."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Hang, Say
from tests.e2e.conftest import Start
from tests.e2e.live import TOKEN, Runtime, eventually

from .host import KEY, Host, Peer, request

pytestmark = pytest.mark.slow

ODD = ["ünï/ç ode?#%2F", "..", "' OR 1=1 --", "x" * 200, "\U0001f600", "a b"]


def mediated(start: Start, host: Host, **settings: object) -> Runtime:
    return start(AGENT_MEDIATION_URL=host.url, **settings)


def as_operator(agent: Runtime, method: str, path: str, **body: Any) -> int:
    return agent.http.request(method, path, json=body or None).status_code


def results(peer: Peer, request_id: str) -> list[dict[str, Any]]:
    return [one for one in peer.seen if one.get("request_id") == request_id and "status" in one]


def code(result: dict[str, Any]) -> tuple[str, str]:
    return result["status"], (result.get("error") or "").split(":")[0]


# ---------------------------------------------------------------- people in the same session


def test_whatever_people_do_to_the_session_each_request_ends_once(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MEDIATION_WINDOW=4)
    peer = host.accept()
    peer.attach()
    session = ""
    deeds = {
        "reset": lambda: as_operator(agent, "POST", "/chat/reset"),
        "delete": lambda: as_operator(agent, "DELETE", f"/sessions/{session}"),
        "archive": lambda: as_operator(agent, "PATCH", f"/sessions/{session}", archived=True),
        "abort": lambda: as_operator(agent, "POST", f"/chat/{session}/abort"),
        "fork": lambda: as_operator(agent, "POST", f"/sessions/{session}/fork"),
        "rewind": lambda: as_operator(agent, "POST", f"/sessions/{session}/rewind", message_id="rewind-1"),
        "compact": lambda: as_operator(agent, "POST", f"/sessions/{session}/compact"),
    }
    for name, deed in deeds.items():
        agent.provider.script.replace([Hang(after=1, reply=Say("one two"))], otherwise=Say("three"))
        first, second = f"{name}-1", f"{name}-2"
        peer.send(request(first))
        peer.until(signal="accepting", request_id=first)
        peer.send(request(second))
        peer.until(signal="accepting", request_id=second)
        agent.provider.wait_for(1)
        session = agent.sql("SELECT session_id FROM turns WHERE task_id = ?", first)[0][0]
        assert deed() < 500, name
        agent.provider.release()
        for request_id in (first, second):
            if not results(peer, request_id):
                peer.result(request_id)
        peer.send({"ctl": "ping", "n": 7})
        peer.until(ctl="pong", n=7)
        for request_id in (first, second):
            assert len(results(peer, request_id)) == 1, (name, request_id)
            peer.send({"ctl": "ack", "request_id": request_id})
        if name in ("reset", "delete", "archive", "abort"):
            assert code(results(peer, first)[0]) == ("failed", "cancelled"), name
    eventually(lambda: agent.sql("SELECT count(*) FROM work WHERE acked_at IS NULL")[0][0] == 0)
    assert agent.status()["sessions"]["running"] == 0


def test_work_does_not_wait_for_a_person(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    peer.attach()
    asked = {"questions": [{"question": "Which?", "header": "x", "options": [{"label": "a"}, {"label": "b"}]}]}
    agent.provider.script.replace([Call("question", asked), Say("nobody answers")])
    peer.send(request("question"))
    assert (code(peer.result("question"))[0], peer.seen[-1]["content"]) == ("completed", "nobody answers")
    agent.provider.script.replace([Call("web_fetch", {"url": "http://127.0.0.1:1/"}), Say("not allowed")])
    peer.send(request("approval"))
    assert peer.result("approval")["content"].endswith("not allowed")


def test_work_goes_on_behind_a_chat_that_failed_and_beside_people(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MODEL_ATTEMPTS=1)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang(after=0, reply=Say("x"))], otherwise=Say("work"))
    waiting = agent.chat("first", wait=1)
    assert waiting.status_code == 202
    peer.send(request("behind"))
    peer.until(signal="accepting", request_id="behind")
    assert agent.post(f"/chat/{waiting.json()['session_id']}/abort", {}).status_code == 200
    agent.provider.release()
    assert peer.result("behind")["content"] == "work"


# ---------------------------------------------------------------- ids


def test_ids_may_be_whatever_a_host_likes_and_outlive_a_crash(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MEDIATION_WINDOW=len(ODD))
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang() for _ in ODD])
    for request_id in ODD:
        peer.send(request(request_id, '{"n": 1}', content_kind="json"))
        peer.until(signal="accepting", request_id=request_id)
    eventually(lambda: agent.status()["sessions"]["running"] == 4)
    agent.process.kill9()
    agent.provider.script.replace(None, otherwise=Say('{"result": {"ok": true}}'))
    agent.start()
    peer = host.accept()
    resumed = peer.attach(epoch=2)
    assert {*resumed["running"], *resumed["unacked"]} == set(ODD)
    for request_id in ODD:
        assert next(iter(results(peer, request_id)), None) or peer.result(request_id)
    assert {code(results(peer, one)[0]) for one in ODD} == {("completed", "")}
    assert agent.sql("SELECT count(*) FROM turns")[0][0] == len(ODD)


def test_an_id_means_one_thing_whichever_door_it_came_through(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace(None, otherwise=Say('{"result": {"ok": true}}'))
    content = {"workflow_id": "w", "step_id": "s", "task_type": "t", "input_data": {"n": 1}}
    agent.post("/task", {"task_id": "by-http", **content})
    agent.result("by-http")
    peer.send(request("by-http", json.dumps(content), content_kind="structured"))
    assert code(peer.result("by-http")) == ("failed", "request_id_conflict")
    peer.send(request("by-host", json.dumps(content), content_kind="structured"))
    assert code(peer.result("by-host")) == ("completed", "")
    assert agent.post("/task", {"task_id": "by-host", **content}).status_code == 200
    assert agent.post("/task", {"task_id": "by-host", **content, "task_type": "other"}).status_code == 409
    agent.chat("hello", message_id="said")
    peer.send(request("said", "hello"))
    assert code(peer.result("said")) == ("failed", "request_id_conflict")
    peer.send(request("asked", "hello"))
    peer.result("asked")
    before = len(agent.provider.completions)
    assert agent.chat("hello", message_id="asked").status_code == 200
    assert agent.chat("other", message_id="asked").status_code == 409
    assert len(agent.provider.completions) == before


# ---------------------------------------------------------------- the end of a life


def test_a_shutdown_keeps_what_runs_and_what_waits(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MEDIATION_WINDOW=2, AGENT_DRAIN_GRACE=0)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))], otherwise=Say("done"))
    for number in (1, 2):
        peer.send(request(f"req-{number}"))
        peer.until(signal="accepting", request_id=f"req-{number}")
    agent.provider.wait_for(1)
    agent.sigterm()
    while peer.line() is not None:
        pass
    assert not results(peer, "req-1"), "it is not over"
    agent.process.wait(20)
    agent.provider.script.replace(None, otherwise=Say("done"))
    agent.start()
    peer = host.accept()
    resumed = peer.attach(epoch=2)
    assert {*resumed["running"], *resumed["unacked"]} == {"req-1", "req-2"}
    for number in (1, 2):
        assert code((results(peer, f"req-{number}") or [peer.result(f"req-{number}")])[0])[0] == "completed"


def test_a_large_outbox_goes_out_over_one_connection(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    peer.attach()
    peer.send(request("kept", "say:pong"))
    peer.result("kept")
    agent.process.kill9()
    with closing(sqlite3.connect(agent.data_dir / "agent.db")) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM work").fetchone())
        for number in range(600):
            name = f"old-{number:04}"
            given, told = (json.loads(row[column]) for column in ("request_json", "result_json"))
            fields = {
                **row,
                "request_id": name,
                "request_json": json.dumps({**given, "request_id": name}),
                "result_json": json.dumps({**told, "request_id": name, "content": "x" * 30_000}),
            }
            marks = ", ".join("?" for _ in fields)
            connection.execute(f"INSERT INTO work VALUES ({marks})", tuple(fields.values()))  # noqa: S608
        connection.commit()
    agent.start()
    peer = host.accept()
    assert len(peer.attach(epoch=2)["unacked"]) == 601
    told = {peer.until(status="completed")["request_id"] for _ in range(601)}
    assert len(told) == 601
    for name in told:
        peer.send({"ctl": "ack", "request_id": name})
    eventually(lambda: agent.sql("SELECT count(*) FROM work WHERE acked_at IS NULL")[0][0] == 0)


# ---------------------------------------------------------------- hosts without manners


def test_a_drain_ends_with_its_connection(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))], otherwise=Say("again"))
    peer.send(request("req-1"))
    agent.provider.wait_for(1)
    for seconds in (600, 500, 400):
        peer.send({"ctl": "drain", "deadline_s": seconds})
    eventually(lambda: agent.status()["channel"] == "draining")
    peer.close()
    peer = host.accept()
    peer.attach({"req-1": "continue"}, epoch=2)
    agent.provider.release()
    assert peer.result("req-1")["status"] == "completed"
    peer.send(request("req-2"))
    assert peer.result("req-2")["content"] == "again"


def test_floods_change_nothing_for_others(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))], otherwise=Say("fine"))
    peer.send(request("req-0"))
    agent.provider.wait_for(1)
    floods = [
        [{"ctl": "ping", "n": number} for number in range(200)],
        [{"ctl": "ack", "request_id": f"unknown-{number}"} for number in range(500)],
        [{"ctl": "cancel", "request_id": f"unknown-{number}"} for number in range(100)],
        [{"ctl": "of the future", "n": number} for number in range(2000)],
        [{"ctl": "resume_ok", "verdicts": {f"x-{number}": "forget" for number in range(20_000)}}] * 3,
        [{"version": 3, "hash": "x", "effective_at": "2026-11-22T02:00:00Z", "payload_ref": "inline"}] * 50,
    ]
    for flood in floods:
        peer.send(*flood)
        began = time.monotonic()
        assert agent.get("/healthz").status_code == 200
        assert time.monotonic() - began < 10
        peer.send({"ctl": "ping", "n": 999_999})
        peer.until(ctl="pong", n=999_999)
    agent.provider.release()
    assert peer.result("req-0")["status"] == "completed"
    eventually(lambda: agent.status()["channel"] == "ready")
    while sum(one.get("signal") == "constraints_outdated" for one in peer.seen) < 50:
        assert peer.line() is not None
    peer.send(request("req-1"))
    assert peer.result("req-1")["content"] == "fine"


@pytest.mark.parametrize("silence", ["half a frame", "nothing"])
def test_a_host_that_has_gone_silent_is_left(start: Start, host: Host, silence: str) -> None:
    mediated(start, host)
    peer = host.accept()
    peer.attach(heartbeat_s=0.001)
    if silence == "half a frame":
        peer.raw(b'{"ctl": "ping", ')
    assert "said nothing" in host.accept(10).until(signal="mediation_broken")["detail"]
    pings = 0
    while (frame := peer.line()) is not None:
        pings += frame.get("ctl") == "ping"
    assert 1 <= pings <= 4, "no more often than is sensible"


def test_a_greeting_out_of_order_ends_the_connection_and_no_more(start: Start, host: Host) -> None:
    agent = mediated(start, host)
    peer = host.accept()
    peer.send({"ctl": "resume_ok", "verdicts": {}})
    peer.attach()
    again = {"ctl": "welcome", "workspace": "ws", "agent_id": "ws-1", "epoch": 1}
    peer.send(again)
    peer = host.accept()
    assert "sent a second welcome" in peer.until(signal="mediation_broken")["detail"]
    peer.until(signal="ready")
    peer.send({**again, "challenge": "prove it"})
    peer = host.accept()
    assert "AGENT_MEDIATION_KEY_FILE" in peer.until(signal="mediation_broken")["detail"]
    peer.welcome(epoch=3)
    peer.send(request("early"))
    assert code(peer.result("early")) == ("denied", "draining")
    peer.send({"ctl": "resume_ok", "verdicts": {}}, request("early", "say:now"))
    assert peer.result("early")["content"] == "now"
    agent.still_works()


# ---------------------------------------------------------------- secrets


def test_secrets_do_not_go_out(start: Start, host: Host, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY + b"\n")
    agent = mediated(start, host, AGENT_MEDIATION_KEY_FILE=key, AGENT_MESH_TOKEN='quoted"token')
    peer = host.accept()
    peer.attach(challenge=True)
    told = f'{TOKEN} and {KEY.decode()} and quoted"token'
    agent.provider.script.replace([Say(told), Say(json.dumps({"result": {"told": told}}))])
    peer.send(request("text"))
    assert peer.result("text")["content"] == "[redacted] and [redacted] and [redacted]"
    peer.send(request("json", "{}", content_kind="json"))
    assert json.loads(peer.result("json")["content"])["result"] == {"told": "[redacted] and [redacted] and [redacted]"}
    whole = json.dumps(peer.seen)
    assert not [one for one in (TOKEN, KEY.decode(), "quoted") if one in whole]


# ---------------------------------------------------------------- a channel that must be up


def test_nothing_is_begun_before_a_required_channel_is_up(start: Start, host: Host) -> None:
    host.hang_up()
    agent = mediated(start, host, AGENT_MEDIATION_REQUIRED="true", AGENT_MEDIATION_GRACE=1)
    agent.provider.script.replace(None, otherwise=Say("at last"))
    waiting = agent.chat("hello", wait=1)
    assert waiting.status_code == 202
    assert agent.post("/task", {"task_id": "t", "workflow_id": "w", "step_id": "s", "task_type": "t", "input_data": {}})
    time.sleep(1.5)  # the grace passes: there is no mediated work, and people's waits go on
    assert agent.provider.completions == []
    host.listen()
    host.accept().attach()
    assert agent.result("t")["status"] == "complete"
    assert len(agent.provider.completions) == 2


def test_recovered_work_waits_for_the_channel_and_then_yields(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MEDIATION_REQUIRED="true", AGENT_MEDIATION_GRACE=1)
    peer = host.accept()
    peer.attach()
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))], otherwise=Say("never"))
    peer.send(request("req-1"))
    agent.provider.wait_for(1)
    agent.process.kill9()
    host.hang_up()
    before = len(agent.provider.completions)
    agent.start()
    eventually(lambda: agent.sql("SELECT count(*) FROM work WHERE result_json IS NOT NULL")[0][0] == 1)
    assert len(agent.provider.completions) == before
    host.listen()
    peer = host.accept()
    peer.attach(epoch=2)
    assert code(peer.result("req-1")) == ("yielded", "channel_broken")
