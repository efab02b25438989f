"""What the end-to-end tests stand on: a runtime as a process, a scripted model, and a critical reader of streams."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from agent_common.protocol import chunks as c
from agent_testing import Say
from agent_testing.provider import ProviderThread
from tests.forked import ForkedProcess

SERVE = [sys.executable, "-m", "agent_runtime", "serve"]
TOKEN = "sesame"
PATIENCE = 60.0
"""Seconds after which a wait has failed."""
_numbers = itertools.count(1)


class Runtime:
    """One agent over all its lives: the data directory stays, processes come and go."""

    command = SERVE

    def __init__(self, provider: ProviderThread, data_dir: Path, **settings: object) -> None:
        self.provider, self.data_dir = provider, data_dir
        self.env = {
            "AGENT_PORT": "0",
            "AGENT_DATA_DIR": str(data_dir),
            "AGENT_LLM_BASE_URL": provider.url,
            "AGENT_TOKEN": TOKEN,
            "AGENT_MODEL_ATTEMPTS": "2",
            "HOME": str(data_dir.parent / "home"),  # whatever the user of this machine keeps is not for tests
            **{name: str(value) for name, value in settings.items()},
        }
        self._life = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.provider.release()
        self._life.close()

    def start(self) -> None:
        """A new life; an older one is over."""
        self._life.close()
        with ExitStack() as life:
            self.process = life.enter_context(ForkedProcess(self.command, self.env))
            self.url = self.process.wait_for_output(r'"url": "(http://[^"]+)"', PATIENCE)[1]
            self.http = life.enter_context(self.client())
            self._life = life.pop_all()

    def client(self, **headers: str) -> httpx.Client:
        """Somebody else who calls; without headers of their own they hold the token."""
        carried = headers or {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.url, headers=carried, timeout=PATIENCE, trust_env=False, verify=False)  # noqa: S501  plain HTTP: nothing to verify

    def sigterm(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)

    # what callers do

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers=headers)

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params)

    def assign(self, **changes: Any) -> str:
        """Posts a task that is accepted; its id."""
        body = assignment(**changes)
        reply = self.post("/task", body)
        assert reply.status_code == 202, reply.text
        return body["task_id"]

    def result(self, task_id: str, wait: float = PATIENCE / 2) -> dict[str, Any]:
        """The result of a task once it has one."""
        reply = self.get("/result", task_id=task_id, wait=wait)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def run(self, **changes: Any) -> dict[str, Any]:
        """A task from its assignment to its result."""
        return self.result(self.assign(**changes))

    def record(self, task_id: str) -> dict[str, Any]:
        reply = self.get(f"/task/{task_id}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def status(self) -> dict[str, Any]:
        return self.get("/status").json()

    def chat(self, message: str, **more: Any) -> httpx.Response:
        return self.post("/chat", {"message": message, **more})

    @contextmanager
    def stream(self, method: str, path: str, body: Any = None, **headers: str) -> Generator[Stream]:
        with self.http.stream(method, path, json=body, headers=headers) as response:
            yield Stream(response)

    def still_works(self) -> None:
        """After whatever happened: new work is taken and done."""
        self.provider.release()
        self.provider.script.replace(follow)
        assert self.run(input_data={"ask": "still-works"})["result"] == {"text": "still here"}
        assert self.get("/readyz").json() == {"ready": True, "reasons": []}

    def meets_its_servers(self) -> None:
        """Has a turn that starts the MCP servers, and waits until all have told what they can: a turn itself waits only
        5 s for that, which is less than a busy machine may need."""
        self.provider.script.replace([Say("hello")])
        assert self.chat("hello", session_id=fresh("s")).status_code == 200
        eventually(lambda: all(one["state"] == "ready" for one in self.get("/capabilities").json()["mcp_servers"]))

    # what the disk says

    def sql(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Reads the database as an outsider does, whether or not a server runs."""
        uri = f"{(self.data_dir / 'agent.db').as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=60)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(query, values).fetchall()

    def parts(self, session_id: str, role: str = "assistant") -> list[dict[str, Any]]:
        """The stored parts of one side of a session, each of them valid JSON."""
        query = (
            "SELECT p.* FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id"
            ' WHERE p.session_id = ? AND m.role = ? ORDER BY m.created_at, m.id, p."index"'
        )
        return [json.loads(row["data_json"]) for row in self.sql(query, session_id, role)]


def follow(request: Any) -> Any:
    """A model that answers the question of `still_works` and whatever else with `ok`."""
    return Say("still here" if "still-works" in request.last_user_text else "ok")


def assignment(**changes: Any) -> dict[str, Any]:
    """A TaskAssignment that is right unless `changes` say otherwise; None takes a field away."""
    body: dict[str, Any] = {
        "task_id": fresh("task"),
        "workflow_id": "wf-1",
        "step_id": "step-1",
        "task_type": "check",
        "input_data": {"ask": "anything"},
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def fresh(kind: str) -> str:
    """A name that no other test uses."""
    return f"{kind}-{next(_numbers)}"


def in_background(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A call that goes on meanwhile: the thread to join, and the list that its answer will be in."""
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(call()), daemon=True)
    thread.start()
    return thread, got


def eventually(check: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    """Waits until `check` gives something true, and gives that."""
    deadline = time.monotonic() + timeout
    while not (found := check()):
        assert time.monotonic() < deadline, f"it did not come true within {timeout} s"
        time.sleep(0.01)
    return found


def assert_problem(reply: httpx.Response, status: int, code: str, *fields: str) -> dict[str, Any]:
    """The one error shape: problem+json with its five members, a stable code, and every wrong field by name."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert {"type", "title", "status", "detail", "instance", "code"} <= body.keys()
    assert body["status"] == status
    assert body["code"] == code, body
    assert body["title"] == httpx.codes.get_reason_phrase(status) or status in (413, 422)
    assert body["instance"] == reply.request.url.path
    assert body["detail"]
    if fields:
        assert {fault["field"] for fault in body["errors"]} == set(fields), body
        assert all(fault.keys() == {"field", "message"} and fault["message"] for fault in body["errors"])
    return body


class Stream:
    """Reads a server-sent stream line by line and believes nothing."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()
        self.read: list[c.AnyChunk] = []
        self.done = False

    def next(self) -> c.AnyChunk | None:
        """The next chunk; None at the end."""
        for line in self._lines:
            assert line == "" or line.startswith((":", "data: ")), f"not a line of this protocol: {line!r}"
            assert not self.done or line == "", f"[DONE] was not the end: {line!r}"
            if line == "data: [DONE]":
                self.done = True
            elif line.startswith("data: "):
                self.read.append(read_chunk(line.removeprefix("data: ")))
                return self.read[-1]
        return None

    def until(self, kind: str) -> c.AnyChunk:
        """Reads on to the next chunk of that type."""
        while (chunk := self.next()) is not None:
            if chunk.type == kind:
                return chunk
        raise AssertionError(f"no {kind} in {[chunk.type for chunk in self.read]}")

    def rest(self) -> list[c.AnyChunk]:
        """All of it, to the end, checked as a whole."""
        assert self.response.status_code == 200, self.response.read()
        headers = self.response.headers
        for name, value in c.STREAM_HEADERS.items():
            assert headers[name] == value, f"{name}: {headers[name]}"
        while self.next() is not None:
            pass
        assert self.done, "the stream ended without [DONE]"
        assert_well_formed(self.read)
        return self.read


def read_chunk(text: str) -> c.AnyChunk:
    chunk = c.chunk_adapter().validate_json(text)
    assert not chunk.model_extra, f"members that the protocol does not know: {chunk.model_extra}"
    assert json.loads(text) == chunk.model_dump(exclude_none=True)
    return chunk


def types(chunks: list[c.AnyChunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def text_of(chunks: list[c.AnyChunk]) -> str:
    return "".join(chunk.delta for chunk in chunks if isinstance(chunk, c.TextDelta))


def assert_well_formed(chunks: list[c.AnyChunk]) -> None:
    """What the AI SDK's reducer asks of a stream: a start, nested steps, texts and calls that close, one end."""
    told = [chunk for chunk in chunks if not (isinstance(chunk, c.DataChunk) and chunk.transient)]
    assert isinstance(told[0], c.Start)
    assert sum(isinstance(chunk, c.Start) for chunk in told) == 1
    assert isinstance(told[-1], c.Finish | c.Abort)
    assert sum(isinstance(chunk, c.Finish | c.Abort) for chunk in told) == 1
    open_texts: set[str] = set()
    open_calls: dict[str, bool] = {}
    in_step = False
    for chunk in told:
        match chunk:
            case c.StartStep():
                assert not in_step
                in_step = True
            case c.FinishStep():
                assert in_step
                assert not open_texts
                in_step = False
            case c.TextStart() | c.ReasoningStart():
                assert chunk.id not in open_texts
                open_texts.add(chunk.id)
            case c.TextDelta() | c.ReasoningDelta():
                assert chunk.id in open_texts
            case c.TextEnd() | c.ReasoningEnd():
                open_texts.remove(chunk.id)
            case c.ToolInputStart():
                assert chunk.toolCallId not in open_calls
                open_calls[chunk.toolCallId] = True
            case c.ToolInputDelta() | c.ToolInputAvailable():
                assert open_calls.setdefault(chunk.toolCallId, True)
            case c.ToolInputError() | c.ToolOutputAvailable() | c.ToolOutputError():
                assert open_calls.get(chunk.toolCallId, True)
                open_calls[chunk.toolCallId] = False
            case _:
                pass
    assert not in_step
    assert not open_texts
    assert not any(open_calls.values()), f"calls without an answer: {open_calls}"
