"""Which version of the protocol is spoken with which server."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

import pytest

from agent_runtime.connectors import Timeouts

from .conftest import HERE, Grow, script, web_server_at

MODERN = HERE / "modern_server.py"
ONCE = Timeouts(first_wait=15, backoff=(30.0,))
OLD = """
import json, sys
STRANGE
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"error": {"code": -32601, "message": "no such method"}}
    if asked["method"] == "initialize":
        answer = {"result": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "old", "version": "1"}}}
    elif asked["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "ok", "inputSchema": {"type": "object"}}]}}
    elif asked["method"] == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": "fine"}]}}
    elif "id" in asked:
        UNKNOWN
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def old(unknown: str = "pass", strange: str = "") -> str:
    """A server of the first protocol, and what it does with a method that it does not know."""
    return OLD.replace("UNKNOWN", unknown).replace("STRANGE", strange)


async def test_a_program_that_knows_only_the_newest(grow: Grow) -> None:
    plant = grow(ONCE, new={"command": sys.executable, "args": [str(MODERN), "stdio"], "read": [str(HERE)]})
    await plant.prepare()
    assert plant.state("new").error is None
    assert await plant.value("new_greet") == "hello"


@pytest.fixture(scope="module")
def modern_web(processes: ExitStack) -> str:
    return web_server_at(processes, MODERN)


async def test_a_web_server_that_knows_only_the_newest(modern_web: str, grow: Grow) -> None:
    plant = grow(ONCE, new={"url": modern_web})
    await plant.prepare()
    assert plant.state("new").error is None
    assert await plant.value("new_greet") == "hello"


async def test_a_program_of_an_older_one(grow: Grow) -> None:
    plant = grow(ONCE, old=script(old()))
    await plant.prepare()
    assert plant.state("old").error is None
    assert await plant.value("old_ok") == "fine"


@pytest.mark.slow
async def test_a_program_that_never_answers_what_it_does_not_know(grow: Grow) -> None:
    plant = grow(Timeouts(backoff=(30.0,)), old=script(old("continue")))
    began = time.monotonic()
    await plant.prepare()  # as long as a turn waits
    assert plant.state("old").state == "ready", (plant.state("old"), time.monotonic() - began)
    assert await plant.value("old_ok") == "fine"


async def test_a_program_that_ends_over_what_it_does_not_know(grow: Grow) -> None:
    plant = grow(ONCE, old=script(old("sys.exit('expected initialize')")))
    await plant.prepare()
    assert plant.state("old").error is None
    assert await plant.value("old_ok") == "fine"


async def test_a_program_that_cannot_start_says_why(grow: Grow) -> None:
    plant = grow(ONCE, old=script(old(strange="sys.exit('no key')")))
    await plant.prepare()
    assert plant.state("old").error == "it ended (exit code 1): no key"


@pytest.mark.parametrize("supported", [["2031-01-01"], "2031-01-01"])
async def test_a_program_of_a_later_one(grow: Grow, supported: object) -> None:
    unknown = f'answer["error"] = {{"code": -32022, "message": "not yet", "data": {{"supported": {supported!r}}}}}'
    plant = grow(ONCE, late=script(old(unknown).replace('"initialize"', '"none"')))
    await plant.prepare()
    assert plant.state("late").error == "not yet"
