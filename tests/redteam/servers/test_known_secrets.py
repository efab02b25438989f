"""Secrets that the operator gave to a skill, to an MCP server, and in the address of the package index: no log line has
them, and no export."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from agent_runtime.skills import Grants, find_source
from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh

SKILL_KEY, SERVER_KEY, INDEX_KEY = "skill-canary-1234", "server-canary-5678", "index-canary-90@12"
LEAKY = """
import os

@skill
def leak() -> str:
    '''Print and return the key.'''
    print("the key is", os.environ["SKILL_KEY"])
    return os.environ["SKILL_KEY"]
"""
WANTING = """
# /// script
# dependencies = ["absent"]
# ///
import absent

@skill
def want() -> str:
    '''Want a package.'''
    return absent.text
"""
OPEN = "description: Asks for nothing.\nmode: all\npermissions: {'*': allow}\n"
SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "leak", "version": "1"}},
        "tools/list": {"tools": [{"name": "key", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": os.environ["SERVER_KEY"]}]},
    }
    if "id" in asked:
        answer = answers.get(asked["method"])
        known = {"result": answer} if answer else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **known}), flush=True)
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    data = tmp_path_factory.mktemp("secrets")
    plugin = data / "skills" / "leak.py"
    plugin.parent.mkdir()
    plugin.write_text(LEAKY)
    source = find_source(plugin)
    assert source is not None
    Grants(data / "skill-grants.json", {}).allow(source, ("SKILL_KEY",), ())
    (data / "agents").mkdir()
    (data / "agents" / "open.yaml").write_text(OPEN)
    server = {"command": sys.executable, "args": ["-c", SERVER], "env": {"SERVER_KEY": SERVER_KEY}}
    (data / "mcp.json").write_text(json.dumps({"mcpServers": {"it": server}}))
    (data / "skills" / "want.py").write_text(WANTING)
    (data / "index").write_text(f"http://reader:{quote(INDEX_KEY)}@127.0.0.1:1/simple\n")
    given = {"SKILL_KEY": SKILL_KEY, "AGENT_SKILL_INDEX_FILE": data / "index"}
    with ScriptedProvider() as provider, Runtime(provider, data, **given) as runtime:
        runtime.meets_its_servers()
        yield runtime


@pytest.mark.parametrize(("tool", "secret"), [("leak", SKILL_KEY), ("it_key", SERVER_KEY)])
def test_a_secret_leaves_by_no_export_and_no_log(agent: Runtime, tool: str, secret: str) -> None:
    agent.provider.script.replace([Call(tool, {}), Say(f"It is {secret}.")])
    reply = agent.chat("go", session_id=fresh("s"), agent="open").json()
    assert secret in json.dumps(reply["tool_outputs"]), "the tool has given it away"
    exported = agent.get(f"/sessions/{reply['session_id']}/export").text
    assert secret not in exported
    assert "[redacted]" in exported
    if tool == "leak":
        eventually(lambda: "skill printed" in agent.process.output())
    assert secret not in agent.process.output()


def test_the_password_of_the_index_is_told_to_nobody(agent: Runtime) -> None:
    """The index cannot be reached, and what uv says of it is shown."""
    eventually(lambda: "127.0.0.1:1" in agent.get("/capabilities").text)
    told = agent.get("/capabilities").text + agent.get("/status").text
    agent.provider.script.replace([Say(f"The password is {INDEX_KEY}, or {quote(INDEX_KEY)}.")])
    reply = agent.chat("go", session_id=fresh("s")).json()
    exported = agent.get(f"/sessions/{reply['session_id']}/export").text
    assert "The password is [redacted], or [redacted]." in exported
    for secret in (INDEX_KEY, quote(INDEX_KEY)):
        assert secret not in told
        assert secret not in agent.process.output()
