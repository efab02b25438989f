"""The densest JSON into every place where a guest keeps JSON or text: as many values as are admitted, again and again.
It then answers whoever reads all of it at once, and does so in its next life too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import Call, Garbage, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh
from tests.integration.host.live import PATIENCE
from tests.memory_limit import GUEST_MIB

from .densest import MANY, NUMBERS, Send, fill, post, quoted, read_at_once, replay
from .guest import SmallGuest
from .hostile_mcp import OBJECT, Message, hostile_server

OPEN = "description: Asks for nothing.\nmode: all\npermissions: {'*': allow}\n"
MANY_VALUES = "@skill\ndef many(count: int) -> list:\n    '''Give many values.'''\n    return [[]] * count\n"
EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"x","reasoning_details":LIST}}]}\n\ndata: [DONE]\n\n'
STRUCTURED = [0]
"""How many values the server's next result has."""


def tools(_: Message) -> Any:
    return {"tools": [{"name": "many", "inputSchema": OBJECT}]}


def result(_: Message) -> Any:
    return {"content": [], "structuredContent": {"a": [[]] * STRUCTURED[0]}}


class Places:
    """What a guest keeps, each with a way to send it a value."""

    def __init__(self, guest: Runtime) -> None:
        self._guest = guest
        assert self._chat("first", b'"message":"hello"').is_success
        self._session = guest.get("/sessions", limit=1).json()["sessions"][0]["id"]
        self._exported = guest.get(f"/sessions/{self._session}/export").text.splitlines()

    def all(self) -> dict[str, Send]:
        message = b'"parts":[{"type":"text","text":"x"},{"type":"data-x","data":%b}]'
        schema = b'"input_data":{},"result_schema":{"type":"object","properties":{"a":{"enum":%b}}}'
        return {
            "data of a message": lambda value: self._chat("data", message % value),
            "text of a message": lambda value: self._chat("text", b'"message":%b' % quoted(value)),
            "input of a task": lambda value: self._task(b'"input_data":{"a":%b}' % value),
            "context of a task": lambda value: self._task(b'"input_data":{},"context":{"a":%b}' % value),
            "schema of a result": lambda value: self._task(schema % value),
            "metadata of a session": self._metadata,
            "an import": self._import,
            "arguments of a call": lambda value: self._turn(Call("read", f'{{"path":{value.decode()}}}')),
            "a result of a tool": lambda value: self._turn(Call("many", {"count": value.count(b",")})),
            "a result of an MCP server": self._structured,
            "an answer of a provider": lambda value: self._turn(Garbage(EVENT.replace("LIST", value.decode()))),
            "a text of a provider": lambda value: self._turn(Say(value.decode())),
        }

    def _turn(self, answer: Any) -> httpx.Response:
        self._guest.provider.script.replace([answer, Say("done")])
        return self._guest.chat("go", session_id=fresh("dense"), agent="open")

    def _chat(self, session: str, content: bytes) -> httpx.Response:
        self._guest.provider.script.replace(None)
        return post(self._guest.http, "POST", "/chat", b'{"session_id":"%b",%b}' % (session.encode(), content))

    def _task(self, content: bytes) -> httpx.Response:
        self._guest.provider.script.replace(None)
        return post(self._guest.http, "POST", "/task", b"{%b}" % content)

    def _structured(self, value: bytes) -> httpx.Response:
        STRUCTURED[0] = value.count(b",")
        return self._turn(Call("it_many", {}))

    def _metadata(self, value: bytes) -> httpx.Response:
        return post(self._guest.http, "PATCH", f"/sessions/{self._session}", b'{"metadata":{"a":%b}}' % value)

    def _import(self, value: bytes) -> httpx.Response:
        """Import the first session once more, with the value in the place of each text."""
        data = f'{{"type":"data-x","data":{value.decode()}}}'
        rows = [json.loads(line) for line in self._exported]
        texts = [row for row in rows if row["type"] == "part" and row["data"]["type"] == "text"]
        for row in texts:
            row["data"] |= {"type": "data-x", "data_json": data}
        body, mark = "".join(f"{json.dumps(row)}\n" for row in rows), f"{next(NUMBERS):04d}"
        for row in rows:
            if old := row["data"].get("id"):
                body = body.replace(old, old[:-8] + mark + old[-4:])
        return self._guest.http.post("/sessions/import", content=body.encode(), timeout=PATIENCE)


def lists(guest: Runtime) -> Iterator[str]:
    yield from ("/sessions?limit=100", "/tasks?limit=100", "/pending", "/status", "/capabilities", "/metrics")
    for session in guest.get("/sessions", limit=100).json()["sessions"][:10]:
        yield from (f"/sessions/{session['id']}/{what}" for what in ("messages", "export", "prompt"))
    for task in guest.get("/tasks", limit=100).json()["tasks"][:10]:
        yield f"/task/{task['task_id']}"


@pytest.mark.timeout(1800)
def test_a_guest_keeps_the_densest_values_and_lives(tmp_path: Path) -> None:
    for folder, name, text in (("agents", "open.yaml", OPEN), ("skills", "many.py", MANY_VALUES)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    with ExitStack() as stack:
        url = stack.enter_context(hostile_server(tools, result))
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"it": {"url": url}}}))
        provider = stack.enter_context(ScriptedProvider())
        guest = stack.enter_context(SmallGuest(provider, tmp_path, AGENT_MAX_QUEUE=2 * MANY))
        guest.meets_its_servers()
        for place, send in Places(guest).all().items():
            kept = fill(send)
            eventually(lambda: not guest.status()["sessions"]["running"])
            print(f"{place}: {kept} kept, {guest.peak_mib} MiB")
        for _ in range(2):
            read_at_once(guest.http, lists(guest))
            replay(guest.http, "/events")
            print(f"all was read: {guest.peak_mib} MiB")
            assert guest.peak_mib < GUEST_MIB
            guest.start()
        guest.still_works()
