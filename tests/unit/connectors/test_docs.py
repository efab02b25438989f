"""docs/how-to/mcp.md and docs/reference/mcp.md, held to the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_common.mcp_servers import MAX_START_TIMEOUT_MS, OAuthConfig, ServerFields
from agent_common.protocol.authority import Access, decide
from agent_host.services import load_services
from agent_runtime.agents import ProjectRules
from agent_runtime.connectors import Timeouts, rate_limit
from agent_runtime.connectors.config import config
from agent_runtime.connectors.config.config import parse_servers
from agent_runtime.connectors.session import server_connection, session
from agent_runtime.connectors.tools import descriptions, schemas, tool_adapter
from agent_runtime.connectors.tools.tool_adapter import CAPABILITY
from agent_runtime.connectors.transport import refusals
from agent_runtime.tools.agent import tool_search
from agent_runtime.tools.catalog import registry
from agent_runtime.tools.core import deadline

PAGE = "\n".join((Path(__file__).parents[3] / "docs" / kind / "mcp.md").read_text() for kind in ("how-to", "reference"))
LIMITS = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.partition("## Limits")[2], re.MULTILINE))


def examples(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_are_taken() -> None:
    found = [
        server
        for text in examples("json")
        for server in parse_servers(
            json.loads(text), Path("/data"), {"NOTES_TOKEN": "a", "DOCS_KEY": "b", "WIKI_SECRET": "c"}
        )
    ]
    assert [server.name for server in found] == ["notes", "docs", "tickets", "wiki"]


def test_the_rules_are_taken(tmp_path: Path) -> None:
    (rules,) = (text for text in examples("yaml") if text.startswith("rules:"))
    (tmp_path / "permissions.yaml").write_text(rules)
    taken = ProjectRules.read(tmp_path).rules
    for tool, action in (("search", "allow"), ("delete_page", "deny")):
        access = Access(f"docs_{tool}", (f"mcp:docs:{tool}",), (CAPABILITY,))
        assert decide(taken, access).action == action


def test_the_service_is_taken(tmp_path: Path) -> None:
    (services,) = (text for text in examples("yaml") if "services:" in text)
    (tmp_path / "services.yaml").write_text(services)
    assert load_services(tmp_path / "services.yaml").services.keys() == {"tickets"}


def test_every_field_is_told() -> None:
    fields = PAGE.partition("| field |")[2].partition("##")[0]
    for name in ServerFields.model_fields.keys() - {"name"}:
        assert f"`{name}`" in fields
    for name, field in OAuthConfig.model_fields.items():
        assert f"`{name}{'' if field.is_required() else '?'}`" in PAGE
    assert f"together ({ServerFields.model_fields['memory_mb'].default})" in fields


def test_the_limits_are_those_of_the_code() -> None:
    assert LIMITS["servers"] == str(config.MAX_SERVERS)
    assert (
        LIMITS["tools of a server"]
        == f"{session.MAX_TOOLS}, on {session.MAX_PAGES} pages, among {session.MAX_ENTRIES} entries"
    )
    told = f"{schemas.TEXT_LIMIT} characters; `tool_search` shows {descriptions.DETAILS_LIMIT} of"
    assert LIMITS["description of a tool or a parameter"].startswith(told)
    told = f"{registry.MAX_DETAILS_LENGTH} characters of all tools"
    assert LIMITS["what is said of a tool beyond that, in the list of an agent without `tool_search`"].startswith(told)
    told = f"{descriptions.INSTRUCTIONS_LIMIT} characters"
    assert LIMITS["instructions of a server, as `tool_search` shows them"] == told
    assert LIMITS["time of a call that reports progress"] == f"{deadline.MAX_EXTENSION} times its deadline"
    assert LIMITS["schema of a tool"] == f"{schemas.MAX_SCHEMA_LENGTH // 1024} KiB, {schemas.MAX_DEPTH} levels"
    told = f"{tool_adapter.MAX_SCHEMAS_LENGTH // 2**20} MiB;"
    assert LIMITS["schemas of all tools of a server"].startswith(told)
    assert LIMITS["streams of a server that end and are opened again"].startswith(f"{rate_limit.MAX_STREAMS} at once")
    assert LIMITS["one message"] == f"{rate_limit.MESSAGE_LIMIT // 2**20} MiB, {rate_limit.MAX_NODES} values"
    size = rate_limit.UNIT // 1024
    told = f"{rate_limit.RATE:g} a second after the first {rate_limit.BURST:g}; a message of more than {size} KiB"
    assert LIMITS["messages"].startswith(told)
    assert LIMITS["lines that are no messages"] == f"{rate_limit.MAX_NOISE_LINES} in a row"
    told = f"{rate_limit.MAX_REQUESTS} at once, {rate_limit.REQUEST_RATE:g} a second afterwards"
    assert LIMITS["requests of a server's own"].startswith(told)
    assert LIMITS["calls of a server at once"] == str(server_connection.MAX_CALLS)
    assert LIMITS["time to connect"] == f"{Timeouts().connect:g} s, or `start_timeout_ms`"
    assert f"up to {MAX_START_TIMEOUT_MS} ({Timeouts().connect * 1000:.0f})" in PAGE
    assert LIMITS["matches of `tool_search`"] == str(tool_search.MAX_MATCHES)


def test_the_times_are_those_of_the_code() -> None:
    patience = Timeouts()
    assert f"waits {patience.first_wait:g} s at most" in PAGE
    assert f"for {patience.idle / 60:g} minutes" in PAGE
    *first, last = patience.backoff
    assert f"after {', '.join(f'{one:g}' for one in first)} and then every {last:g} s" in PAGE
    assert f"more than {registry.MAX_SHOWN} tools" in PAGE
    assert f"unanswered for {session.PROBE_SECONDS:g} s" in PAGE
    assert refusals.WRONG_CREDENTIALS in PAGE
    assert refusals.NO_CREDENTIALS.partition(" {")[0] in PAGE
