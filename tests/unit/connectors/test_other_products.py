"""Configurations as other products write them: taken, or refused with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runtime.connectors.config.config import ConfigFaults, LocalServer, RemoteServer, ServerConfig, parse_servers

DATA = Path("/var/lib/agent")
ENVIRONMENT = {"HOME": "/srv/ann", "TOKEN": "t-o-k-e-n", "API_KEY": "k-e-y-k-e-y"}


def read(content: Any) -> ServerConfig:
    [found] = parse_servers(content, DATA, ENVIRONMENT)
    return found


def faults(content: Any) -> list[str]:
    with pytest.raises(ConfigFaults) as raised:
        parse_servers(content, DATA, ENVIRONMENT)
    return raised.value.lines


CLAUDE = {"mcpServers": {"it": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"K": "${TOKEN}"}}}}
CLAUDE_HTTP = {
    "mcpServers": {"it": {"type": "http", "url": "https://m.example/mcp", "headers": {"A": "${NONE:-x} ${TOKEN}"}}}
}
CURSOR = {
    "mcpServers": {
        "it": {"command": "python", "args": ["${workspaceFolder}/s.py", "${userHome}/d"], "env": {"K": "${env:TOKEN}"}}
    }
}
VS_CODE = {
    "inputs": [{"type": "promptString", "id": "api-key", "description": "Key", "password": True}],
    "servers": {"it": {"type": "stdio", "command": "node", "args": ["s.js"], "cwd": "/opt/it", "dev": {"watch": "*"}}},
}
VS_CODE_SETTINGS = {"mcp": {"inputs": [], "servers": {"it": {"command": "node", "args": ["s.js"]}}}}
WINDSURF = {"mcpServers": {"it": {"serverUrl": "https://m.example/mcp", "headers": {"K": "${env:API_KEY}"}}}}
CLINE = {
    "mcpServers": {
        "it": {"url": "https://m.example/mcp", "type": "streamableHttp", "disabled": False, "autoApprove": ["a"]}
    }
}
GEMINI = {"mcpServers": {"it": {"httpUrl": "https://m.example/mcp", "trust": True}}}
OPEN_CODE = {
    "$schema": "https://opencode.example/config.json",
    "mcp": {"it": {"type": "local", "command": ["bun", "x"], "environment": {"K": "{env:TOKEN}"}, "enabled": True}},
}
ZED = {"context_servers": {"it": {"source": "custom", "command": "x", "args": [], "env": {}}}}
FAST_MCP = {"mcpServers": {"it": {"transport": "http", "url": "https://m.example/mcp"}}}
LANG_CHAIN = {"mcpServers": {"it": {"transport": "streamable_http", "url": "https://m.example/mcp"}}}
CLINE_PROGRAM = {"mcpServers": {"it": {"transportType": "stdio", "command": "x"}}}
NUMBERS = {
    "mcpServers": {
        "it": {"command": "x", "args": ["--port", 8080, True], "env": {"PORT": 3000, "DEBUG": False, "OLD": None}}
    }
}


def remote(url: str = "https://m.example/mcp", **headers: str) -> RemoteServer:
    return RemoteServer(url, headers)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (CLAUDE, LocalServer(("npx", "-y", "x"), {"K": "t-o-k-e-n"})),
        (CLAUDE_HTTP, remote(a="x t-o-k-e-n")),
        (CURSOR, LocalServer(("python", "/var/lib/agent/workspace/s.py", "/srv/ann/d"), {"K": "t-o-k-e-n"})),
        (VS_CODE, LocalServer(("node", "s.js"), {}, cwd=Path("/opt/it"))),
        (VS_CODE_SETTINGS, LocalServer(("node", "s.js"), {})),
        (WINDSURF, remote(k="k-e-y-k-e-y")),
        (CLINE, remote()),
        (GEMINI, remote()),
        (OPEN_CODE, LocalServer(("bun", "x"), {"K": "t-o-k-e-n"})),
        (ZED, LocalServer(("x",), {})),
        (FAST_MCP, remote()),
        (LANG_CHAIN, remote()),
        (CLINE_PROGRAM, LocalServer(("x",), {})),
        (NUMBERS, LocalServer(("x", "--port", "8080", "true"), {"PORT": "3000", "DEBUG": "false"})),
        ({"mcpServers": {"it": {"url": "https://m.example/mcp", "headers": {"X-Id": 7}}}}, remote(**{"x-id": "7"})),
        ({"mcpServers": {"it": {"command": "x", "type": "stdio", "transport": "anything"}}}, LocalServer(("x",), {})),
    ],
    ids=[
        *("claude", "claude http", "cursor", "vs code", "settings", "windsurf", "cline", "gemini", "opencode", "zed"),
        *("fastmcp", "langchain", "cline program", "numbers", "number of a header", "type twice"),
    ],
)
def test_what_other_products_write_is_taken(content: Any, where: LocalServer | RemoteServer) -> None:
    assert read(content).target == where


def test_a_server_that_is_disabled_elsewhere_is_disabled() -> None:
    assert read(CLINE).enabled
    unset = {"mcpServers": {"it": {"command": "x", "env": {"K": "${NONE}"}, "disabled": True, "alwaysAllow": []}}}
    assert not read(unset).enabled


def test_secrets_of_other_forms_do_not_show() -> None:
    assert "k-e-y-k-e-y" in read(WINDSURF).secrets


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("env", {"K": "${input:api-key}"}, "env.K: ${input:api-key} is not prompted for; write ${API_KEY} and set"),
        ("args", ["${config:a.b}"], "args[0]: ${config:a.b} is not known here; write its value"),
        ("args", ["${workspaceFolder:other}"], "args[0]: ${workspaceFolder:other} is not known here"),
        ("env", {"K": "${env:NONE}"}, "env.K: the environment has no NONE; set it"),
        ("envFile", ".env", "envFile: is not read; name its variables in env"),
        ("timeout", 60, "timeout: write timeout_ms, in milliseconds"),
        ("startup_timeout_sec", 60, "startup_timeout_sec: write start_timeout_ms, in milliseconds"),
        ("tool_timeout_sec", 60, "tool_timeout_sec: write timeout_ms, in milliseconds"),
        ("auth", {"CLIENT_ID": "x"}, "auth: no browser is opened for consent here; write oauth"),
        ("disabledTools", ["x"], 'disabledTools: write rules: {permission: "mcp:SERVER:TOOL", action: deny}'),
        ("source", "extension", "source: programs of extensions are not known here; write command and args"),
        ("transport", "sse", "type: must be one of local, stdio, remote, http, streamable-http; HTTP with SSE"),
        ("args", ["--ratio", 1.50], "args[1]: Input should be a valid string"),
        ("args", [None], "args[0]: Input should be a valid string"),
        ("env", {"A": ["b"]}, "env.A: Input should be a valid string"),
        ("cwd", "relative", "cwd: 'relative' must be an absolute path"),
        ("cwd", "/var/lib", "cwd: /var/lib is in the data folder, or contains it"),
    ],
)
def test_what_cannot_be_taken_says_what_to_write_instead(field: str, value: Any, says: str) -> None:
    [line] = faults({"mcpServers": {"it": {"command": "x", field: value}}})
    assert line.startswith(f"server 'it': {says}"), line
