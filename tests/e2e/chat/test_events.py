"""`/events`: what happens to turns, told to whoever watches, and only about what is theirs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from agent_testing import Call, Fail, Hang, Say

from ..live import PATIENCE, TOKEN, Runtime, assert_problem, eventually, fresh, in_background

ASK = {"questions": [{"question": "Which colour?"}]}


class Watcher:
    """Reads `/events` and believes nothing."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines = response.iter_lines()
        assert next(self._lines).startswith(":")
        name, _, position = next(self._lines).partition(": ")
        assert name == "id"
        self.last_id = int(position)
        """The position in the stream, which is told before the first event too."""
        self._first = {name: position}
        self.ids: list[int] = []
        self.comments = 0

    def next(self) -> dict[str, Any]:
        event, self._first = self._first, {}
        for line in self._lines:
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                event[name] = value
                self.last_id = int(value) if name == "id" else self.last_id
            elif "data" in event:
                self.ids.append(int(event["id"]))
                body = json.loads(event["data"])
                assert body["type"] == event["event"]
                return body
        raise AssertionError("the stream has ended")

    def until(self, kind: str, message: str) -> list[dict[str, Any]]:
        """All events up to that one."""
        read = [self.next()]
        while (read[-1]["type"], read[-1].get("message_id")) != (kind, message):
            read.append(self.next())
        return read


def watch(agent: Runtime, **headers: str) -> Any:
    return agent.http.stream("GET", "/events", headers=headers)


def names(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["message_id"]) for event in events]


def test_two_watchers_see_the_same_turns_with_their_names(agent: Runtime) -> None:
    agent.provider.script.replace([Say("fine"), Call("question", ASK), Say("blue"), Fail(401), Hang(after=1)])
    session, other = fresh("s"), fresh("s")
    with watch(agent) as one, watch(agent) as two:
        watchers = [Watcher(one), Watcher(two)]
        agent.chat("1", session_id=session, message_id="good")
        reply = agent.chat("2", session_id=session, message_id="asks")
        assert (reply.status_code, reply.json()["status"]) == (202, "waiting")
        (pending,) = reply.json()["pending"]
        agent.post(f"/chat/{session}/answer", {"id": pending["id"], "answers": [["blue"]]})
        eventually(lambda: agent.get(f"/sessions/{session}").json()["status"]["state"] == "idle")
        agent.chat("3", session_id=session, message_id="fails")
        with agent.stream("POST", "/chat/stream", {"message": "4", "session_id": other, "message_id": "stops"}) as turn:
            turn.until("text-delta")
            agent.post(f"/chat/{other}/abort", {})
        told = [watcher.until("turn-finished", "stops") for watcher in watchers]
    assert told[0] == told[1]
    assert watchers[0].ids == watchers[1].ids
    assert watchers[0].ids == sorted(set(watchers[0].ids))
    assert names(told[0]) == [
        *(("turn-started", "good"), ("turn-finished", "good")),
        *((kind, "asks") for kind in ("turn-started", "approval-requested", "approval-resolved", "turn-finished")),
        *(("turn-started", "fails"), ("turn-finished", "fails")),
        *(("turn-started", "stops"), ("turn-finished", "stops")),
    ]
    reasons = [event["reason"] for event in told[0] if event["type"] == "turn-finished"]
    assert reasons == ["finish", "finish", "error", "abort"]
    asked, resolved = told[0][3:5]
    assert (asked["id"], asked["kind"], asked["session_id"]) == (pending["id"], "question", session)
    assert (asked["tool"], asked["input"], asked["user"], asked["agent"]) == ("question", ASK, "operator", "default")
    assert asked["expires_at"] > asked["since"] > 0
    assert (resolved["id"], resolved["outcome"]) == (pending["id"], "answered")
    assert all(event["session_id"] in (session, other) for event in told[0])
    assert [event["at"] for event in told[0]] == sorted(event["at"] for event in told[0])
    assert all(event["pending_approval"] is False for event in told[0] if event["type"] == "turn-finished")


def test_a_queued_message_is_announced_when_it_begins(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(reply=Say("first"))], otherwise=Say("second"))
    session = fresh("s")
    with watch(agent) as response:
        watcher = Watcher(response)
        agent.chat("1", session_id=session, message_id="one", wait=0)
        agent.chat("2", session_id=session, message_id="two", wait=0)
        agent.chat("3", session_id=session, message_id="three", wait=0)
        agent.http.delete(f"/chat/{session}/queue/two")
        agent.provider.release()
        told = watcher.until("turn-finished", "three")
    assert names(told) == [(kind, name) for name in ("one", "three") for kind in ("turn-started", "turn-finished")], (
        "one that was taken back never began"
    )


def test_each_user_sees_their_own(agent: Runtime) -> None:
    agent.provider.script.replace(None)
    with watch(agent, **{"x-agent-user": "anna"}) as hers, watch(agent) as everybodys:
        anna, host = Watcher(hers), Watcher(everybodys)
        agent.chat("hi", user="bert", session_id=fresh("s"), message_id="of-bert")
        agent.chat("hi", session_id=fresh("s"), message_id="of-operator")
        agent.chat("hi", user="anna", session_id=fresh("s"), message_id="of-anna")
        assert names(anna.until("turn-finished", "of-anna")) == [
            ("turn-started", "of-anna"),
            ("turn-finished", "of-anna"),
        ]
        told = host.until("turn-finished", "of-anna")
        assert {name for _, name in names(told)} == {"of-bert", "of-operator", "of-anna"}
    with agent.client(Accept="*/*") as stranger:
        assert_problem(stranger.get("/events"), 401, "unauthorized")


@pytest.fixture
def deaf(agent: Runtime) -> Iterator[socket.socket]:
    """A watcher who never reads."""
    where = urlsplit(agent.url)
    with closing(socket.socket()) as watcher:
        watcher.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        watcher.connect((where.hostname, where.port))
        lines = ("GET /events HTTP/1.1", "host: agent", f"authorization: Bearer {TOKEN}", "", "")
        watcher.sendall("\r\n".join(lines).encode())
        yield watcher


def test_one_who_never_reads_does_no_harm(agent: Runtime, deaf: socket.socket) -> None:
    agent.provider.script.replace(None)
    session = fresh("s")
    with watch(agent) as response:
        watcher = Watcher(response)
        began = time.monotonic()
        for number in range(100):
            assert agent.chat("hi", session_id=session, message_id=f"{session}-{number}").status_code == 200
        told = watcher.until("turn-finished", f"{session}-99")
        assert len(told) == 200
        assert time.monotonic() - began < PATIENCE
    deaf.settimeout(PATIENCE)
    assert deaf.recv(16).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_every_silence_is_filled(agent: Runtime) -> None:
    """A comment within 15 seconds on each stream; whoever hears none may take the connection for dead."""
    agent.provider.script.replace([Hang(after=1)])
    body = {"message": "go", "session_id": fresh("s")}
    with watch(agent) as events, agent.stream("POST", "/chat/stream", body) as turn:
        turn.until("text-delta")
        began = time.monotonic()
        heard = [in_background(lambda lines=lines: _comment(lines)) for lines in (_lines(events), turn._lines)]
        for thread, _ in heard:
            thread.join(17)
        assert [bool(got) for _, got in heard] == [True, True]
        assert time.monotonic() - began < 17


def _lines(response: httpx.Response) -> Iterator[str]:
    lines = response.iter_lines()
    for line in lines:
        if line == ": watching":
            break
    return lines


def _comment(lines: Iterator[str]) -> str:
    return next(line for line in lines if line.startswith(":"))
