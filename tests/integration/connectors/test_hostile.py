"""Servers that mean no good, or were never MCP servers."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.connectors import Timeouts

from .conftest import Grow, script, until

pytestmark = pytest.mark.slow

SERVER = """
import json, sys, time

def send(message):
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\\n")
    sys.stdout.flush()

TOOLS = [{"name": "ok", "description": "Fine.", "inputSchema": {"type": "object"}}]
EVERY = ""
AT_CALL = ""

exec(sys.argv[1])

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or "method" not in asked:
        continue
    answer = {}
    if asked["method"] == "initialize":
        answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        exec(AT_CALL)
        answer = {"content": [{"type": "text", "text": "fine"}]}
    exec(EVERY)
    send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
"""


def hostile(code: str) -> dict[str, Any]:
    found = script(SERVER)
    return {**found, "args": [*found["args"], code]}


SHORT = Timeouts(first_wait=10, connect=2, backoff=(30.0,))
UNHEARD = Timeouts(first_wait=10, connect=0.3, backoff=(30.0,))
"""For those who never say anything: nobody is cut off by it."""


async def test_lines_that_are_no_messages_are_passed_over(grow: Grow) -> None:
    plant = grow(it=hostile("send('Listening on stdio'); send('{'); send('[]'); EVERY = 'send(\"log line\")'"))
    await plant.prepare()
    assert await plant.value("it_ok") == "fine"


async def test_nothing_but_lines_that_are_no_messages_is_the_end(grow: Grow) -> None:
    plant = grow(SHORT, it=script("while True: print('hello ' * 10)"))
    await plant.prepare()
    assert "no message of MCP" in plant.state("it").error


async def test_a_line_without_an_end_is_the_end(grow: Grow) -> None:
    plant = grow(SHORT, it=script("import sys\nwhile True: sys.stdout.write('x' * 65536)"))
    await plant.prepare()
    assert "too long" in plant.state("it").error


async def test_one_that_never_answers_is_given_up(grow: Grow) -> None:
    plant = grow(UNHEARD, it=script("import time; time.sleep(100)"))
    await plant.prepare()
    await until(lambda: plant.state("it").state == "waiting")
    how = "the operator can raise that by start_timeout_ms of the server it in mcp.json"
    assert plant.state("it").error == f"it did not answer within 0.3 s; {how}"


async def test_one_that_starts_slowly_has_the_time_that_it_was_given(grow: Grow) -> None:
    """Of three, one has a slow start, one a slow list and one too little time for either."""
    slow_start = "time.sleep(1.5)"
    slow_list = """EVERY = 'if asked["method"] == "tools/list": time.sleep(1.5)'"""
    plant = grow(
        UNHEARD,
        start={**hostile(slow_start), "start_timeout_ms": 60_000},
        list={**hostile(slow_list), "start_timeout_ms": 60_000},
        short={**hostile(slow_list), "start_timeout_ms": 200},
    )
    await plant.prepare()
    assert await plant.value("start_ok") == "fine"
    assert await plant.value("list_ok") == "fine"
    assert plant.state("short").error.startswith("it did not answer within 0.2 s")


async def test_one_that_closes_its_pipes_but_lives_on(grow: Grow) -> None:
    plant = grow(SHORT, it=script("import os, time; os.close(1); os.close(0); time.sleep(100)"))
    await plant.prepare()
    await until(lambda: plant.state("it").state == "waiting")
    assert plant.state("it").error.startswith(("it has closed its pipes", "it did not answer within 2 s"))


async def test_one_that_does_not_read_is_given_up(grow: Grow) -> None:
    # Half a second is enough to be found out and cuts off nobody: what goes before fits into the pipe, read or not.
    patience, ground = Timeouts(first_wait=10, backoff=(30.0,)), {"unread_seconds": 0.5}
    plant = grow(patience, ground=ground, it=hostile("AT_CALL = 'time.sleep(100)'"))
    await plant.prepare()
    calls = [asyncio.create_task(plant.call("it_ok", filling="x" * 200_000)) for _ in range(8)]
    await until(lambda: plant.state("it").state == "waiting")
    assert plant.state("it").error == "it has not read its input for 0.5 s"
    for result in await asyncio.gather(*calls):
        assert "unavailable" in (result.error_text or "")


async def test_messages_without_end_do_not_make_us_deaf(grow: Grow) -> None:
    flood = """
AT_CALL = '''
import threading
def flood():
    while True:
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
threading.Thread(target=flood, daemon=True).start()
'''
"""
    plant = grow(Timeouts(first_wait=10), it=hostile(flood))
    await plant.prepare()
    await plant.value("it_ok")
    worst = await _deafness(3)
    assert worst < 0.25, f"the loop was deaf for {worst:.2f} s"


async def test_questions_without_end_are_the_end(grow: Grow) -> None:
    code = """
AT_CALL = '''
for number in range(1000):
    send({"jsonrpc": "2.0", "id": number + 1000, "method": "sampling/createMessage", "params": {}})
'''
"""
    plant = grow(SHORT, it=hostile(code))
    await plant.prepare()
    assert "it has asked for something more than 100 times" in await plant.error("it_ok")


async def test_a_line_of_quotes_does_not_make_us_deaf(grow: Grow) -> None:
    plant = grow(Timeouts(first_wait=10), it=hostile("AT_CALL = 'send((chr(92) + chr(34)) * 2000000)'"))
    await plant.prepare()
    call = asyncio.create_task(plant.value("it_ok"))
    assert await _deafness(1) < 0.5
    assert await call == "fine"


LARGE = {
    "a text": (
        """'{"jsonrpc": "2.0", "id": ' + ID + ', "result": {"a": "' + TEXT + '"}}'""",
        "it is larger than the limit of 4 MiB",
    ),
    "its identity last": (
        """'{"result":{"a":"' + TEXT + '"},"jsonrpc":"2.0","id":' + ID + '}'""",
        "it is larger than the limit of 4 MiB",
    ),
    "behind words": (
        """'Loading {1%} {"id":' + ID + ',"result":{"a":"' + TEXT + TEXT + '"}}'""",
        "it is larger than the limit of 4 MiB",
    ),
    "an error": (
        """'{"id":' + ID + ',"jsonrpc":"2.0","error":"' + TEXT + '"}'""",
        "it is larger than the limit of 4 MiB",
    ),
    "values": (
        """'{"jsonrpc":"2.0","id":' + ID + ',"result":{"a":[' + ",".join(["{}"] * 900000) + ']}}'""",
        "the document has more than 200000 values",
    ),
    "levels": (
        """'{"jsonrpc":"2.0","id":' + ID + ',"result":' + "[" * 300 + "]" * 300 + '}'""",
        "the document is nested more than 200 levels deep",
    ),
}


def large(line: str, then: str = "") -> dict[str, Any]:
    """A server whose first call prints this line, and whose second one adds a tool with the number of calls."""
    code = f"""
runs = 0
TEXT = "x" * 5_000_000
AT_CALL = '''
runs += 1
ID = str(asked["id"])
if runs == 1:
    send(LINE)
    {then or "pass"}
else:
    TOOLS.append({{"name": f"run{{runs}}", "inputSchema": {{"type": "object"}}}})
    send({{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}})
'''.replace("LINE", {line!r})
"""
    return hostile(code)


@pytest.mark.parametrize(("line", "reason"), LARGE.values(), ids=LARGE.keys())
async def test_an_answer_that_is_too_large_fails_its_call_alone(grow: Grow, line: str, reason: str) -> None:
    plant = grow(Timeouts(first_wait=10, relist=0.05, backoff=(30.0,)), it=large(line, "asked['id'] = 'other'"))
    await plant.prepare()
    assert await plant.error("it_ok") == f"its answer was not read: {reason}"
    assert await plant.value("it_ok") == "fine"
    await until(lambda: "it_run2" in plant.names)  # it is the same program
    assert (plant.state("it").state, plant.state("it").error) == ("ready", None)


BESIDE = {
    "a line of a log": """'DEBUG ' + TEXT""",
    "a log as JSON": """json.dumps({"level": "debug", "text": TEXT})""",
    "values of a log": """'DEBUG ' + json.dumps([1] * 300000)""",
    "a notification": """{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": TEXT}}""",
    "a request": """{"jsonrpc": "2.0", "id": asked["id"], "method": "roots/list", "params": {"a": TEXT}}""",
}


@pytest.mark.parametrize("line", BESIDE.values(), ids=BESIDE.keys())
async def test_what_is_too_large_beside_the_answers_is_passed_over(grow: Grow, line: str) -> None:
    plant = grow(Timeouts(first_wait=10, relist=0.05, backoff=(30.0,)), it=large(line))
    await plant.prepare()
    assert [await plant.value("it_ok") for _ in range(2)] == ["fine", "fine"]
    await until(lambda: "it_run2" in plant.names)
    assert (plant.state("it").state, plant.state("it").error) == ("ready", None)


async def test_a_list_of_answers_that_is_too_large_is_the_end(grow: Grow) -> None:
    bomb = """'[{"jsonrpc":"2.0","id":' + ID + ',"result":{"a":[' + ",".join(["{}"] * 900000) + ']}}]'"""
    plant = grow(SHORT, it=large(bomb))
    await plant.prepare()
    assert "refused: the document has more than 200000 values" in await plant.error("it_ok")


def listing(tools: object, folder: Path) -> dict[str, Any]:
    """A server that lists these."""
    folder.mkdir()
    (folder / "tools.json").write_text(json.dumps(tools))
    return {**hostile(f"TOOLS = json.load(open({str(folder / 'tools.json')!r}))"), "read": [str(folder)]}


async def test_a_long_list_in_one_message(grow: Grow, tmp_path: Path) -> None:
    parameters = {f"p{n}": {"type": "string", "description": "What it is about."} for n in range(15)}
    schema = {"type": "object", "properties": parameters}
    plant = grow(it=listing([{"name": f"t{n}", "inputSchema": schema} for n in range(1000)], tmp_path / "served"))
    await plant.prepare()
    assert len(plant.names) == 1000, plant.state("it").error


async def test_schemas_that_are_bombs(grow: Grow, tmp_path: Path) -> None:
    loop = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    spiral = {
        "$ref": "#/$defs/x0",
        "$defs": {f"x{n}": {"anyOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 10} for n in range(50)},
    }
    redos = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    far = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}}}
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"a": deep}}
    wide = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "x" * 500} for n in range(2000)},
    }
    bad = {"type": "banana", "required": ["nobody"], "items": [1, 2], "allOf": 3, "maxLength": "many", "enum": []}
    schemas = {"loop": loop, "spiral": spiral, "redos": redos, "far": far, "deep": deep, "wide": wide, "bad": bad}
    tools = [{"name": name, "inputSchema": {**schema, "type": "object"}} for name, schema in schemas.items()]
    plant = grow(it=listing(tools, tmp_path / "served"))
    await plant.prepare()
    assert set(plant.names) == {f"it_{name}" for name in schemas}, plant.state("it").error
    for tool in plant.connectors.tools():
        text = json.dumps(tool.spec.parameters)
        assert len(text) <= 32 * 1024
        assert "$ref" not in text
        assert "pattern" not in json.dumps(tool.spec.parameters.get("properties", {}).get("a", {}).get("pattern", ""))
    began = time.monotonic()
    assert await plant.value("it_redos", a="a" * 40 + "!") == "fine"
    assert time.monotonic() - began < 10


async def test_a_listing_that_is_none(grow: Grow, tmp_path: Path) -> None:
    plant = grow(SHORT, it=listing([{"name": "a", "inputSchema": 7}], tmp_path / "served"))
    await plant.prepare()
    assert (plant.names, plant.state("it").error) == ([], None)
    assert plant.state("it").faults == [
        "a: its inputSchema is a number, not an object",
        "none of the tools that it lists can be used",
    ]


async def test_tools_that_are_listed_twice_or_have_no_name(grow: Grow, tmp_path: Path) -> None:
    tools = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in (
            ("a", "first"),
            ("a", "second"),
            ("", "none"),
            ("b\nc", "two lines"),
            ("x" * 500, "long"),
            ("ä", ""),
        )
    ]
    plant = grow(it=listing(tools, tmp_path / "served"))
    await plant.prepare()
    assert len(plant.names) == 2
    assert plant.connectors.tools()[0].spec.description == "first"
    assert plant.names[1].startswith("it___") or plant.names[1].startswith("it__")


async def test_a_listing_without_end(grow: Grow) -> None:
    code = """
page = 0
EVERY = '''
if asked["method"] == "tools/list":
    page += 1
    tools = [{"name": f"t{page}_{n}", "inputSchema": {"type": "object"}} for n in range(30)]
    answer = {"tools": tools, "nextCursor": str(page)}
'''
"""
    plant = grow(it=hostile(code))
    await plant.prepare()
    assert len(plant.names) == 1000


async def _deafness(seconds: float) -> float:
    """The longest time for which the event loop did nothing else, within so many seconds."""
    loop = asyncio.get_running_loop()
    end, worst = loop.time() + seconds, 0.0
    while (now := loop.time()) < end:
        await asyncio.sleep(0.005)
        worst = max(worst, loop.time() - now)
    return worst
