"""The runtime's connectors as a client that the official conformance suite of MCP can drive: `client.py URL`.

The environment says which scenario is played, and what to call. Where credentials are given, this program is the
operator as well, who looks up the token endpoint and writes it into the configuration.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from agent_common.protocol.authority import Authority
from agent_runtime.connectors import ConnectorDeps, ConnectorManager, Timeouts
from agent_runtime.connectors.config.config import parse_servers
from agent_runtime.ports import ToolContext
from agent_runtime.sandbox import Confinement, SandboxLimits
from agent_runtime.tools import ToolGate, ToolRegistry

SAMPLES = {"string": "x", "number": 1.5, "integer": 2, "boolean": True, "array": [], "object": {}}


async def main(url: str, context: Mapping[str, Any]) -> int:
    server = {"url": url, **({"oauth": operator(url, context)} if "client_secret" in context else {})}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        found = parse_servers({"mcpServers": {"suite": server}}, home, {})
        ground = ConnectorDeps(Confinement(None), home / "workspace", SandboxLimits(), home)
        connectors = ConnectorManager(found, ground, Timeouts(first_wait=30))
        try:
            await connectors.ready(Authority())
            [state] = connectors.servers()
            print(state, file=sys.stderr)
            tools = ToolRegistry((), connectors, gate=ToolGate(timeout=20)).snapshot()
            for name, arguments in calls(connectors, context):
                print(
                    name, await tools.run(name, arguments, ToolContext("ses_1", "call_1", home, home)), file=sys.stderr
                )
        finally:
            await connectors.close()
    return 0 if state.state == "ready" else 1


def operator(url: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """The `oauth` of a configuration, by what the server says of its authorization server."""
    parts = urlsplit(url)
    here = f"{parts.scheme}://{parts.netloc}"
    about = httpx.get(f"{here}/.well-known/oauth-protected-resource{parts.path}", trust_env=False).json()
    issuer = about["authorization_servers"][0]
    metadata = httpx.get(f"{issuer}/.well-known/oauth-authorization-server", trust_env=False).json()
    [method] = metadata["token_endpoint_auth_methods_supported"]
    return {
        "token_url": metadata["token_endpoint"],
        "client_id": context["client_id"],
        "client_secret": context["client_secret"],
        "token_endpoint_auth_method": method,
    }


def calls(connectors: ConnectorManager, context: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the suite wants called; else each tool once, with arguments that fit."""
    for call in context.get("toolCalls", []):
        # The gate refuses null where the schema has none, so a model leaves such an argument out.
        yield f"suite_{call['name']}", {name: value for name, value in call["arguments"].items() if value is not None}
    if "toolCalls" not in context:
        for tool in connectors.tools():
            wanted = tool.spec.parameters.get("properties", {})
            yield tool.spec.name, {name: SAMPLES.get(about.get("type"), "x") for name, about in wanted.items()}


if __name__ == "__main__":
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    sys.exit(asyncio.run(main(sys.argv[1], given)))
