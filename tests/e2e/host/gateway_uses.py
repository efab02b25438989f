"""What people do with an agent by the gateway, for the tests of all drivers."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

import httpx

from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.integration.host.live import OPERATOR, PATIENCE, Host

TASK = {"workflow_id": "w", "step_id": "s", "task_type": "say", "input_data": {"instructions": "Say it."}}
ASK = [{"permission": "write", "pattern": "*", "action": "ask"}]
CUT_SECONDS = 0.1
"""Time from the request for a quarantine to the end of an open stream."""
ROUNDS = 3
"""Other work on the machine may slow one of them down."""


def agent(host: Host, name: str) -> httpx.Client:
    """The agent's API by the gateway, for the operator."""
    made = host.client(OPERATOR)
    made.base_url = f"{str(made.base_url).rstrip('/')}/workspaces/{name}/api/"
    made.timeout = host.operator.timeout
    return made


def use_everything(ada: httpx.Client, provider: ScriptedProvider, name: str) -> None:
    """Read the status, run a task and read its result, stream a chat, abort one, approve a tool, upload a file."""
    assert ada.get("status").json()["agent_id"] == name
    _run_task(ada, provider)
    _stream_and_abort(ada, provider)
    _approve(ada, provider)
    _upload(ada)


def _run_task(ada: httpx.Client, provider: ScriptedProvider) -> None:
    provider.script.replace([Say("well said")])
    assigned = ada.post("task", json=TASK)
    assert assigned.is_success, assigned.text
    result = ada.get("result", params={"task_id": assigned.json()["task_id"], "wait": 30})
    assert (result.json()["status"], result.json()["result"]) == ("complete", {"text": "well said"}), result.text


def _stream_and_abort(ada: httpx.Client, provider: ScriptedProvider) -> None:
    """A piece comes while the model speaks; the abort ends the stream."""
    session = uuid.uuid4().hex
    provider.script.replace([Hang(after=1, reply=Say("one two three"))])
    with ada.stream("POST", "chat/stream", json={"message": "Go", "session_id": session}) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        lines = reply.iter_lines()
        assert any('"text-delta"' in line for line in lines), "a piece comes before the model has ended"
        aborted = ada.post(f"chat/{session}/abort", json={})
        assert aborted.json()["aborted"] is True, aborted.text
        assert any('"abort"' in line for line in lines)
    provider.release()


def _approve(ada: httpx.Client, provider: ScriptedProvider) -> None:
    session = uuid.uuid4().hex
    provider.script.replace([Say("hello"), Call("write", {"path": "a.txt", "content": "hi"}, id="w"), Say("saved")])
    assert ada.post("chat", json={"message": "Hello", "session_id": session}).status_code == 200
    assert ada.put(f"sessions/{session}/permissions", json={"rules": ASK}).status_code == 200
    asked = ada.post("chat", json={"message": "Save it", "session_id": session})
    assert asked.status_code == 202, asked.text
    [pending] = asked.json()["pending"]
    assert (pending["kind"], pending["tool"]) == ("approval", "write")
    answered = ada.post(f"chat/{session}/answer", json={"id": pending["id"], "decision": "once"})
    assert answered.status_code == 200, answered.text
    _until(ada, lambda: ada.get("workspace/a.txt").content == b"hi", "the approved tool has run")


def _upload(ada: httpx.Client) -> None:
    content = bytes(range(256)) * 1200
    assert ada.put("workspace/note.bin", content=content).status_code == 201
    part = ada.get("workspace/note.bin", headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, content[10:20])
    assert ada.get("workspace/note.bin").content == content


def check_quarantine_cuts_a_stream(host: Host, name: str) -> None:
    """Start the workspace, open a stream, fence the workspace: the stream ends at once, and nothing goes through."""
    for _ in range(ROUNDS):
        assert host.operator.post(f"/workspaces/{name}/start").status_code == 200
        seconds = _quarantine(host, name)
        print(f"\nthe stream ended {seconds * 1000:.0f} ms after the request for the quarantine")
        assert host.operator.post(f"/workspaces/{name}/unquarantine").status_code == 200
        if seconds <= CUT_SECONDS:
            return
    raise AssertionError(f"an open stream takes more than {CUT_SECONDS:g} s to end")


def _quarantine(host: Host, name: str) -> float:
    with agent(host, name) as ada, ExitStack() as stack:
        _until(ada, lambda: ada.get("status").is_success, "its server answers")  # a machine runs before that
        reply = stack.enter_context(ada.stream("GET", "events"))
        assert reply.status_code == 200, reply.read()
        ended = _reading(reply)
        began = time.monotonic()
        fenced = host.operator.post(f"/workspaces/{name}/quarantine", json={})
        assert fenced.status_code == 200, fenced.text
        seconds = ended.result(ada.timeout.read) - began
        refused = ada.get("status")
        assert (refused.status_code, refused.json()["code"]) == (409, "quarantined")
        return seconds


def _reading(reply: httpx.Response) -> Future[float]:
    """When the stream has ended, however it ends: a monotonic time."""
    ended: Future[float] = Future()

    def read() -> None:
        with contextlib.suppress(httpx.TransportError):
            for _ in reply.iter_raw():
                pass
        ended.set_result(time.monotonic())

    threading.Thread(target=read, daemon=True).start()
    return ended


def _until(ada: httpx.Client, done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + (ada.timeout.read or PATIENCE)
    while not done():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
