"""A local MCP server whose program lies in the workspace: what the agent writes there decides over no folder that the
server sees, neither when it starts again nor when the runtime does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh

OPEN = "description: Asks for nothing.\nmode: all\npermissions: {'*': allow}\n"
SERVER = """#!/usr/bin/python3
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    name = asked.get("params", {}).get("name")
    if name == "leave":
        sys.exit(0)
    seen = "open" if os.path.exists(KEY) else "closed"
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "peek", "version": "1"}},
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("peek", "leave")]},
        "tools/call": {"content": [{"type": "text", "text": "it is " + seen}]},
    }
    if "id" in asked:
        answer = answers.get(asked["method"])
        known = {"result": answer} if answer else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **known}), flush=True)
"""


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder of this machine that nobody has named, with what a folder of programs has."""
    folder = tmp_path / "elsewhere" / "secrets"
    folder.mkdir(parents=True)
    (folder / "key").write_text("KEY=1")
    (folder / "python3").touch()
    return folder


@pytest.fixture
def agent(tmp_path: Path, secrets: Path) -> Iterator[Runtime]:
    data = tmp_path / "data"
    program = data / "workspace" / "venv" / "bin" / "srv"
    program.parent.mkdir(parents=True)
    (data / "agents").mkdir()
    (data / "agents" / "open.yaml").write_text(OPEN)
    program.write_text(SERVER.replace("KEY", repr(str(secrets / "key"))))
    program.chmod(0o755)
    servers: dict[str, Any] = {
        "it": {"command": str(program)},
        "control": {"command": str(program), "read": [str(secrets)]},
    }
    (data / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with ScriptedProvider() as provider, Runtime(provider, data) as runtime:
        runtime.meets_its_servers()
        yield runtime


def call(agent: Runtime, tool: str, **arguments: Any) -> str:
    agent.provider.script.replace([Call(tool, arguments), Say("done")])
    reply = agent.chat("go", session_id=fresh("s"), agent="open")
    assert reply.status_code == 200, reply.text
    return json.dumps(reply.json()["tool_outputs"])


def peeks(agent: Runtime) -> tuple[bool, bool]:
    """Whether each of the servers sees the folder, once it answers."""

    def told(name: str) -> str | None:
        said = call(agent, f"{name}_peek")
        return said if "it is " in said else None

    return tuple("it is open" in eventually(lambda name=name: told(name)) for name in ("it", "control"))  # pyright: ignore[reportReturnType]


def test_the_agent_opens_no_folder_to_a_server(agent: Runtime, secrets: Path) -> None:
    assert peeks(agent) == (False, True)
    written = call(agent, "write", path="venv/pyvenv.cfg", content=f"home = {secrets}\n")
    assert (agent.data_dir / "workspace" / "venv" / "pyvenv.cfg").exists(), written
    call(agent, "bash", command=f"ln -s {secrets}/python3 venv/bin/python3; ln -s {secrets} venv/lib")
    call(agent, "it_leave")
    assert peeks(agent) == (False, True), "started again by the runtime"
    agent.start()
    agent.meets_its_servers()
    assert peeks(agent) == (False, True), "started by the next runtime"
