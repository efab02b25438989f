"""A real MCP server as a confined program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest

from agent_common.net import DirectUpstream
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.connectors import Timeouts
from agent_runtime.tools import ToolGate

from .conftest import Grow, demo, offspring, script, until

pytestmark = pytest.mark.slow


async def test_no_process_until_a_turn_may_use_it(grow: Grow) -> None:
    before = offspring()
    plant = grow(demo=demo(), off=demo(enabled=False))
    assert plant.names == []
    await plant.prepare(Authority((Layer(tools=("read", "mcp:other:*", "skill:*")),)))
    assert plant.state("demo").state == "idle"
    assert offspring() == before
    await plant.prepare(Authority((Layer(tools=("read", "mcp:demo:a*")),)))
    assert "demo_add" in plant.names
    assert plant.state("demo").state == "ready", plant.state("demo").error
    assert plant.state("off").state == "disabled"
    assert len(offspring()) > len(before)


async def test_its_tools_are_tools(grow: Grow) -> None:
    plant = grow(demo=demo())
    await plant.prepare()
    assert await plant.value("demo_add", a=2, b=3.0) == {"structured": {"result": 5}}
    assert await plant.value("demo_echo", text="hello") == "hello"
    assert await plant.error("demo_fail", why="no pots left") == "Error executing tool fail: no pots left"
    place = await plant.value("demo_where", place={"city": "Bern"})
    assert place == {"structured": {"place": {"city": "Bern", "zip": None}, "kind": "a"}}
    [described] = (await plant.value("demo_picture"))["parts"]
    assert described == {"type": "image", "mime_type": "image/png", "bytes": 3006}
    specs = {tool.spec.name: tool for tool in plant.connectors.tools()}
    assert specs["demo_add"].spec.source == "mcp"
    assert not specs["demo_add"].spec.read_only, "what a server says of itself is not believed"
    assert len(specs["demo_add"].spec.description) == 200
    assert specs["demo_add"].rule_names == ("mcp:demo:add",)


async def test_wrong_arguments_are_never_sent(grow: Grow) -> None:
    plant = grow(demo=demo())
    await plant.prepare()
    assert "text: must be of type string" in await plant.error("demo_echo", text={"a": 7})
    assert "text: is required" in await plant.error("demo_echo")
    assert "must be of type string" in await plant.error("demo_where", place={"city": ["Bern"]})
    assert await plant.value("demo_count") == "0"
    await plant.value("demo_echo", text="x")
    assert await plant.value("demo_count") == "1"


async def test_hints_count_where_the_operator_says_so(grow: Grow) -> None:
    plant = grow(demo=demo(trust_hints=True))
    await plant.prepare()
    hints = {tool.spec.name: tool.spec.read_only for tool in plant.connectors.tools()}
    assert hints["demo_add"]
    assert not hints["demo_echo"]


async def test_long_results_are_spilled(grow: Grow) -> None:
    plant = grow(demo=demo())
    await plant.prepare()
    result = await plant.call("demo_big", size=1_000_000)
    assert result.metadata["truncated"]
    assert Path(result.metadata["output_path"]).stat().st_size == 1_000_000  # noqa: ASYNC240
    await plant.value("demo_echo", text="x")
    assert "larger than the limit of 4 MiB" in await plant.error("demo_big", size=8_000_000)
    assert await plant.value("demo_count") == "1", "it is not started anew"


async def test_it_sees_the_workspace_and_nothing_else(grow: Grow) -> None:
    os.environ["SERVER_SECRET"] = "of the server"
    try:
        plant = grow(demo=demo(env={"GIVEN": "something"}), bold=demo(write=True))
        await plant.prepare()
        (plant.home.workspace / "note.txt").write_text("a note")
        (plant.home.data_dir / "agent.db").write_text("the database")
        assert await plant.value("demo_variable", name="GIVEN") == "something"
        assert await plant.value("demo_variable", name="SERVER_SECRET") == "unset"
        workspace = str(plant.home.workspace)
        assert await plant.value("demo_read_file", path=f"{workspace}/note.txt") == "a note"
        assert "Error" in await plant.error("demo_read_file", path=str(plant.home.data_dir / "agent.db"))
        assert "Error" in await plant.error("demo_write_file", path=f"{workspace}/new.txt", text="x")
        assert await plant.value("bold_write_file", path=f"{workspace}/new.txt", text="x") == "written"
        assert (plant.home.workspace / "new.txt").read_text() == "x"
    finally:
        del os.environ["SERVER_SECRET"]


async def test_it_has_the_network_that_it_was_given(grow: Grow) -> None:
    from agent_common.net import ANY_ADDRESS

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    site = await asyncio.start_server(page, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}/"
    plant = grow(
        ground={"upstream": DirectUpstream(ANY_ADDRESS)},
        none=demo(),
        some=demo(network=["127.0.0.1"]),
        other=demo(network=["example.org"]),
    )
    await plant.prepare()
    assert await plant.value("some_fetch", url=url) == "hi"
    assert "Error" in await plant.error("none_fetch", url=url)
    assert "Error" in await plant.error("other_fetch", url=url)
    site.close()
    await site.wait_closed()


async def test_a_server_that_dies_in_a_call_is_back_for_the_next_turn(grow: Grow) -> None:
    secret = "hunter2-hunter2"
    plant = grow(
        Timeouts(first_wait=15, backoff=(0.3, 0.3)), environment={"KEY": secret}, demo=demo(env={"KEY": "${KEY}"})
    )
    await plant.prepare()
    names = plant.names
    error = await plant.error("demo_die", words=f"bad key {secret}")
    assert error.startswith("the MCP server demo is unavailable: ")
    assert "exit code 7" in error
    assert "bad key [redacted]" in error
    assert secret not in error
    assert plant.state("demo").state == "waiting"
    assert plant.names == names, "the tools stay where they are"
    again = await plant.error("demo_echo", text="x")
    assert "the next attempt is in" in again
    await until(lambda: plant.state("demo").state == "ready")
    assert await plant.value("demo_echo", text="x") == "x"


async def test_a_server_that_is_killed_in_a_call(grow: Grow) -> None:
    others = offspring()  # such as servers that other tests share
    plant = grow(demo=demo())
    await plant.prepare()
    calling = asyncio.create_task(plant.error("demo_slow", seconds=30))
    await asyncio.sleep(0.3)
    for pid in set(offspring()) - set(others):
        with contextlib.suppress(psutil.NoSuchProcess):  # launchers come and go
            if psutil.Process(pid).name().startswith("python"):
                os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert "the MCP server demo is unavailable" in await calling


async def test_pauses_between_attempts_grow(grow: Grow) -> None:
    pauses: list[float] = []
    gate = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 7:
            await gate.wait()

    plant = grow(Timeouts(first_wait=15, sleep=sleep), bad=script("import sys; sys.exit('no such luck')"))
    await plant.prepare()
    await until(lambda: len(pauses) == 7)
    assert pauses == [1, 2, 5, 15, 60, 60, 60]
    assert plant.state("bad").state == "waiting"
    assert "no such luck" in plant.state("bad").error
    assert plant.names == []
    await asyncio.wait_for(plant.prepare(), 0.5)  # a turn does not wait for it again


async def test_a_call_that_takes_too_long_meets_its_deadline(grow: Grow) -> None:
    plant = grow(demo=demo(timeout_ms=400), gate=ToolGate(timeout=20))
    await plant.prepare()
    told = "demo_slow did not finish within its deadline of 0.4 s; the operator can raise it by "
    assert await plant.error("demo_slow", seconds=30) == f"{told}timeout_ms of the server demo in mcp.json"
    assert await plant.value("demo_echo", text="still here") == "still here"


async def test_new_tools_are_there_at_the_next_turn(grow: Grow) -> None:
    plant = grow(demo=demo())
    await plant.prepare()
    before = plant.names
    await plant.value("demo_grow", name="later")
    await until(lambda: "demo_later" in plant.names)
    assert [name for name in plant.names if name != "demo_later"] == before
    assert await plant.value("demo_later") == "later"


async def test_an_idle_server_is_ended_and_comes_back_when_it_is_called(grow: Grow) -> None:
    before = len(offspring())
    plant = grow(Timeouts(first_wait=15, idle=1.0), demo=demo())
    await plant.prepare()
    assert len(offspring()) > before
    await until(lambda: plant.state("demo").state == "idle")
    await until(lambda: len(offspring()) == before)
    assert "demo_echo" in plant.names
    assert plant.state("demo").error is None
    assert await plant.value("demo_echo", text="awake") == "awake"


async def test_what_a_server_wants_of_us_is_refused(grow: Grow) -> None:
    plant = grow(demo=demo())
    await plant.prepare()
    assert "refused" in await plant.value("demo_ask_model")


async def test_two_servers_with_the_same_tools(grow: Grow) -> None:
    plant = grow(one=demo(), two=demo())
    await plant.prepare()
    assert {"one_echo", "two_echo"} <= set(plant.names)
    await plant.value("one_echo", text="x")
    assert await plant.value("one_count") == "1"
    assert await plant.value("two_count") == "0"


async def test_a_slow_start_does_not_hold_up_a_turn(grow: Grow) -> None:
    plant = grow(Timeouts(first_wait=0.3, connect=30), slow=script("import time; time.sleep(60)"), demo=demo())
    began = asyncio.get_running_loop().time()
    await plant.prepare()
    assert asyncio.get_running_loop().time() - began < 2
    await plant.prepare()
    await until(lambda: "demo_echo" in plant.names)


async def test_nothing_is_left_after_close(grow: Grow) -> None:
    before = offspring()
    plant = grow(demo=demo())
    await plant.prepare()
    calling = asyncio.create_task(plant.call("demo_slow", seconds=30))
    await asyncio.sleep(0.1)
    await plant.connectors.close()
    assert (await calling).type == "error"
    await until(lambda: offspring() == before)
    assert "unavailable" in await plant.error("demo_echo", text="x")


NEWEST = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    match asked["method"]:
        case "server/discover":
            answer = {**about, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
        case "tools/list":
            answer = {**about, "tools": [{"name": "ok", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            answer = {"resultType": "complete", "content": [{"type": "text", "text": "new"}]}
        case _:
            answer = None
    if "id" in asked:
        failed = {"error": {"code": -32601, "message": "Method not found"}}
        body = {"result": answer} if answer else failed
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **body}), flush=True)
"""


async def test_a_server_that_speaks_the_newest_protocol_alone(grow: Grow) -> None:
    plant = grow(it=script(NEWEST))
    await plant.prepare()
    assert plant.state("it").error is None
    assert await plant.value("it_ok") == "new"
