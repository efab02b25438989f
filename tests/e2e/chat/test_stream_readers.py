"""Readers that dawdle, stand still, vanish or come again: the turn, the other readers and the server do not notice."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import psutil
import pytest

from agent_testing import Call, Hang, Say, Step

from ..conftest import Start
from ..live import PATIENCE, TOKEN, Runtime, assert_problem, eventually, fresh, in_background, text_of, types

MEGABYTE = 1024 * 1024
LINE = "x" * 1000
LONG = (LINE,) * 4000
STALLED = 24


@pytest.fixture
def own(start: Start) -> Runtime:
    return start()


@contextmanager
def stalled(agent: Runtime, path: str) -> Generator[socket.socket]:
    """A reader who asks for a stream and reads nothing of it."""
    where = urlsplit(agent.url)
    with closing(socket.socket()) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        reader.settimeout(PATIENCE)
        reader.connect((where.hostname, where.port))
        lines = (f"GET {path} HTTP/1.1", "host: agent", f"authorization: Bearer {TOKEN}", "", "")
        reader.sendall("\r\n".join(lines).encode())
        yield reader


def begin(agent: Runtime, *steps: Step) -> tuple[str, dict[str, str]]:
    """A turn that stands still behind its first word; the session, and the message to send again."""
    agent.provider.script.replace(list(steps), otherwise=Say("next"))
    session = fresh("s")
    body = {"message": "go", "session_id": session, "message_id": fresh("m")}
    assert agent.post("/chat", {**body, "wait": 0}).status_code == 202
    with agent.stream("GET", f"/chat/{session}/stream") as stream:
        while not any(step in text_of(stream.read) for step in (LINE, "one ", "all ")):
            assert stream.next() is not None
    return session, body


def test_one_who_reads_nothing_holds_up_nobody(own: Runtime) -> None:
    session, body = begin(own, Hang(after=1, reply=Say(pieces=LONG)))
    path = f"/chat/{session}/stream"
    with stalled(own, path) as reader, own.stream("GET", path) as watching:
        watching.until("text-delta")
        reading, got = in_background(watching.rest)
        began = time.monotonic()
        own.provider.release()
        reply = own.post("/chat", body).json()
        reading.join(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
        assert reply["response"] == LINE * 4000
        assert text_of(got[0]) == LINE * 4000
        assert own.chat("and you?", session_id=fresh("s")).json()["response"] == "next"
        eventually(lambda: own.status()["state"] == "idle")
        late = b""
        while piece := reader.recv(MEGABYTE):
            late += piece
            if late.endswith(b"0\r\n\r\n"):
                break
        assert late.count(LINE.encode()) == 4000
    with own.stream("POST", "/chat/stream", body) as replay:
        assert text_of(replay.rest()) == LINE * 4000


@pytest.mark.slow
@pytest.mark.machine
def test_many_who_read_nothing_cost_little_memory(own: Runtime) -> None:
    """They share one log: what each of them costs is bounded, however long the turn."""
    process = psutil.Process(own.process.pid)
    grown: list[int] = []
    for readers in (0, 0, STALLED):
        session, body = begin(own, Hang(after=1, reply=Say(pieces=LONG)))
        before = process.memory_info().rss
        with _many(own, f"/chat/{session}/stream", readers):
            own.provider.release()
            assert own.post("/chat", body).json()["response"] == LINE * 4000
            grown.append(process.memory_info().rss - before)
    each = (grown[2] - max(0, min(grown[:2]))) / STALLED
    assert each < MEGABYTE, f"{each:.0f} bytes for each of {STALLED} readers of a turn of {len(LINE) * 4000} bytes"
    own.still_works()


@contextmanager
def _many(agent: Runtime, path: str, count: int) -> Generator[None]:
    if count == 0:
        yield
        return
    with stalled(agent, path), _many(agent, path, count - 1):
        yield


def test_one_who_comes_again_and_again_misses_nothing(own: Runtime) -> None:
    steps = [Call("glob", {"pattern": f"none-{number}"}, text=f"step {number}") for number in range(3)]
    session, _ = begin(own, *steps, Hang(after=2, reply=Say("one two three four")))
    path = f"/chat/{session}/stream"
    seen: list[list[str]] = []
    for _ in range(10):
        with own.stream("GET", path) as stream:
            while text_of(stream.read).count("two") == 0:
                assert stream.next() is not None
            seen.append([chunk.model_dump_json() for chunk in stream.read])
    assert all(one == seen[0] for one in seen)
    with own.stream("GET", path) as staying, own.stream("GET", path) as last:
        staying.until("start")
        own.provider.release()
        assert last.rest() == staying.rest()
        assert text_of(last.read).endswith("one two three four")
        assert types(last.read)[-1] == "finish"


@pytest.mark.parametrize("how", ["closes its half", "resets the connection"])
def test_one_who_vanishes_stops_nothing(own: Runtime, how: str) -> None:
    session, body = begin(own, Hang(after=1, reply=Say("all of it")))
    with stalled(own, f"/chat/{session}/stream") as reader:
        assert reader.recv(16).startswith(b"HTTP/1.1 200")
        if how == "closes its half":
            reader.shutdown(socket.SHUT_WR)
        else:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reader.close()
        own.provider.release()
        assert own.post("/chat", body).json()["response"] == "all of it"


def test_where_there_is_nothing_to_read(agent: Runtime) -> None:
    session = fresh("s")
    assert agent.get(f"/chat/{session}/stream").status_code == 204
    agent.chat("hi", session_id=session)
    idle = agent.get(f"/chat/{session}/stream")
    assert (idle.status_code, idle.content) == (204, b"")
    assert_problem(agent.get("/chat/ses_31859c000000AAAAAAAAAAAAAA/stream"), 404, "unknown_session")
