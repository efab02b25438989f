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
"""Time from the request for a quarantine to the end of open streams."""
ROUNDS = 3
"""Other work on the machine may slow one of them down: the median counts."""
REPLY = Say(pieces=("word ",) * 6000, delay=0.01)
"""It takes a minute."""


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


def check_quarantine_cuts_streams(host: Host, provider: ScriptedProvider, name: str, rounds: int = ROUNDS) -> None:
    """Start the workspace, open an idle stream and one on which a reply arrives, fence the workspace: both end at once,
    and nothing goes through."""
    provider.script.replace(None, otherwise=REPLY)
    measured: list[float] = []
    for _ in range(rounds):
        assert host.operator.post(f"/workspaces/{name}/start").status_code == 200
        measured.append(_quarantine(host, name))
        assert host.operator.post(f"/workspaces/{name}/unquarantine").status_code == 200
    provider.script.replace(None)
    shown = ", ".join(f"{seconds * 1000:.0f} ms" for seconds in measured)
    print(f"\nfrom the request for a quarantine to the end of two streams: {shown}")
    assert sorted(measured)[rounds // 2] <= CUT_SECONDS, shown


def _quarantine(host: Host, name: str) -> float:
    """Return the seconds until both streams have ended."""
    with agent(host, name) as ada, ExitStack() as stack:
        _until(ada, lambda: ada.get("status").is_success, "its server answers")  # a machine runs before that
        idle = _Reading(stack.enter_context(ada.stream("GET", "events")))
        reply = _Reading(stack.enter_context(ada.stream("POST", "chat/stream", json={"message": "Go"})))
        _until(ada, lambda: reply.content.count(b'"text-delta"') >= 3, "the reply arrives")
        began = time.monotonic()
        fenced = host.operator.post(f"/workspaces/{name}/quarantine", json={})
        assert fenced.status_code == 200, fenced.text
        seconds = max(one.ended.result(ada.timeout.read) for one in (idle, reply)) - began
        assert b'"text-end"' not in reply.content, "it was cut in the middle of its text"
        refused = ada.get("status")
        assert (refused.status_code, refused.json()["code"]) == (409, "quarantined")
        return seconds


class _Reading:
    """Reads a stream to its end, however it ends."""

    def __init__(self, reply: httpx.Response) -> None:
        assert reply.status_code == 200, reply.read()
        self.content = b""
        self.ended: Future[float] = Future()
        """When: a monotonic time."""
        threading.Thread(target=self._read, args=(reply,), daemon=True).start()

    def _read(self, reply: httpx.Response) -> None:
        with contextlib.suppress(httpx.TransportError):
            for piece in reply.iter_raw():
                self.content += piece
        self.ended.set_result(time.monotonic())


def _until(ada: httpx.Client, done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + (ada.timeout.read or PATIENCE)
    while not done():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
