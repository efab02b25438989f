"""A worker in the process of the test, spoken to over pipes as the server does."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.skills.worker.main import SkillWorker
from agent_runtime.skills.worker.mesh_proxy import METHODS
from agent_runtime.skills.workers.protocol import MESSAGE_LIMIT, BrokenProtocol, Message, pack, unpack

PLUGIN = """
@skill(name="add", description="d", parameters={"a": {"type": "integer"}, "b": {"type": "integer", "default": 10}})
def add(a, b):
    return a + b

@skill(name="where", description="d")
async def where(*, workspace):
    return str(workspace)

@skill(name="talk", description="d")
async def talk(*, mesh_client):
    answer = await mesh_client.chat([{"role": "user", "content": "hi"}], model="m")
    return [answer["content"], await mesh_client.embed(["a"])]

@skill(name="talk_plainly", description="d")
def talk_plainly(*, mesh_client):
    return [mesh_client.chat([])["content"], mesh_client.embed(["a"], model="e")]

@skill(name="subscribe", description="d")
async def subscribe(*, mesh_client):
    await mesh_client.subscribe("topic")

@skill(name="subscribe_plainly", description="d")
def subscribe_plainly(*, mesh_client):
    mesh_client.subscribe("topic")

@skill(name="poke", description="d")
def poke(*, mesh_client):
    return mesh_client._token

@skill(name="poke_async", description="d")
async def poke_async(*, mesh_client):
    return mesh_client._token

@skill(name="fail", description="d")
def fail():
    raise KeyError("name")

@skill(name="leave", description="d")
def leave():
    raise SystemExit(4)

@skill(name="a_set", description="d")
def a_set():
    return {1}

@skill(name="huge", description="d")
def huge():
    return "x" * (17 * 2**20)

@skill(name="nan", description="d")
def nan():
    return float("nan")
"""


NOT_JSON = "the skill's result is not JSON: "


class Line:
    """The server's end."""

    def __init__(self, folder: Path, code: str) -> None:
        self.plugin = folder / "plug_in.py"
        self.plugin.write_text(code)
        (to_worker, self._writing), (self._reading, from_worker) = os.pipe(), os.pipe()
        self._incoming, self._outgoing = os.fdopen(to_worker, "rb"), os.fdopen(from_worker, "wb")
        self._said, self._ask = os.fdopen(self._reading, "rb"), os.fdopen(self._writing, "wb")
        worker = SkillWorker(self._incoming, self._outgoing, folder, folder)
        self._threads = [
            threading.Thread(target=worker.listen, daemon=True),
            threading.Thread(target=worker.run, args=(self.plugin,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        assert self.hear() == {"type": "ready"}
        self.say(type="load")

    def say(self, **message: Any) -> None:
        self._ask.write(pack(message))
        self._ask.flush()

    def hear(self) -> Message:
        message = unpack(self._said.readline())
        message.pop("spent", None)  # this process is not the worker's own
        return message

    def call(self, name: str, **arguments: Any) -> Message:
        self.say(type="call", id="c1", name=name, arguments=arguments)
        return self.hear()

    def close(self) -> None:
        self._ask.close()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()
        for file in (self._incoming, self._outgoing, self._said):
            file.close()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path, PLUGIN)
    assert line.hear()["type"] == "loaded"
    yield line
    line.close()
    del sys.modules["plug_in"]


def test_a_call_and_its_defaults(line: Line) -> None:
    assert line.call("add", a=1) == {"type": "result", "id": "c1", "value": 11}
    assert line.call("add", a=1, b=2)["value"] == 3


def test_the_workspace_is_given(line: Line) -> None:
    assert line.call("where")["value"] == str(line.plugin.parent)


@pytest.mark.parametrize(("name", "options"), [("talk", {"model": "m"}), ("talk_plainly", {})])
def test_the_mesh_is_asked_over_the_line(line: Line, name: str, options: dict[str, str]) -> None:
    ask = line.call(name)
    assert (ask["type"], ask["what"]) == ("ask", "chat")
    assert {**options, **ask["arguments"]} == ask["arguments"]
    line.say(type="reply", id=99, value="nobody asked for this")
    line.say(type="reply", id=ask["id"], value={"content": "hello"})
    ask = line.hear()
    assert (ask["what"], ask["arguments"]["texts"]) == ("embed", ["a"])
    line.say(type="reply", id=ask["id"], value=[[1.0]])
    assert line.hear() == {"type": "result", "id": "c1", "value": ["hello", [[1.0]]]}


@pytest.mark.parametrize("name", ["talk", "talk_plainly"])
def test_what_the_mesh_refuses_reaches_the_skill(line: Line, name: str) -> None:
    line.say(type="reply", id=line.call(name)["id"], error="no model today")
    assert line.hear() == {"type": "error", "id": "c1", "error": "no model today", "kind": "unavailable"}


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("subscribe", "unavailable", f"mesh_client has no subscribe; it has: {', '.join(METHODS)}"),
        ("subscribe_plainly", "unavailable", f"mesh_client has no subscribe; it has: {', '.join(METHODS)}"),
        ("poke", "backend", "plug_in.py line 29 in poke: AttributeError: _token"),
        ("poke_async", "backend", "plug_in.py line 33 in poke_async: AttributeError: _token"),
        ("fail", "backend", "plug_in.py line 37 in fail: KeyError: 'name'"),
        ("leave", "backend", "plug_in.py line 41 in leave: it called exit (4)"),
        ("a_set", "backend", NOT_JSON + "Object of type set is not JSON serializable"),
        ("huge", "backend", NOT_JSON + "it is larger than 4 MiB; write it to a file in the workspace"),
        ("nan", "backend", NOT_JSON + "Out of range float values are not JSON compliant"),
    ],
)  # fmt: skip
def test_a_skill_that_fails_says_where(line: Line, name: str, kind: str, told: str) -> None:
    assert line.call(name) == {"type": "error", "id": "c1", "error": told, "kind": kind}
    assert line.call("add", a=1)["value"] == 11, "and the next call is as good as any"


def test_a_plugin_that_cannot_be_imported_says_so(tmp_path: Path) -> None:
    line = Line(tmp_path, "1 / 0")
    assert line.hear() == {"type": "failed", "error": "plug_in.py line 1: ZeroDivisionError: division by zero"}
    line.close()
    del sys.modules["plug_in"]


def test_the_server_hanging_up_ends_it(tmp_path: Path) -> None:
    line = Line(tmp_path, PLUGIN)
    line.hear()
    line._ask.write(b"not a message\n")
    line.close()
    del sys.modules["plug_in"]


DEEP = b"[" * 100_000


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"type": 1}', b'{"type": "x", "v": NaN}', DEEP, b"\xff"])
def test_what_is_no_message(text: bytes) -> None:
    with pytest.raises(BrokenProtocol):
        unpack(text)


def test_a_message_has_a_bound() -> None:
    with pytest.raises(ValueError, match="larger than 16 MiB"):
        pack({"type": "x", "value": "x" * MESSAGE_LIMIT})
